"""Plotly figures as plain values: a Series or a Result goes in, a figure comes out. Pure."""

from service.dashboard.figures.frame import Figure, embed
from service.dashboard.figures.history import View, XAxis, environment_changes, history
from service.dashboard.figures.steps import PassName, step_histogram, step_times
from service.dashboard.figures.telemetry import telemetry

__all__ = [
    "Figure",
    "PassName",
    "View",
    "XAxis",
    "embed",
    "environment_changes",
    "history",
    "step_histogram",
    "step_times",
    "telemetry",
]
