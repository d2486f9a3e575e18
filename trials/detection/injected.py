"""Steps planted into blocks of real residuals: known truth in noise that nobody made up.

Residuals are what is left of a labelled history when the median of each level is taken out, where
a level ends at a label and in the middle of each ignored range. Blocks of eight neighbours are
drawn from one history at random, so that a bad week stays a bad week, and one or two steps of one
size are multiplied in, at the places of the synthetic suite. A fifth of the series has no step.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from trials.detection.synthetic import (
    FIRST_CHANGE,
    LAST_CHANGE,
    LEAST_GAP,
    LENGTH,
    STEPS,
    Floats,
    Planted,
)

BLOCK = 8
COUNT = 150
STABLE = 0.2


def suite(pool: Sequence[Planted], seed: int, count: int = COUNT) -> list[Planted]:
    """``count`` series from the residuals of ``pool``; each has its own seed."""
    return [inject(pool, np.random.default_rng((seed, number)), number) for number in range(count)]


def inject(pool: Sequence[Planted], rng: np.random.Generator, number: int) -> Planted:
    """One series: blocks of one history's residuals and, mostly, one or two steps."""
    source = pool[int(rng.integers(len(pool)))]
    left = residuals(source)
    starts = rng.integers(0, len(left) - BLOCK + 1, -(-LENGTH // BLOCK))
    noise = np.concatenate([left[start : start + BLOCK] for start in starts])[:LENGTH]
    places = _places(0 if rng.random() < STABLE else int(rng.integers(1, 3)), rng)
    step = float(rng.choice([size for size in STEPS if size])) if places else 0.0
    for place in places:
        noise[place:] += rng.choice([-1.0, 1.0]) * np.log1p(step)
    return Planted(
        id=f"{number} {source.id}",
        suite="inject",
        values=tuple((100.0 * np.exp(noise)).tolist()),
        change_points=places,
        step=step,
    )


def residuals(series: Planted) -> Floats:
    """Logarithms minus the median of their level."""
    y = np.log(np.asarray(series.values))
    doubtful = [(start + end) // 2 for start, end in series.ignore]
    inside = {place for place in (*series.change_points, *doubtful) if 0 < place < len(y)}
    for start, end in pairwise([0, *sorted(inside), len(y)]):
        y[start:end] -= np.median(y[start:end])
    return y


def _places(count: int, rng: np.random.Generator) -> tuple[int, ...]:
    while True:
        places = np.sort(rng.integers(FIRST_CHANGE, LAST_CHANGE + 1, count))
        if count < 2 or int(np.diff(places).min()) >= LEAST_GAP:
            return tuple(int(place) for place in places)
