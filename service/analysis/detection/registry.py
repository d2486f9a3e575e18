"""The detectors by name. To add one: a file with a function like these, and a line here."""

from __future__ import annotations

from collections.abc import Callable

from service.analysis.detection import fixed_ratio, segment_model, windows
from service.analysis.detection.history import History
from service.analysis.detection.windows import Detection

Detector = Callable[[History, float], Detection]
"""Analyses a history at a threshold whose meaning is the detector's own."""

DETECTORS: dict[str, tuple[Detector, float]] = {
    "steps": (windows.detect, segment_model.THRESHOLD),
    "ratio": (fixed_ratio.detect, fixed_ratio.LEAST_CHANGE),
}
"""Each with the threshold that serves every series."""
DEFAULT = "steps"
