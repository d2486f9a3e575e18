"""One stretch of history: the explanation that needs the fewest words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from service.detection import machines
from service.detection.drift import with_drift
from service.detection.explanation import Explanation, explain
from service.detection.history import Floats, Ints
from service.detection.merging import THRESHOLD
from service.detection.modes import with_modes


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """A stretch and how it is explained; places count from its first point."""

    explained: Explanation
    offsets: Floats
    """One per machine; empty where machines are not told."""


def judge(
    y: Floats,
    groups: Ints | None = None,
    machine_count: int = 0,
    threshold: float = THRESHOLD,
) -> Window:
    """Explain ``y``, which is on the scale of ``scale.py``."""
    offsets = np.zeros(machine_count)
    if groups is not None and machine_count > 1:
        offsets = machines.offsets(y, groups, machine_count)
        y = y - offsets[groups]
    plain = explain(y, threshold)
    best = with_modes(y, plain, threshold) or plain
    return Window(with_drift(best, threshold) or best, offsets)
