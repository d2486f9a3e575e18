"""The places of points on a history's horizontal axis, and the reader's choices for its chart."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC
from typing import Literal, Self

from service.dashboard.figures.frame import Figure, axis
from service.schemas.series import SeriesPoint
from service.wording import formats

XAxis = Literal["order", "time"]


@dataclass(frozen=True, slots=True)
class View:
    """The reader's choices for a history's chart; all of them stand in the URL."""

    x: XAxis = "order"
    start: str = ""
    """First revision shown, or first instant: what a zoom wrote."""
    end: str = ""
    low: float | None = None
    """Ends of the value axis in base units, if the reader zoomed into it."""
    high: float | None = None
    zero: bool = False
    """Whether the value axis begins at zero."""


@dataclass(frozen=True, slots=True)
class Places:
    """The place of each point on the horizontal axis."""

    x: XAxis
    labels: dict[str, str]
    """The tick of each revision, in the order of the history."""

    @classmethod
    def of(cls, points: Iterable[SeriesPoint], x: XAxis) -> Self:
        """Place these points, which are in the order of their history."""
        labels: dict[str, str] = {}
        taken: set[str] = set()
        for name in dict.fromkeys(point.revision for point in points):
            short = formats.revision(name)
            labels[name] = name if short in taken else short
            taken.add(labels[name])
        return cls(x, labels)

    @property
    def full_names(self) -> list[str]:
        """The revisions in the order of the history."""
        return list(self.labels)

    def at(self, point: SeriesPoint) -> str:
        """Return the place of a point, in the form that a trace takes."""
        if self.x == "time":
            return point.revision_at.astimezone(UTC).isoformat()
        return self.labels[point.revision]

    def spot(self, point: SeriesPoint) -> str | float:
        """Return the place of a point, in the form that a shape takes."""
        if self.x == "time":
            return self.at(point)
        return float(self.full_names.index(point.revision))

    def between(self, left: SeriesPoint, right: SeriesPoint) -> str | float:
        """Midway between two points, as a shape names it."""
        if self.x == "time":
            return (left.revision_at + (right.revision_at - left.revision_at) / 2).isoformat()
        order = self.full_names
        return (order.index(left.revision) + order.index(right.revision)) / 2

    def share(self, point: SeriesPoint, first: SeriesPoint, last: SeriesPoint) -> float:
        """Return where a point lies between two others: 0 at the first, 1 at the last."""
        if self.x == "time":
            passed, whole = (
                point.revision_at - first.revision_at,
                last.revision_at - first.revision_at,
            )
            return passed / whole if whole else 0.0
        order = self.full_names
        begin, at, end = (order.index(one.revision) for one in (first, point, last))
        return (at - begin) / max(end - begin, 1)

    def axis(self, view: View) -> Figure:
        """The horizontal axis, zoomed as the reader chose."""
        zoom: dict[str, object] = {}
        if self.x == "time":
            if view.start and view.end:
                zoom = {"range": [view.start, view.end]}
            return axis("Date of the revision (UTC)", type="date", **zoom)
        ticks = list(self.labels.values())
        if span := self._span(view):
            zoom = {"range": span}
        return axis(
            "Revision",
            type="category",
            categoryorder="array",
            categoryarray=ticks,
            nticks=14,
            **zoom,
        )

    def _span(self, view: View) -> list[float]:
        order = self.full_names
        if view.start not in order or view.end not in order:
            return []
        first, last = sorted((order.index(view.start), order.index(view.end)))
        return [first - 0.5, last + 0.5]
