"""Findings as they are read: frozen values, free of the database."""

from __future__ import annotations

from dataclasses import dataclass

from service.history.series_history import PlacedChange
from service.models import FindingState
from service.schemas.findings import Certainty, FindingKind
from service.schemas.series import SeriesName

ACTIVE = frozenset({FindingState.OPEN, FindingState.ACKNOWLEDGED})
"""States that ask for somebody's attention."""
REFUTED = frozenset({FindingState.WITHDRAWN, FindingState.NOT_REPRODUCED})
"""States of what was never there."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A change that no finding is about yet."""

    series: SeriesName
    placed: PlacedChange
    rank: int
    """Place of its first bad revision among those of the history."""
    doubt: float
    """Probability that there is no such change."""
    certainty: Certainty = Certainty.STANDING
    not_reproduced: bool = False
    """Whether it was measured again, and was not there."""
    back: PlacedChange | None = None
    """What takes it back, if that is known as soon as the change itself."""

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
class AlreadyReported:
    """The changes of a series that its findings cover already."""

    changes: frozenset[str] = frozenset()
    """Ids of changes that findings are about, or that end them."""
    shifts: tuple[PendingShift, ...] = ()
    """Changes that are known and not in the analysis yet."""
    expected: frozenset[str] = frozenset()
    """Ids of changes whose new level was declared the baseline: to leave it is news."""
