"""Decides which changes become a finding, and when a finding is over. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile

from service.analysis.contrast import LEAST_EFFECT
from service.analysis.detection.alarms import PATIENCE
from service.analysis.detection.change import ChangePoint, Noise
from service.analysis.detection.history import HIGHEST
from service.analysis.recovery import RECOVERED, Step, share_left, singled_out, taken_back, without
from service.history.changes import ALIKE, RECENT
from service.history.series_history import (
    EDGE,
    PlacedChange,
    RecentPoints,
    SeriesAnalysis,
    SeriesHistory,
)
from service.history.slow_workers import SlowPeriods, by_ill
from service.models import FindingState
from service.schemas.findings import Certainty, FindingKind
from service.schemas.series import SeriesName

ACTIVE = frozenset({FindingState.OPEN, FindingState.ACKNOWLEDGED})
"""States that ask for somebody's attention."""
OF_CHANGES = frozenset({FindingKind.REGRESSION, FindingKind.IMPROVEMENT})
"""Kinds of findings that are about changes of series."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A change that no finding is about yet."""

    series: SeriesName
    placed: PlacedChange
    rank: int
    """Place of its first bad revision among those of the history."""
    earliest: datetime
    """Place of the first revision at which it may have begun; those before are at the old level."""
    latest: datetime
    """Place of the last one."""
    doubt: float
    """Probability that there is no such change."""
    certainty: Certainty = Certainty.STANDING
    not_reproduced: bool = False
    """Whether it was measured again, and was not there."""
    not_by_code: bool = False
    """Whether both of its revisions were at the new level when measured again."""
    drifts: bool = False
    """Whether it is a drift, not a step."""
    back: PlacedChange | None = None
    """What takes it back, if that is known as soon as the change itself."""
    least: float = LEAST_EFFECT
    """The smallest change of its series that is reported (`findings.thresholds`)."""

    @property
    def kind(self) -> FindingKind:
        """The kind of finding that it would be: for better or for worse."""
        return FindingKind.IMPROVEMENT if self.placed.change.improvement else FindingKind.REGRESSION


@dataclass(frozen=True, slots=True)
class Remeasured:
    """Results, by id, that were measured for a change: at the old level and at the new one."""

    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


NOTHING = Remeasured()


@dataclass(frozen=True, slots=True)
class PendingShift:
    """A change that was confirmed before the history alone shows it."""

    index: int
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class ReportedPlace:
    """A place of a series at which a change begins or ends that a finding reports."""

    at: int
    """Number of its first point."""
    effect: float
    """Size of the change, as a share of the level before."""
    until: int
    """Number of the last point up to which it may go on: a drift has no place."""

    def holds(self, index: int, effect: float) -> bool:
        """Return True if a change at a point may be what is reported, or go on from there."""
        if (effect > 0) != (self.effect > 0):
            return False
        goes_on = self.at <= index <= self.until and self._as_large_as(effect)
        return abs(index - self.at) <= EDGE or goes_on

    def explains(self, index: int, effect: float) -> bool:
        """Return True if what is reported explains all of a change at a point."""
        return self.holds(index, effect) and self._as_large_as(effect)

    def leads_to(self, index: int, effect: float, points: int) -> bool:
        """Return True if what is reported up to so many points earlier is as large as a change."""
        same_way = (effect > 0) == (self.effect > 0)
        return same_way and 0 <= index - self.at <= points and self._as_large_as(effect)

    def _as_large_as(self, effect: float) -> bool:
        return abs(effect) <= ALIKE * abs(self.effect)


@dataclass(frozen=True, slots=True)
class AlreadyReported:
    """The changes of a series that its findings cover already."""

    changes: frozenset[str] = frozenset()
    """Ids of changes that findings are about, or that end them."""
    shifts: tuple[PendingShift, ...] = ()
    """Changes that are known and not in the analysis yet."""
    begins: tuple[ReportedPlace, ...] = ()
    expected: frozenset[str] = frozenset()
    """Ids of changes whose new level was declared the baseline: to leave it is news."""
    findings: frozenset[str] = frozenset()
    """Ids of the findings that say so; one opened meanwhile is not among them."""

    def has_begin(self, change: ChangePoint) -> bool:
        """Return True if a change of the same direction is reported at a place, of whatever size.

        A later change may make another part of the history look like one level, and the old change
        there smaller or larger.
        """
        return any(place.holds(change.index, change.effect) for place in self.begins)


DRIFT = 14
"""Revisions for which a drift may go on."""
FALSE_SHARE = 0.2
"""Of the findings that a day opens, at most this share is expected to be false. One look in five
for nothing is what people bear before they stop looking."""
LEAVING = 2
"""Newest points at the old level at which a change may be ending: then more of them are awaited.
The detector needs some more to end it, and meanwhile takes them for a part of the new level."""
NEAR = 3
"""Revisions, not points, by which changes of one cause may be placed apart in different series:
a series may lack the very revision, and another one have many points of it."""
STRAY = 4.66
"""A point lies nearer to the other level once in a hundred if the levels are so many standard
deviations apart: twice the normal quantile of 0.99."""


def misplaced_by(effect: float, noise: Noise | None) -> int:
    """Give the number of points by which noise may place a change beside its first point.

    ``effect`` is a share of the level before, as the noise is.
    """
    if noise is None or not effect:
        return NEAR
    return min(NEAR, int((STRAY * noise.scale / abs(effect)) ** 2))


def worth_telling(change: float, least: float = LEAST_EFFECT) -> bool:
    """Return True if a change of this size, a share of the level before, is worth reporting.

    What moved by less is shown where it is: machines that are the same in everything that one can
    see differ by as much, and a node's own offset is known no better after a few points.
    """
    return abs(change) >= least


def recent(analysis: SeriesAnalysis, placed: PlacedChange) -> bool:
    """Return True if a change lies near enough to the end to be news."""
    return analysis.points - placed.change.index <= RECENT


def stands(analysis: SeriesAnalysis, placed: PlacedChange) -> bool:
    """Return True if a change has stood long enough to be believed without measuring again."""
    return analysis.points - placed.change.index >= PATIENCE


def leaving(history: SeriesHistory, placed: PlacedChange) -> bool:
    """Return True if a change is the last one and the newest points are back at its old level."""
    if placed != history.analysis.changes[-1]:
        return False
    before, after = placed.change.before, placed.change.after
    return all(taken_back(before, after, value) for value in history.values[-LEAVING:])


def beside_ill(tail: RecentPoints, index: int, ill: SlowPeriods) -> bool:
    """Return True if a worker that was slow measured a point, or the one before it.

    What begins or ends there is that worker's doing.
    """
    at = index - tail.first
    return any(by_ill(point, ill) for point in tail.points[max(0, at - 1) : at + 1])


def accepted(candidates: Iterable[Candidate], doubts: Sequence[float]) -> list[Candidate]:
    """The candidates that may be opened beside findings with ``doubts`` opened the same day.

    The surest come first, and each is taken while the expected share of false ones among all
    stays within ``FALSE_SHARE`` (the direct posterior approach of Newton et al., 2004).
    """
    taken: list[Candidate] = []
    total = math.fsum(doubts)
    for candidate in sorted(candidates, key=by_doubt):
        share = (total + candidate.doubt) / (len(doubts) + len(taken) + 1)
        # A surer past must not carry a doubtful newcomer: it has to stand by itself too.
        if max(share, candidate.doubt) > FALSE_SHARE:
            break
        total += candidate.doubt
        taken.append(candidate)
    return taken


def by_doubt(candidate: Candidate) -> tuple[float, str]:
    """Sort key: the surest first."""
    return candidate.doubt, candidate.series.id


def surpassed(before: float, after: float, later: float) -> bool:
    """Return True if the level ``later`` ends a change and is itself news beside ``before``."""
    news = min(before, later) <= 0 or worth_telling(later / before - 1.0)
    return news and share_left(before, after, later) < -RECOVERED


def recovery(history: SeriesHistory, change: PlacedChange, ill: SlowPeriods) -> PlacedChange | None:
    """The later change, standing, that takes ``change`` back; none that a slow worker made."""
    analysis = history.analysis
    later = (
        other
        for other in analysis.changes
        if other.change.index > change.change.index
        and (other.change.effect > 0) != (change.change.effect > 0)
        and stands(analysis, other)
        and not beside_ill(history.recent, other.change.index, ill)
    )
    return next((other for other in later if _ends(analysis, change, other)), None)


def _ends(analysis: SeriesAnalysis, change: PlacedChange, later: PlacedChange) -> bool:
    run, alone = _reverted(analysis, later)
    if alone is not None and change in run:
        return run[alone] == change
    point = change.change
    return taken_back(point.before, point.after, led(analysis, change, later))


def led(analysis: SeriesAnalysis, change: PlacedChange, later: PlacedChange) -> float:
    """The level that ``later`` led to, to hold beside the one before ``change``.

    It is as it would be had nothing drifted since, and without what moved the same way meanwhile
    where ``later`` takes back ``change`` alone.
    """
    drift = analysis.noise.drift_per_point if analysis.noise else 0.0
    points = later.change.index - change.change.index
    level = later.change.after * math.exp(min(-points * drift, HIGHEST))
    run, alone = _reverted(analysis, later)
    return without(_steps(run[alone + 1 :]), level) if alone is not None else level


def _reverted(
    analysis: SeriesAnalysis, later: PlacedChange
) -> tuple[Sequence[PlacedChange], int | None]:
    """Give the changes one way right before ``later``, and which of them it takes back alone."""
    before = [other for other in analysis.changes if other.change.index < later.change.index]
    rises = later.change.effect > 0
    run = list(takewhile(lambda one: (one.change.effect > 0) != rises, reversed(before)))[::-1]
    return run, singled_out(_steps(run), later.change.after)


def _steps(changes: Iterable[PlacedChange]) -> list[Step]:
    return [(one.change.before, one.change.after) for one in changes]


def only_ends(analysis: SeriesAnalysis, change: PlacedChange, back: PlacedChange) -> bool:
    """Return True if ``back``, which takes ``change`` back, is no news beside it."""
    point = change.change
    level = led(analysis, change, back)
    return not point.improvement and not surpassed(point.before, point.after, level)
