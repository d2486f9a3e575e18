"""Finds the commit that changed a metric, from pairs of processes. Pure.

A probe holds one commit beside the good end (or beside its parent), as one pair on one device.
`judged` takes all probes and says what is next, or how it ends: verify that the ends differ today,
probe the posterior median, verify the culprit beside its parent. Where the ends differ by more than
it explains, the rest of the range is searched likewise.
"""

from service.analysis.bisection.judgement import Judgement, judged
from service.analysis.bisection.posterior import Probe, Search

__all__ = ["Judgement", "Probe", "Search", "judged"]
