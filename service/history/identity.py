"""Tells which stored change a computed change is. Pure.

A series is analysed anew with each point: a change may move by a few points, and its size is
estimated again. It stays the same change. `changes` asks once for each analysis, and everybody
else refers to a change by its id.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from service.analysis.detection.alarms import SAME
from service.history.placed_changes import PlacedChange

RECENT = 60
"""Points. A change that lies further back when it is first seen (an imported history, say) is
shown where it is and announced to nobody."""
ALIKE = 2.0
"""The first estimate of an effect, from four points, is seldom off by more than this factor."""


@dataclass(frozen=True, slots=True)
class KnownChange:
    """A stored change, with all that it takes to recognise it."""

    id: str
    index: int
    """Number of its first point, among the points of now."""
    since: int
    """Number of the point after its last good one: points that came in late lie in between."""
    effect: float
    low: float
    high: float
    reported: bool = False
    """A finding is about it, so that it is recognised before others are."""
    closed: bool = False
    """That finding is closed: a change of another size is another one."""
    only: frozenset[str] | None = None
    """First points of the changes that it may be; None if it may be any."""
    not_at: frozenset[int] = frozenset()
    """Numbers of points at which another change begins."""

    def apart(self, change: PlacedChange) -> int:
        """Count the points by which a change lies outside of where this one may lie."""
        index = change.change.index
        return max(self.since - index, index - self.index, 0)

    def near(self, change: PlacedChange) -> bool:
        """Return True if a change agrees with this one in place and direction."""
        return self.apart(change) <= SAME and (change.change.effect > 0) == (self.effect > 0)

    def may_be(self, change: PlacedChange) -> bool:
        """Return True if nothing tells a change from this one."""
        point = change.change
        overlap = self.low <= point.effect_high and point.effect_low <= self.high
        return (
            self.near(change)
            and (not self.closed or overlap or alike(self.effect, point.effect))
            and (self.only is None or change.first_bad_result in self.only)
            and point.index not in self.not_at
        )


def alike(one: float, other: float) -> bool:
    """Return True if two effects may be one: of one direction, and neither over twice the other."""
    return one * other > 0 and max(abs(one), abs(other)) <= ALIKE * min(abs(one), abs(other))


def identities(
    changes: Sequence[PlacedChange], known: Sequence[KnownChange]
) -> list[KnownChange | None]:
    """Give the stored change that each of ``changes`` is, or None if it is a new one.

    Reported changes come first, then the nearest pairs; two changes never become one.
    """
    pairs = sorted(
        (not old.reported, old.apart(new), abs(new.change.index - old.index), at, old.id)
        for at, new in enumerate(changes)
        for old in known
        if old.may_be(new)
    )
    found: list[KnownChange | None] = [None] * len(changes)
    left = {old.id: old for old in known}
    for *_, at, name in pairs:
        if found[at] is None and name in left:
            found[at] = left.pop(name)
    return found
