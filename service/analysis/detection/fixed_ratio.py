"""The rule of a fixed ratio, for those whose policy says "5 %": knows nothing of noise.

A change is where the medians of the points before and after differ by more than the ratio, at the
place where they differ most. ``steps`` is better wherever noise is not known to be small.
"""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from benchmarks.contracts import Direction
from service.analysis.detection.change import ChangePoint
from service.analysis.detection.history import History, transform
from service.analysis.detection.robust import Floats
from service.analysis.detection.windows import Detection
from service.analysis.statement import Statement

WIDTH = 8
"""Points on either side; medians of eight ignore three outliers."""
LEAST_CHANGE = 0.05
"""What continuous-integration services take for a regression when nobody says otherwise."""


def detect(history: History, least_change: float = LEAST_CHANGE) -> Detection:
    """Analyse by a fixed ratio."""
    y, scale = transform(history.values)
    if len(y) < 2 * WIDTH:
        says = Statement.of("points_for_ratio", points=len(y), least=2 * WIDTH)
        return Detection((), None, (says,))
    medians = np.median(sliding_window_view(y, WIDTH), axis=1)
    differences = medians[WIDTH:] - medians[:-WIDTH]
    changes = []
    for at in _peaks(differences, float(np.log1p(least_change))):
        difference = float(differences[at])
        effect = scale.effect(difference)
        higher = (difference > 0) == (scale.sign > 0)
        changes.append(
            ChangePoint(
                index=at + WIDTH,
                effect=effect,
                effect_low=effect,
                effect_high=effect,
                before=scale.value(float(medians[at])),
                after=scale.value(float(medians[at + WIDTH])),
                improvement=higher == (history.direction is Direction.HIGHER),
                confidence=1.0,
                evidence=abs(effect) / least_change,
            )
        )
    return Detection(tuple(changes), None)


def _peaks(differences: Floats, limit: float) -> list[int]:
    """List, in order, the places of the largest differences over ``limit``, ``WIDTH`` points apart.

    Medians are equal for some points around a clean step: its place is in their middle.
    """
    sizes = np.abs(differences)
    kept: list[int] = []
    for at in np.argsort(-sizes, kind="stable").tolist():
        if sizes[at] <= limit:
            break
        if all(abs(at - other) >= WIDTH for other in kept):
            last = at
            while last + 1 < len(sizes) and differences[last + 1] == differences[at]:
                last += 1
            kept.append((at + last) // 2)
    return sorted(kept)
