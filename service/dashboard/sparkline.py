"""Small inline SVG drawn on the server: sparklines and phase bars. Pure; no style attributes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, pairwise
from statistics import median

from markupsafe import Markup

WIDTH, HEIGHT, PAD = 132.0, 30.0, 3.5
CARD_WIDTH, CARD_HEIGHT = 320.0, 64.0
SPOTS = 45
"""Values of one line that are drawn at most."""
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


def thinned(values: Sequence[float], most: int = SPOTS) -> list[float]:
    """Give at most ``most`` values: the medians of stretches, the newest value last."""
    if len(values) <= most:
        return list(values)
    edges = [round(at * (len(values) - 1) / (most - 1)) for at in range(most)]
    return [*(median(values[low:high]) for low, high in pairwise(edges)), values[-1]]


def before_after(before: Sequence[float], after: Sequence[float], label: str) -> Markup:
    """Draw values on both sides of a change: a dot each, and each side's median as a line."""
    sides = [thinned(before), thinned(after)]
    count, (low, high) = sum(map(len, sides)), _reach([*before, *after])
    step = (CARD_WIDTH - 2 * PAD) / count
    border = PAD + len(sides[0]) * step
    dots = "".join(
        f"M{PAD + (at + 0.5) * step:.0f} {_height(value, low, high):.1f}h0"
        for at, value in enumerate(chain(*sides))
    )
    levels = [_height(median(side), low, high) for side in (before, after)]
    return Markup(
        '<svg class="beside" role="img" aria-label="{}" viewBox="0 0 {:.0f} {:.0f}" '
        'preserveAspectRatio="none"><path class="border" d="M{:.0f} 0V{:.0f}"/>'
        '<path class="dots" d="{}"/>'
        '<path class="levels" d="M0 {:.1f}H{:.0f}M{:.0f} {:.1f}H{:.0f}"/></svg>'
    ).format(
        label, CARD_WIDTH, CARD_HEIGHT, border, CARD_HEIGHT, dots, levels[0], border, border,
        levels[1], CARD_WIDTH,
    )  # fmt: skip


def _reach(values: Sequence[float]) -> tuple[float, float]:
    calm = abs(median(values)) * CALM_SHARE / 2
    return min(*values, median(values) - calm), max(*values, median(values) + calm)


def _height(value: float, low: float, high: float) -> float:
    return CARD_HEIGHT - PAD - (value - low) / ((high - low) or 1.0) * (CARD_HEIGHT - 2 * PAD)


def strip(values: Sequence[float], reach: tuple[float | None, float | None], label: str) -> Markup:
    """Draw the values of processes as dots along a line, over their interval."""
    known = [end for end in reach if end is not None]
    low, high = _reach([*values, *known])
    scale = (CARD_WIDTH - 4 * PAD) / ((high - low) or 1.0)
    places = [2 * PAD + (value - low) * scale for value in (*values, *known)]
    dots = Markup("").join(
        Markup('<circle cx="{:.1f}" cy="14" r="4"/>').format(place)
        for place in places[: len(values)]
    )
    ends = places[len(values) :]
    line = Markup("")
    if len(ends) == 2:
        line = Markup('<path class="reach" d="M{:.1f} 14H{:.1f}"/>').format(*ends)
    return Markup(
        '<svg class="strip" role="img" aria-label="{}" viewBox="0 0 {:.0f} 28">{}{}</svg>'
    ).format(label, CARD_WIDTH, line, dots)


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
