"""The energy statistic of a split: how much farther apart its sides are than each is in itself."""

from __future__ import annotations

import numpy as np

from trials.detection.synthetic import Floats


def distances(y: Floats) -> Floats:
    """Absolute differences of all pairs."""
    return np.abs(y[:, None] - y[None, :])


def best_split(apart: Floats) -> tuple[float, int]:
    """The largest statistic over splits of the whole into two, and where the right side begins."""
    whole = len(apart)
    rows = np.cumsum(np.cumsum(apart, axis=0), axis=1)
    left = np.arange(2, whole - 1)
    right = whole - left
    inside_left = rows[left - 1, left - 1] / 2
    across = rows[left - 1, -1] - 2 * inside_left
    inside_right = (rows[-1, -1] - 2 * across - 2 * inside_left) / 2
    value = _energy(left, right, across, inside_left, inside_right)
    at = int(value.argmax())
    return float(value[at]), int(left[at])


def best_pair(apart: Floats) -> tuple[float, int]:
    """The same over every split of every beginning of the whole: an early change stands out more
    when what comes after the next change is left out."""
    size = len(apart)
    block = np.zeros((size + 1, size + 1))
    block[1:, 1:] = np.cumsum(np.cumsum(apart, axis=0), axis=1)
    middle, end = np.meshgrid(np.arange(1, size), np.arange(2, size + 1), indexing="ij")
    inside_left = block[middle, middle] / 2
    across = block[middle, end] - block[middle, middle]
    inside_right = (block[end, end] - 2 * across - 2 * inside_left) / 2
    value = _energy(middle, end - middle, across, inside_left, inside_right)
    value[end <= middle] = -np.inf
    at = np.unravel_index(int(value.argmax()), value.shape)
    return float(value[at]), int(middle[at])


def _energy(
    left: Floats, right: Floats, across: Floats, inside_left: Floats, inside_right: Floats
) -> Floats:
    both = left + right
    with np.errstate(divide="ignore", invalid="ignore"):
        inside = np.where(left > 1, 2 * right * inside_left / (left - 1), 0.0)
        other = np.where(right > 1, 2 * left * inside_right / (right - 1), 0.0)
        return (2 * across - inside - other) / np.where(both > 0, both, 1)
