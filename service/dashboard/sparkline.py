"""Small inline SVG drawn on the server: sparklines and phase bars. Pure; no style attributes."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from markupsafe import Markup

WIDTH, HEIGHT, PAD = 132.0, 30.0, 3.5
CALM_SHARE = 0.02
"""The scale reaches at least this share of the median up and down, so that noise looks calm."""


def sparkline(values: Sequence[float], label: str, interval: float = 0.0) -> Markup:
    """Draw ``values`` from old to new, the last one as a dot.

    ``interval`` is how wide the values' own intervals usually are: the scale reaches as far from
    the median, so that a line which stays within them stays flat.
    """
    if not values:
        return Markup("")
    spots = _spots(values, interval)
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
    last_x, last_y = spots[-1]
    return Markup(
        '<svg class="spark" role="img" aria-label="{}" width="{:.0f}" height="{:.0f}" '
        'viewBox="0 0 {:.0f} {:.0f}"><polyline points="{}"/>'
        '<circle cx="{:.1f}" cy="{:.1f}" r="2.5"/></svg>'
    ).format(label, WIDTH, HEIGHT, WIDTH, HEIGHT, line, last_x, last_y)


def _spots(values: Sequence[float], interval: float) -> list[tuple[float, float]]:
    usual = median(values)
    reach = max(abs(usual) * CALM_SHARE, interval)
    low, high = min(*values, usual - reach), max(*values, usual + reach)
    middle, span = (low + high) / 2, (high - low) or 1.0
    step = (WIDTH - 2 * PAD) / max(len(values) - 1, 1)
    start = PAD if len(values) > 1 else WIDTH / 2
    return [
        (start + index * step, HEIGHT / 2 - (value - middle) / span * (HEIGHT - 2 * PAD))
        for index, value in enumerate(values)
    ]


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
