"""Says which pair a bisection measures next, or how it ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import median

from service.analysis.bisection.posterior import Posterior, Probe, Search, posterior_of
from service.schemas.bisections import BisectionOutcome, BisectionStage

SURE = 0.99
"""Probability at which a bisection ends."""
LIKELY = 0.9
"""Probability, given that there is a culprit, from which on a commit is held beside its parent."""
FEWEST_ENDS = 3
FEWEST_BESIDE = 2
"""Pairs of the ends, and of the culprit beside its parent, below which nothing is decided."""
LEAST_SHARE = 0.35
"""Share of the whole change that a culprit must show beside its parent."""
LOST_IN_A_ROW = 3
"""Probes without a measurement after which nothing more is tried."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The state of a bisection: a stage with the next pair, or an outcome."""

    stage: BisectionStage
    posterior: Posterior | None
    """None where an end cannot be measured."""
    next: tuple[int, int] | None = None
    """The commit to measure, and the one beside it."""
    outcome: BisectionOutcome | None = None
    probability: float = 0.0
    """Probability of the outcome; if undecided, that of the leading commits."""
    first: int = 0
    last: int = 0
    """The places of the first and the last commit that the outcome names."""
    share: float | None = None
    """Share of the change between the ends that the culprit shows beside its parent."""


def judged(search: Search) -> Judgement:
    """Judge all probes so far: what is next, or the outcome."""
    if not {0, search.commits} <= set(search.usable):
        return Judgement(BisectionStage.DONE, None, outcome=BisectionOutcome.UNDECIDED)
    found = posterior_of(search)
    judgement = _ends(search, found) or _culprit(search, found) or _median(found)
    if judgement.next is not None and _spent(search):
        return _done(BisectionOutcome.UNDECIDED, found)
    return judgement


def _spent(search: Search) -> bool:
    last = search.probes[-LOST_IN_A_ROW:]
    lost = len(last) == LOST_IN_A_ROW and all(_is_lost(probe) for probe in last)
    return lost or search.processes + 2 > search.most_processes


def _is_lost(probe: Probe) -> bool:
    return probe.difference is None and probe.unusable is None


def _ends(search: Search, found: Posterior) -> Judgement | None:
    """Verify that the ends differ today; None once that is sure."""
    bad = search.commits
    few = len(search.beside(bad, 0)) < FEWEST_ENDS
    if few or 1 - SURE < found.environment < SURE:
        return Judgement(BisectionStage.ENDS, found, next=(bad, 0))
    if found.environment <= 1 - SURE:
        return None
    back = search.at_old_level
    outcome = BisectionOutcome.NOT_REPRODUCED if back else BisectionOutcome.ENVIRONMENT
    return Judgement(BisectionStage.DONE, found, outcome=outcome, probability=found.environment)


def _culprit(search: Search, found: Posterior) -> Judgement | None:
    """Verify the leading commit beside its parent; None while none leads."""
    leading = found.leading
    probability = found.groups[leading]
    parent, commit = found.ends[leading : leading + 2]
    if probability < LIKELY * (1 - found.environment):
        return None
    own = search.beside(commit, parent)
    share = _share(own, search)
    if probability < SURE or len(own) < FEWEST_BESIDE or share < LEAST_SHARE:
        return Judgement(BisectionStage.CULPRIT, found, next=(commit, parent))
    one = commit - parent == 1
    return _done(BisectionOutcome.CULPRIT if one else BisectionOutcome.RANGE, found, share)


def _share(own: Sequence[float], search: Search) -> float:
    whole = median(search.beside(search.commits, 0))
    return median(own) / whole if own and whole > 0 else 0.0


def _median(found: Posterior) -> Judgement:
    """Probe where half of the probability lies on either side, beside the good end."""
    below = list(accumulate(found.groups))[:-1]
    half = sum(found.groups) / 2
    nearest = min(range(len(below)), key=lambda place: abs(below[place] - half))
    return Judgement(BisectionStage.SEARCH, found, next=(found.ends[nearest + 1], 0))


def _done(outcome: BisectionOutcome, found: Posterior, share: float | None = None) -> Judgement:
    leading = found.leading
    parent, commit = found.ends[leading : leading + 2]
    return Judgement(
        BisectionStage.DONE,
        found,
        outcome=outcome,
        probability=found.groups[leading],
        first=parent + 1,
        last=commit,
        share=share,
    )
