"""A change in its history: what came before it, and everything since."""

from __future__ import annotations

from dataclasses import replace

from service.dashboard.figures.frame import Figure
from service.dashboard.figures.points import history
from service.dashboard.figures.segments import Judged, place_of
from service.history.types import Series

BEFORE = 30
"""Points before the change: what its old level was, and how steady."""


def before_after(series: Series, judged: Judged) -> Figure:
    """Draw the chosen step of ``judged`` with the points before it, up to the newest."""
    chosen = next(step for step in judged.steps if step.chosen)
    begin = max(0, place_of(series.points, chosen) - BEFORE)
    return history(replace(series, points=series.points[begin:]), judged=judged)
