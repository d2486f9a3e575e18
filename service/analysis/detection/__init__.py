"""Change detection in one history: where its level changed, how sure that is, and its noise.

Pure: arrays in, frozen values out. No session, no clock, no HTTP, no random numbers. The files in
the order in which a history passes through them:

history.py         checks the input; values to logarithms, where a step is a ratio, and back
robust.py          running medians, spreads and clipping that resist outliers
evidence.py        weighs the points on both sides of a proposed change
support.py         adds what is known of a place from elsewhere
segment_model.py   proposes changes generously and removes the weakest until all are significant
window.py          finds the shortest description of one stretch, without offsets, modes and slope
change.py          describes a change (place, size, certainty) and the noise that remains
windows.py         analyses a whole history window by window, so that new points cost little
prediction.py      predicts the next value: a reason to measure again
together.py        judges the histories of one suite, each with the others as witnesses
alarms.py          goes point by point: which change would have been announced, and when
sample_size.py     the number of processes that a given precision needs
fixed_ratio.py     another detector: the rule of a fixed ratio
registry.py        the detectors by name
"""
