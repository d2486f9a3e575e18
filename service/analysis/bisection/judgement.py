"""Says which pair a bisection measures next, or how it ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median

from service.analysis.bisection import remainder
from service.analysis.bisection.posterior import Posterior, Search, posterior_of
from service.schemas.bisections import BisectionOutcome, BisectionStage

SURE = 0.99
"""Probability at which a bisection ends."""
LIKELY = 0.9
"""Probability, given that there is a culprit, from which on a commit is held beside its parent."""
FEWEST_ENDS = 3
FEWEST_BESIDE = 2
"""Pairs of the ends, and of the culprit beside its parent, below which nothing is decided."""
LEAST_SHARE = 0.35
"""Share of what is searched that a culprit shows beside its parent; less has to be sure."""
LOST_IN_A_ROW = 3
"""Probes without a measurement after which nothing more is tried."""


@dataclass(frozen=True, slots=True)
class Named:
    """A commit, or a range that holds one, that made a part of the change."""

    first: int
    last: int
    """The places of its first and its last commit."""
    probability: float
    share: float
    """Share of the change between the ends that it shows beside its parent."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The state of a bisection: a stage with the next pair, or an outcome."""

    stage: BisectionStage
    posterior: Posterior | None
    """Posterior of the largest culprit; None if an end cannot be measured."""
    next: tuple[int, int] | None = None
    """The commit to measure, and the one beside it."""
    outcome: BisectionOutcome | None = None
    probability: float = 0.0
    """Probability of the outcome; if undecided, that of the leading commits."""
    first: int = 0
    last: int = 0
    """The places of the first and the last commit that the outcome names."""
    named: tuple[Named, ...] = ()
    """The culprits that are verified so far; of an outcome the largest first."""
    chances: tuple[float, ...] = ()
    """Probability of each commit after the good end that it changed something."""

    @property
    def share(self) -> float | None:
        """Share of the change that the largest culprit shows beside its parent."""
        return self.named[0].share if self.named else None


@dataclass(frozen=True, slots=True)
class _Part:
    """The search for one culprit: in the whole change, or in what known culprits leave of it."""

    whole: Search
    steps: tuple[remainder.Step, ...]
    """Those of the known culprits; places of the posterior are without them."""
    size: float
    """Change that the culprit has to explain, as the logarithm of a ratio."""
    found: Posterior

    @property
    def groups(self) -> list[remainder.Step]:
        """Each group of the posterior: its parent, and its last commit."""
        places = [remainder.places_of(place, self.steps) for place in self.found.ends]
        return [(before[1], after[0]) for before, after in pairwise(places)]


def judged(search: Search) -> Judgement:
    """Judge all probes so far: what is next, or the outcome."""
    if not {0, search.commits} <= set(search.usable):
        return Judgement(BisectionStage.DONE, None, outcome=BisectionOutcome.UNDECIDED)
    found = posterior_of(search)
    judgement = _ends(search, found) or _searched(search, found)
    if judgement.next is None or not _spent(search):
        return judgement
    if judgement.named:
        return _done(judgement)
    parent, last = found.ends[found.leading : found.leading + 2]
    return replace(
        judgement,
        stage=BisectionStage.DONE,
        next=None,
        outcome=BisectionOutcome.UNDECIDED,
        probability=found.groups[found.leading],
        first=parent + 1,
        last=last,
    )


def _spent(search: Search) -> bool:
    last = search.probes[-LOST_IN_A_ROW:]
    lost = len(last) == LOST_IN_A_ROW and all(
        probe.difference is None and probe.unusable is None for probe in last
    )
    return lost or search.processes + 2 > search.most_processes


def _ends(search: Search, found: Posterior) -> Judgement | None:
    """Verify that the ends differ today; None once that is sure."""
    bad = search.commits
    few = len(search.beside(bad, 0)) < FEWEST_ENDS
    if few or 1 - SURE < found.environment < SURE:
        return Judgement(BisectionStage.ENDS, found, next=(bad, 0), chances=found.commits)
    if found.environment <= 1 - SURE:
        return None
    back = search.at_old_level
    outcome = BisectionOutcome.NOT_REPRODUCED if back else BisectionOutcome.ENVIRONMENT
    return Judgement(
        BisectionStage.DONE,
        found,
        outcome=outcome,
        probability=found.environment,
        chances=found.commits,
    )


def _searched(search: Search, found: Posterior) -> Judgement:
    """Search the largest culprit, then whoever made what it leaves of the change."""
    whole = median(search.beside(search.commits, 0))
    part: _Part | None = _Part(search, (), whole, found)
    judgement = Judgement(BisectionStage.SEARCH, found, chances=found.commits)
    while part is not None:
        judgement = replace(judgement, chances=_chances(part, judgement.chances))
        if judgement.named and part.found.environment >= SURE:
            break
        verified = _verified(part, whole)
        if not isinstance(verified, Named):
            culprit = BisectionStage.SEARCH if verified is None else BisectionStage.CULPRIT
            stage = BisectionStage.REST if judgement.named else culprit
            return replace(judgement, stage=stage, next=verified or _halving(part))
        judgement = replace(judgement, named=(*judgement.named, verified))
        part = _rest(search, judgement.named)
    return _done(judgement)


def _rest(search: Search, named: Sequence[Named]) -> _Part | None:
    """The search for whoever made what is left; None if nothing or no other commit may be."""
    steps = tuple((one.first - 1, one.last) for one in named)
    left = remainder.rest_of(search, steps)
    if left is None:
        return None
    inner = remainder.without(search, steps, left)
    return _Part(search, steps, left, posterior_of(inner)) if inner.commits else None


def _chances(part: _Part, before: Sequence[float]) -> tuple[float, ...]:
    """The probability of each commit to be this culprit or one that was looked for before."""
    chances = list(before)
    for probability, (parent, last) in zip(part.found.groups, part.groups, strict=True):
        for place in range(parent, last):
            chances[place] = max(chances[place], probability / (last - parent))
    return tuple(chances)


def _verified(part: _Part, whole: float) -> Named | remainder.Step | None:
    """The leading commit once it is verified beside its parent; until then their pair.

    None while no commit leads.
    """
    leading = part.found.leading
    probability = part.found.groups[leading]
    parent, commit = part.groups[leading]
    if probability < LIKELY * (1 - part.found.environment):
        return None
    own = part.whole.beside(commit, parent)
    if probability < SURE or not _made(part, own):
        return commit, parent
    return Named(parent + 1, commit, probability, median(own) / whole)


def _made(part: _Part, own: Sequence[float]) -> bool:
    """Return True if a commit, by pairs beside its parent, made enough of what is searched.

    A smaller part has to be sure: then somebody else made the larger one, and is searched next.
    """
    if len(own) < FEWEST_BESIDE or part.size <= 0:
        return False
    shown = median(own)
    sure = len(own) >= FEWEST_ENDS and shown > remainder.least_part(part.whole, own)
    return shown >= LEAST_SHARE * part.size or sure


def _halving(part: _Part) -> remainder.Step:
    """The pair that half of the probability lies in, beside the earliest commit that it can be."""
    half = sum(part.found.groups) / 2
    starts = [remainder.start_of(commit, part.steps) for _, commit in part.groups]
    seen = [
        sum(
            probability
            for probability, other, (_, last) in zip(
                part.found.groups, starts, part.groups, strict=True
            )
            if other == start and last <= commit
        )
        for start, (_, commit) in zip(starts, part.groups, strict=True)
    ]
    nearest = min(range(len(seen)), key=lambda place: abs(seen[place] - half))
    return part.groups[nearest][1], starts[nearest]


def _done(judgement: Judgement) -> Judgement:
    """End with the culprits that are named, the largest as the outcome."""
    named = tuple(sorted(judgement.named, key=lambda one: -one.share))
    largest = named[0]
    one = largest.first == largest.last
    return replace(
        judgement,
        named=named,
        stage=BisectionStage.DONE,
        next=None,
        outcome=BisectionOutcome.CULPRIT if one else BisectionOutcome.RANGE,
        probability=largest.probability,
        first=largest.first,
        last=largest.last,
    )
