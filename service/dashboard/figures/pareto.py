"""Throughput against what it costs: a point for each case, and the cases that no other beats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from service.dashboard.figures import frame
from service.wording import formats


@dataclass(frozen=True, slots=True)
class ParetoCase:
    """One case: its throughput and its cost, in base units, and the run that says so."""

    result_id: str
    said: str
    gain: float
    cost: float
    best: bool
    """True if no other case is as fast for less."""


def pareto(
    places: Sequence[ParetoCase], gain: tuple[str, str], cost: tuple[str, str]
) -> frame.Figure | None:
    """Draw cases by throughput and cost, each a title with a unit; None without two of them."""
    if len(places) < 2:
        return None
    across, up = (
        formats.scale(unit, max(values))
        for unit, values in (
            (cost[1], [one.cost for one in places]),
            (gain[1], [one.gain for one in places]),
        )
    )
    best = sorted((one for one in places if one.best), key=lambda one: one.cost)
    others = [one for one in places if not one.best]
    layout = frame.frame(
        frame.value_axis(f"{cost[0]}, {across[1]}", rangemode="tozero"),
        frame.value_axis(f"{gain[0]}, {up[1]}", rangemode="tozero"),
    )
    data = [
        _points(best, "no other is as fast for less", (across, up), "lines+markers", "var(--c1)"),
        _points(others, "the others", (across, up), "markers", "var(--muted)"),
    ]
    return {"data": data, "layout": layout, "config": frame.CONFIG}


def _points(
    places: Sequence[ParetoCase],
    name: str,
    scales: tuple[tuple[float, str], tuple[float, str]],
    mode: str,
    colour: str,
) -> frame.Figure:
    (across, cost), (up, gain) = scales
    return {
        "type": "scatter",
        "mode": mode,
        "name": name,
        "x": [one.cost * across for one in places],
        "y": [one.gain * up for one in places],
        "customdata": [[one.result_id, frame.literal(one.said)] for one in places],
        "hovertemplate": f"%{{customdata[1]}}<br>%{{y:,.4~g}} {gain}, %{{x:,.4~g}} {cost}"
        "<extra></extra>",
        "line": {"color": colour, "width": 1, "shape": "vh"},
        "marker": {"color": colour, "size": 9},
    }
