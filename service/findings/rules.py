"""Decides which changes become a finding, which share one, and when a finding is over. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from service.analysis.detection.alarms import PATIENCE, SAME
from service.analysis.detection.scale import HIGHEST
from service.findings.types import Candidate, FindingKind
from service.history.compare import LEAST_EFFECT
from service.history.placed_changes import PlacedChange, SeriesAnalysis
from service.history.recent import RecentPoints, without_worker_offset

RECENT = 60
"""Points. A change that lies further back when it is first seen (an imported history, say) is
shown where it is and announced to nobody."""
FALSE_SHARE = 0.2
"""Of the findings that a day opens, at most this share is expected to be false. One look in five
for nothing is what people bear before they stop looking."""
RECOVERED = 0.25
"""What is left of a change when it counts as taken back: three quarters are gone."""
RETURNED = 3
"""Points in a row at the old level after which a change begins anew, if it was over for somebody:
two may be flukes."""
ALIKE = 2.0
"""The first estimate of an effect, from four points, is seldom off by more than this factor."""
CLEARLY = 4.5
"""Median deviations that chance seldom exceeds: three standard deviations of normal noise."""
LEAVING = 2
"""Newest points at the old level at which a change may be ending: then more of them are awaited.
The detector needs some more to end it, and meanwhile takes them for a part of the new level."""
NEAR = 3
"""Revisions, or points of a series, by which small changes may be placed apart."""


def worth_telling(change: float) -> bool:
    """Return True if a change of this size, a share of the level before, is worth reporting.

    What moved by less is shown where it is: machines that are the same in everything that one can
    see differ by as much, and a node's own offset is known no better after a few points.
    """
    return abs(change) >= LEAST_EFFECT


def recent(standing: SeriesAnalysis, placed: PlacedChange) -> bool:
    """Return True if a change lies near enough to the end to be news."""
    return standing.points - placed.change.index <= RECENT


def stands(standing: SeriesAnalysis, placed: PlacedChange) -> bool:
    """Return True if a change has stood long enough to be believed without measuring again."""
    return standing.points - placed.change.index >= PATIENCE


def leaving(standing: SeriesAnalysis, tail: RecentPoints, placed: PlacedChange) -> bool:
    """Return True if a change is the last one and the newest points are back at its old level."""
    if placed.change.index != max(each.change.index for each in standing.changes):
        return False
    own = without_worker_offset(tail, standing.machine_offsets)
    before, after = placed.change.before, placed.change.after
    return all(taken_back(before, after, own(point)) for point in tail.points[-LEAVING:])


def beside_ill(tail: RecentPoints, index: int, ill: frozenset[str]) -> bool:
    """Return True if a worker known to be slow measured a point, or the one before it.

    What begins or ends there is that worker's doing.
    """
    at = index - tail.first
    return any(point.worker in ill for point in tail.points[max(0, at - 1) : at + 1])


@dataclass(frozen=True, slots=True)
class KnownChange:
    """A change of a series that somebody was told of, as far as it is known again by that."""

    index: int
    """Where it lay."""
    effect: float
    low: float
    high: float
    closed: bool = False
    """Whether the finding about it is closed: what is of another size is told then."""
    only: frozenset[str] | None = None
    """First points of the changes that it may be; None if it may be any."""
    news: frozenset[int] = frozenset()
    """Indexes of changes that it is not."""
    since: int | None = None
    """Where it may lie from: the first point after the last good one, which may have come in late.
    None: from ``index`` on."""

    def apart(self, change: PlacedChange) -> int:
        """By how many points a change lies outside of where this one may lie."""
        index, since = change.change.index, self.index if self.since is None else self.since
        return max(since - index, index - self.index, 0)

    def near(self, change: PlacedChange) -> bool:
        """Return True if a change agrees with this one in place and direction."""
        return self.apart(change) <= SAME and (change.change.effect > 0) == (self.effect > 0)

    def may_be(self, change: PlacedChange) -> bool:
        """Return True if nothing tells a change from this one."""
        found = change.change
        size = alike(self.effect, found.effect)
        size = size or (self.low <= found.effect_high and found.effect_low <= self.high)
        return (
            self.near(change)
            and (size or not self.closed)
            and (self.only is None or change.first_bad_result in self.only)
            and found.index not in self.news
        )


def alike(one: float, other: float) -> bool:
    """Return True if two effects may be one: of one direction, and neither over twice the other."""
    return one * other > 0 and max(abs(one), abs(other)) <= ALIKE * min(abs(one), abs(other))


def assigned(
    changes: Sequence[PlacedChange], known: Sequence[KnownChange]
) -> list[PlacedChange | None]:
    """For each change that somebody was told of, the one that it is by now.

    More points may move a change by a few places; they do not turn it round, and two changes
    never become one: the nearest pairs are matched first.
    """
    pairs = sorted(
        (told.apart(change), abs(change.change.index - told.index), change.change.index, place)
        for change in changes
        for place, told in enumerate(known)
        if told.may_be(change)
    )
    by_index = {change.change.index: change for change in changes}
    found: list[PlacedChange | None] = [None] * len(known)
    for _, _, index, place in pairs:
        if index in by_index and found[place] is None:
            found[place] = by_index.pop(index)
    return found


def changes_near(changes: Iterable[PlacedChange], index: int) -> list[PlacedChange]:
    """The changes within `NEAR` points of a place, the nearest first."""
    near = [each for each in changes if abs(each.change.index - index) <= NEAR]
    return sorted(near, key=lambda each: abs(each.change.index - index))


def accepted(candidates: Iterable[Candidate], doubts: Sequence[float]) -> list[Candidate]:
    """The candidates that may be opened beside findings with ``doubts`` opened the same day.

    The surest come first, and each is taken while the expected share of false ones among all
    stays within ``FALSE_SHARE`` (the direct posterior approach of Newton et al., 2004).
    """
    taken: list[Candidate] = []
    total = math.fsum(doubts)
    for candidate in sorted(candidates, key=lambda each: (each.doubt, each.series.id)):
        share = (total + candidate.doubt) / (len(doubts) + len(taken) + 1)
        # A surer past must not carry a doubtful newcomer: it has to stand by itself too.
        if max(share, candidate.doubt) > FALSE_SHARE:
            break
        total += candidate.doubt
        taken.append(candidate)
    return taken


@dataclass(frozen=True, slots=True)
class Footprint:
    """The place and the kind of a change, as far as they tell causes apart."""

    kind: FindingKind
    comparability: Mapping[str, str]
    rank: int
    """Place of the first bad revision among those of the history."""
    workloads: frozenset[str]
    project: str

    def one_cause(self, other: Footprint) -> bool:
        """Return True if two changes are put down to the same cause until somebody knows better."""
        mine, theirs = ((e.project, e.kind, e.comparability) for e in (self, other))
        apart = abs(self.rank - other.rank)
        related = bool(self.workloads & other.workloads)
        return mine == theirs and (apart == 0 or (related and apart <= NEAR))


def footprint(candidate: Candidate) -> Footprint:
    """Give the place and the kind of a candidate's change."""
    series = candidate.series
    workloads = frozenset({series.case.workload})
    facts, rank = series.comparability, candidate.rank
    return Footprint(candidate.kind, facts, rank, workloads, series.project)


def groups(candidates: Iterable[Candidate]) -> list[tuple[Candidate, ...]]:
    """One group per cause, each with its surest change first, and no series twice."""
    found: list[list[Candidate]] = []
    for candidate in sorted(candidates, key=lambda each: (each.doubt, each.series.id)):
        here = footprint(candidate)
        home = next((group for group in found if _takes_in(group, candidate, here)), None)
        if home is None:
            found.append([candidate])
        else:
            home.append(candidate)
    return [tuple(group) for group in found]


def _takes_in(group: Sequence[Candidate], candidate: Candidate, here: Footprint) -> bool:
    again = any(each.series.id == candidate.series.id for each in group)
    return not again and footprint(group[0]).one_cause(here)


def taken_back(before: float, after: float, later: float) -> bool:
    """Return True if the level ``later`` ends a change from ``before`` to ``after``.

    It is near enough to ``before``, or even beyond it.
    """
    return _left(before, after, later) <= RECOVERED


def surpassed(before: float, after: float, later: float) -> bool:
    """Return True if the level ``later`` ends a change and is itself news beside ``before``."""
    news = min(before, later) <= 0 or worth_telling(later / before - 1.0)
    return news and _left(before, after, later) < -RECOVERED


def _left(before: float, after: float, later: float) -> float:
    """Give the share of a change that is left; below zero if the level went beyond the old one."""
    if min(before, after, later) <= 0:
        left, moved = later - before, after - before
    else:
        left, moved = math.log(later / before), math.log(after / before)
    return left / moved if moved else math.inf


def clearly_at(level: float, other: float, values: Sequence[float], stray: float) -> bool:
    """Return True if some values lie at ``level``, not at ``other``, by more than chance.

    ``stray`` is the median deviation of single values from their level.
    """
    if not values:
        return False
    middle, reach = median(values), CLEARLY * stray / math.sqrt(len(values))
    return abs(middle - other) > max(abs(middle - level), reach)


def newest_return(
    values: Sequence[float], before: float, after: float, patience: int
) -> range | None:
    """Find the newest stretch at ``before`` in values that are at the level ``after`` by now.

    None if no stretch clearly is, or if fewer than ``patience`` points have followed since.
    """
    level = median(values) if values else 0.0
    stray = median(abs(value - level) for value in values) if values else 0.0
    back = [taken_back(before, after, value) for value in values]
    for stop in range(len(values) - patience, RETURNED - 1, -1):
        over, since = back[stop - RETURNED : stop], back[stop:]
        if since[0] or not all(over) or sum(since) > len(since) / 2:
            continue
        start = next((at + 1 for at in range(stop - 1, -1, -1) if not back[at]), 0)
        if clearly_at(before, after, values[start:stop], stray):
            return range(start, stop)
    return None


def recovery(standing: SeriesAnalysis, change: PlacedChange) -> PlacedChange | None:
    """The later change, standing, that takes ``change`` back."""
    later = (
        each
        for each in standing.changes
        if each.change.index > change.change.index
        and (each.change.effect > 0) != (change.change.effect > 0)
        and stands(standing, each)
    )
    told = change.change
    ends = (
        each for each in later if taken_back(told.before, told.after, led(standing, change, each))
    )
    return next(ends, None)


def led(standing: SeriesAnalysis, change: PlacedChange, later: PlacedChange) -> float:
    """The level that ``later`` led to, as it would be had nothing drifted since ``change``."""
    drift = standing.noise.drift_per_point if standing.noise else 0.0
    points = later.change.index - change.change.index
    return later.change.after * math.exp(min(-points * drift, HIGHEST))


def only_ends(standing: SeriesAnalysis, change: PlacedChange, back: PlacedChange) -> bool:
    """Return True if ``back``, which takes ``change`` back, is no news beside it."""
    told = change.change
    level = led(standing, change, back)
    return not told.improvement and not surpassed(told.before, told.after, level)


def expected_false(doubts: Iterable[float]) -> float:
    """Give the expected number of false findings among those with these doubts."""
    return math.fsum(doubts)
