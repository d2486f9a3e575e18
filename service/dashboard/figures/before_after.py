"""A change in its history: what came before it, and everything since."""

from __future__ import annotations

from dataclasses import replace

from service.dashboard.figures.frame import Figure
from service.dashboard.figures.points import history
from service.dashboard.figures.segments import Analysed, place_of
from service.schemas.series import Series

BEFORE = 30
"""Points before the change: what its old level was, and how steady."""


def before_after(series: Series, analysed: Analysed) -> Figure:
    """Draw the chosen step of ``analysed`` with the points before it, up to the newest."""
    chosen = next(step for step in analysed.steps if step.chosen)
    begin = max(0, place_of(series.points, chosen) - BEFORE)
    return history(replace(series, points=series.points[begin:]), analysed=analysed)
