"""The detectors by name. To add one: a file with a function like these, and a line here."""

from __future__ import annotations

from collections.abc import Callable

from service.detection import judgement, merging, ratio
from service.detection.history import History
from service.detection.judgement import Judgement

Detector = Callable[[History, float], Judgement]
"""Judges a history at a threshold whose meaning is the detector's own."""

DETECTORS: dict[str, tuple[Detector, float]] = {
    "steps": (judgement.detect, merging.THRESHOLD),
    "ratio": (ratio.detect, ratio.LEAST_CHANGE),
}
"""Each with the threshold that serves every series."""
DEFAULT = "steps"
