"""Plotly figures as plain values: a Series or a Result goes in, a figure comes out. Pure."""

from service.dashboard.figures.frame import Figure, decimate, drawable, embed
from service.dashboard.figures.icicle import line_times, module_changes, module_times
from service.dashboard.figures.loss_curves import loss_curves
from service.dashboard.figures.memory import COLOURS, OTHER, memory
from service.dashboard.figures.overlays import (
    AGAINST,
    Baseline,
    Drawn,
    Level,
    Scene,
    baseline_of,
    explored,
)
from service.dashboard.figures.pareto import ParetoCase, pareto
from service.dashboard.figures.places import View, XAxis
from service.dashboard.figures.points import before_after, history
from service.dashboard.figures.segments import Analysed, EnvironmentMark, Step, place_of
from service.dashboard.figures.steps import PassName, step_histogram, step_times
from service.dashboard.figures.telemetry import telemetry

__all__ = [
    "AGAINST",
    "COLOURS",
    "OTHER",
    "Analysed",
    "Baseline",
    "Drawn",
    "EnvironmentMark",
    "Figure",
    "Level",
    "ParetoCase",
    "PassName",
    "Scene",
    "Step",
    "View",
    "XAxis",
    "baseline_of",
    "before_after",
    "decimate",
    "drawable",
    "embed",
    "explored",
    "history",
    "line_times",
    "loss_curves",
    "memory",
    "module_changes",
    "module_times",
    "pareto",
    "place_of",
    "step_histogram",
    "step_times",
    "telemetry",
]
