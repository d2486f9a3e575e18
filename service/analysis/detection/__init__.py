"""Change detection in one history: where its level changed, how sure that is, and its noise.

Pure: arrays in, frozen values out. No session, no clock, no HTTP, no random numbers. The files in
the order in which a history passes through them:

history.py         checks the input; bad input is refused here, in one sentence
scale.py           converts values to logarithms, where a step is a ratio, and back
robust.py          running medians, spreads and clipping that resist outliers
machines.py        takes out the offset of each machine
partition.py       optimal partitioning: proposes changes generously
evidence.py        weighs the points on both sides of a proposed change
transient.py       doubts a bad stretch that comes and goes
pruning.py         removes the weakest proposal until all that remain are significant
segment_model.py   levels plus noise, and the description length of both
modes.py           separates two-mode noise from changes, because it keeps coming back
drift.py           separates a slow slope from steps by its shorter description
window.py          finds the shortest description of one stretch of history
change.py          describes a change: place, size, certainty
noise.py           the remaining noise, and the smallest change that would be seen
windows.py         analyses a whole history window by window, so that new points cost little
paired_steps.py    reports the recovery from a drop that was reported
prediction.py      predicts the next value: a reason to measure again
alarms.py          goes point by point: which change would have been announced, and when
sample_size.py     the number of processes that a given precision needs
fixed_ratio.py     another detector: the rule of a fixed ratio
registry.py        the detectors by name
"""
