"""A finding's cells as inline SVG: a dot and an interval for each, in rows of a kind. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from markupsafe import Markup

from service.dashboard.labels import said
from service.schemas.findings import AffectedSeries
from service.wording import formats

WIDTH, ROW, TALL = 320.0, 7.0, 22.0
"""In units of the drawing: its width, the height of one cell, the height of cells in one row."""


@dataclass(frozen=True, slots=True)
class CellRow:
    """Cells of one workload on one kind of hardware, or all others."""

    title: str
    count: int
    middle: float
    """Median of their effects."""
    drawn: Markup


@dataclass(frozen=True, slots=True)
class CellRows:
    """The cases that moved, the others, and the scale that both are drawn on."""

    moved: tuple[CellRow, ...]
    others: CellRow | None
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class _Scale:
    low: float
    high: float

    def x(self, effect: float) -> float:
        return 4 + (effect - self.low) / (self.high - self.low) * (WIDTH - 8)


def cell_rows(moved: Sequence[AffectedSeries], others: Sequence[float]) -> CellRows:
    """Draw the cells that moved by workload and hardware, and below them the ``others``.

    These are the changes of other cases between the two revisions, as shares. All rows share a
    scale, which holds zero.
    """
    ends = [end for one in moved for end in (one.effect_low, one.effect_high)]
    scale = _Scale(min(0.0, *ends, *others), max(0.0, *ends, *others, 1e-4))
    kinds: dict[str, list[AffectedSeries]] = {}
    for one in moved:
        hardware = formats.hardware(one.series.comparability)
        kinds.setdefault(f"{one.series.case.workload} · {hardware}", []).append(one)
    rows = [_moved(title, kinds[title], scale) for title in sorted(kinds)]
    return CellRows(tuple(rows), _others(others, scale), scale.low, scale.high)


def _moved(title: str, cells: Sequence[AffectedSeries], scale: _Scale) -> CellRow:
    ordered = sorted(cells, key=lambda one: one.effect)
    dots = (
        Markup('<g><title>{}</title><path class="reach" d="M{:.1f} {y}H{:.1f}"/>{}</g>').format(
            _said(one), scale.x(one.effect_low), scale.x(one.effect_high),
            _dot(scale.x(one.effect), y), y=y,
        )
        for one, y in ((one, ROW * (at + 0.75)) for at, one in enumerate(ordered))
    )  # fmt: skip
    middle = median(one.effect for one in cells)
    label = f"{title}: {formats.counted(len(cells), 'case')}, {formats.change(middle)}"
    height = ROW * (len(cells) + 0.5)
    return CellRow(title, len(cells), middle, _svg(label, height, scale, Markup("").join(dots)))


def _others(changes: Sequence[float], scale: _Scale) -> CellRow | None:
    if not changes:
        return None
    dots = Markup("").join(_dot(scale.x(change), TALL / 2) for change in changes)
    middle = median(changes)
    label = f"Other cases: {len(changes)}, {formats.change(middle)}"
    return CellRow("other cases", len(changes), middle, _svg(label, TALL, scale, dots))


def _said(one: AffectedSeries) -> str:
    between = f"{formats.change(one.effect_low)} to {formats.change(one.effect_high)}"
    return f"{said(one.series.case)}: {formats.change(one.effect)} ({between})"


def _dot(x: float, y: float) -> Markup:
    return Markup('<path class="dot" d="M{:.1f} {}h0"/>').format(x, y)


def _svg(label: str, height: float, scale: _Scale, dots: Markup) -> Markup:
    return Markup(
        '<svg class="cells" role="img" aria-label="{}" viewBox="0 0 {:.0f} {h}" height="{h}" '
        'preserveAspectRatio="none"><path class="none" d="M{x:.1f} 0V{h}"/>{}</svg>'
    ).format(label, WIDTH, dots, x=scale.x(0.0), h=height)
