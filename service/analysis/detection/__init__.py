"""Judgement of one history: where its level changed, how sure that is, what its noise allows.

Pure: arrays in, frozen values out. No session, no clock, no HTTP, no random numbers. The files in
the order in which a history passes through them:

history.py       what is judged; bad input is refused here, in one sentence
scale.py         values to logarithms, where a step is a ratio, and back
robust.py        running medians, spreads, clipping: what outliers cannot move
machines.py      each machine's own offset, taken out
partition.py     exact optimal partitioning: proposes changes generously
evidence.py      how strongly the points on both sides speak for one proposal
episode.py       a bad stretch that comes and goes, which is doubted
merging.py       merges the weakest proposal away until all that remain stand
explanation.py   levels plus noise, and how many words they need
modes.py         two-mode noise, told from changes because it keeps coming back
drift.py         a slow slope, told from steps because it needs fewer words
window.py        one stretch of history: the explanation that needs the fewest words
change.py        what is said of a change that stands: where, how large, how sure
noise.py         what is left: noise, and the smallest effect that would be seen
judgement.py     a whole history, window by window, so that new points cost what they are
watch.py         what the next value is expected to be: a reason to measure again
online.py        point by point: what would have been announced, and when
ratio.py         another detector: the rule of a fixed ratio
registry.py      the detectors by name
"""
