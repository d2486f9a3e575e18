"""The distance between two first updates of a model's parameters. Pure.

It is taken over all tensors, and over those in which an update is *firm*: rounding hardly turns it.
Batch norm in an untrained deep network amplifies rounding from layer to layer: ResNet-50's first
gradient in bf16 eager has a cosine of 0.3 with fp32's (32 images of 224 by 224, on a CPU), while
that of its last layer agrees to 0.999. What may be turned so far, an update that is not there would
satisfy; the firm tensors still tell.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

FIRM = 0.1
"""Largest 1 - cosine at which a tensor's update counts as firm."""
DIRECTION, SIZE = "update_direction", "update_size"
FIRM_DIRECTION, FIRM_SIZE = "firm_direction", "firm_size"

Update = NDArray[np.float32]
"""Entries of every tensor, one tensor after another."""
Parts = Sequence[int]
"""How many of them each tensor has."""


def whole(one: Update, reference: Update) -> dict[str, float]:
    """Direction and size of all entries together, relative to ``reference``."""
    direction, size = _apart(one, reference)
    return {DIRECTION: direction, SIZE: size}


def firm(reference: Update, others: Sequence[Update], parts: Parts) -> tuple[int, ...]:
    """Numbers of the tensors that ``others`` turn by at most `FIRM`.

    A tensor without an update has no direction and is not firm.
    """
    tensors = zip(_cut(reference, parts), *(_cut(other, parts) for other in others), strict=True)
    return tuple(
        number
        for number, (piece, *turned) in enumerate(tensors)
        if piece.any() and all(_apart(one, piece)[0] <= FIRM for one in turned)
    )


def where_firm(
    one: Update, reference: Update, parts: Parts, tensors: Sequence[int]
) -> dict[str, float]:
    """Direction and size over these tensors, as means: a large tensor does not outweigh the
    others."""
    ours, theirs = _cut(one, parts), _cut(reference, parts)
    apart = [_apart(ours[number], theirs[number]) for number in tensors]
    direction, size = np.mean(apart, axis=0)
    return {FIRM_DIRECTION: float(direction), FIRM_SIZE: float(size)}


def _cut(update: Update, parts: Parts) -> list[Update]:
    return np.split(update, np.cumsum(parts)[:-1])


def _apart(one: Update, reference: Update) -> tuple[float, float]:
    """1 - cosine, and the relative difference in size."""
    ours, theirs = one.astype(np.float64), reference.astype(np.float64)
    size, reference_size = float(np.linalg.norm(ours)), float(np.linalg.norm(theirs))
    if reference_size == 0.0 or size == 0.0:
        apart = 0.0 if size == reference_size else 1.0
        return apart, apart
    cosine = float(ours @ theirs) / (size * reference_size)
    return max(0.0, 1.0 - cosine), relative(size, reference_size)


def relative(value: float, reference: float) -> float:
    """Distance of ``value`` from ``reference`` as a share of ``reference``, at most 1e30."""
    return min(abs(value - reference) / max(abs(reference), 1e-12), 1e30)
