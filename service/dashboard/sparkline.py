"""Small inline SVG drawn on the server: sparklines and phase bars. Pure; no style attributes."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

WIDTH, HEIGHT, PAD = 132.0, 30.0, 3.5
CALM_SPAN = 0.02
"""A line whose values differ by less than this share is drawn nearly flat: noise is no news."""


def sparkline(values: Sequence[float], breaks: Sequence[int], label: str) -> Markup:
    """Draw ``values`` from old to new, a tick before each index in ``breaks``, and the last dot."""
    if not values:
        return Markup("")
    spots = _spots(values)
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
    ticks = Markup("").join(_tick(spots, index) for index in breaks if 0 < index < len(spots))
    last_x, last_y = spots[-1]
    return Markup(
        '<svg class="spark" role="img" aria-label="{}" width="{:.0f}" height="{:.0f}" '
        'viewBox="0 0 {:.0f} {:.0f}">{}<polyline points="{}"/>'
        '<circle cx="{:.1f}" cy="{:.1f}" r="2.5"/></svg>'
    ).format(label, WIDTH, HEIGHT, WIDTH, HEIGHT, ticks, line, last_x, last_y)


def _spots(values: Sequence[float]) -> list[tuple[float, float]]:
    low, high = min(values), max(values)
    middle = (low + high) / 2
    span = max(high - low, abs(middle) * CALM_SPAN) or 1.0
    step = (WIDTH - 2 * PAD) / max(len(values) - 1, 1)
    start = PAD if len(values) > 1 else WIDTH / 2
    return [
        (start + index * step, HEIGHT / 2 - (value - middle) / span * (HEIGHT - 2 * PAD))
        for index, value in enumerate(values)
    ]


def _tick(spots: Sequence[tuple[float, float]], index: int) -> Markup:
    x = (spots[index - 1][0] + spots[index][0]) / 2
    return Markup('<line x1="{:.1f}" x2="{:.1f}" y1="0" y2="{:.0f}"/>').format(x, x, HEIGHT)


def stacked_bar(parts: Sequence[tuple[str, float]], whole: float, label: str) -> Markup:
    """Draw named lengths one after another; ``whole`` is the length of the full width."""
    if whole <= 0:
        return Markup("")
    drawn, at = [], 0.0
    for name, length in parts:
        wide = 1000 * max(length, 0.0) / whole
        drawn.append(
            Markup('<rect class="phase-{}" x="{:.2f}" y="0" width="{:.2f}" height="20"/>').format(
                name, at, wide
            )
        )
        at += wide
    return Markup(
        '<svg class="stack" role="img" aria-label="{}" viewBox="0 0 1000 20" '
        'preserveAspectRatio="none">{}</svg>'
    ).format(label, Markup("").join(drawn))
