"""One stretch of history: the explanation that needs the fewest words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from service.analysis.detection import machines
from service.analysis.detection.drift import with_drift
from service.analysis.detection.history import Floats, Ints
from service.analysis.detection.modes import with_modes
from service.analysis.detection.pruning import THRESHOLD
from service.analysis.detection.segment_model import Explanation, explain


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """A stretch and how it is explained; places count from its first point."""

    explained: Explanation
    offsets: dict[int, float]
    """By the number of each machine in the stretch; empty where machines are not told."""


def judge(y: Floats, groups: Ints | None = None, threshold: float = THRESHOLD) -> Window:
    """Explain ``y``, which is on the scale of ``scale.py``."""
    offsets: dict[int, float] = {}
    if groups is not None:
        # A long history may know more machines than points: those of the stretch are counted anew.
        present, own = np.unique(groups, return_inverse=True)
        found = machines.offsets(y, own, len(present))
        offsets = dict(zip(present.tolist(), found.tolist(), strict=True))
        y = y - found[own]
    plain = explain(y, threshold)
    best = with_modes(y, plain, threshold) or plain
    return Window(with_drift(best, threshold) or best, offsets)
