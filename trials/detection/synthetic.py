"""The synthetic suite: series whose changes are known because they were planted.

200 points of ``100 * exp(level + noise)``, lower is better. Every kind of noise below meets every
step and every noise level; each combination has its own seed, so that a series does not depend on
which others are made. The suite's seed tells tuning from testing: whoever tunes uses ``TUNING``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rng = np.random.Generator

LENGTH = 200
KINDS = (
    "clean", "outlier", "drift", "bimodal", "sticky", "machine",
    "variance", "ar", "heavy", "multi", "fix",
)  # fmt: skip
STEPS = (0.0, 0.005, 0.01, 0.02, 0.05, 0.10)
NOISES = (0.003, 0.01, 0.03)
REPLICATES = 3
TUNING, TESTING = 1, 6
FIRST_CHANGE, LAST_CHANGE, LEAST_GAP = 30, LENGTH - 25, 20
THROTTLED_QUARTER, THROTTLED_SHARE = 0.25, 0.01


@dataclass(frozen=True, slots=True)
class Planted:
    """A series and the truth about it."""

    id: str
    suite: str
    values: tuple[float, ...]
    change_points: tuple[int, ...]
    groups: tuple[str, ...] | None = None
    direction: str = "lower"
    ignore: tuple[tuple[int, int], ...] = ()
    kind: str = ""
    step: float = 0.0
    noise: float = 0.0

    def first(self, count: int) -> Planted:
        """Its first points, as they came in."""
        groups = None if self.groups is None else self.groups[:count]
        return replace(self, values=self.values[:count], groups=groups)


def suite(seed: int = TESTING, replicates: int = REPLICATES) -> Iterator[Planted]:
    """Every kind with every step, noise and replicate, in a fixed order."""
    for kind_number, kind in enumerate(KINDS):
        for step_number, step in enumerate(STEPS):
            for noise_number, noise in enumerate(NOISES):
                for replicate in range(replicates):
                    key = (seed, kind_number, step_number, noise_number, replicate)
                    yield plant(kind, step, noise, np.random.default_rng(key), str(replicate))


def plant(kind: str, step: float, noise: float, rng: Rng, name: str = "") -> Planted:
    """One series of ``kind`` with changes of ``step`` in noise of standard deviation ``noise``."""
    changes = _places(kind, rng) if step else ()
    level = _level(kind, changes, float(np.log1p(step)), rng)
    noises, groups = MAKERS.get(kind, _clean)(noise, rng)
    if rng.random() < THROTTLED_QUARTER:
        noises = noises + _throttled(THROTTLED_SHARE, rng)
    values = 100.0 * np.exp(level + noises)
    if kind == "heavy":
        grid = 100.0 * noise / 2  # a timer that resolves half a standard deviation
        values = np.round(values / grid) * grid
    label = f"{kind} step={step:g} noise={noise:g} {name}"
    return Planted(
        label, "synth", tuple(values.tolist()), changes, groups, kind=kind, step=step, noise=noise
    )


def _places(kind: str, rng: Rng) -> tuple[int, ...]:
    count = {"multi": 3, "fix": 2}.get(kind, 1)
    while True:
        places = np.sort(rng.integers(FIRST_CHANGE, LAST_CHANGE + 1, count))
        if count == 1 or int(np.diff(places).min()) >= LEAST_GAP:
            return tuple(int(place) for place in places)


def _level(kind: str, changes: tuple[int, ...], size: float, rng: Rng) -> Floats:
    level = np.zeros(LENGTH)
    sign = rng.choice([-1.0, 1.0])
    for place in changes:
        level[place:] += sign * size
        sign = -sign if kind == "fix" else rng.choice([-1.0, 1.0])
    return level


def _throttled(share: float, rng: Rng) -> Floats:
    hit = rng.random(LENGTH) < share
    return np.where(hit, np.log1p(rng.uniform(0.10, 0.40, LENGTH)), 0.0)


Made = tuple[Floats, tuple[str, ...] | None]


def _clean(noise: float, rng: Rng) -> Made:
    return rng.normal(0.0, noise, LENGTH), None


def _outlier(noise: float, rng: Rng) -> Made:
    return rng.normal(0.0, noise, LENGTH) + _throttled(0.04, rng), None


def _drift(noise: float, rng: Rng) -> Made:
    total = rng.choice([-1.0, 1.0]) * rng.uniform(0.01, 0.03)
    return rng.normal(0.0, noise, LENGTH) + np.linspace(0.0, total, LENGTH), None


def _bimodal(noise: float, rng: Rng) -> Made:
    there = rng.random(LENGTH) < rng.uniform(0.2, 0.5)
    return rng.normal(0.0, noise, LENGTH) + there * rng.uniform(4.0, 7.0) * noise, None


def _sticky(noise: float, rng: Rng) -> Made:
    there = np.cumsum(rng.random(LENGTH) < 0.15) % 2
    return rng.normal(0.0, noise, LENGTH) + there * rng.uniform(4.0, 7.0) * noise, None


def _machine(noise: float, rng: Rng) -> Made:
    distance = rng.uniform(1.5, 4.0) * noise
    which = rng.integers(0, 3, LENGTH)
    offsets = np.array([0.0, distance, -distance])[which]
    return rng.normal(0.0, noise, LENGTH) + offsets, tuple(f"machine{m}" for m in which)


def _variance(noise: float, rng: Rng) -> Made:
    scale = np.full(LENGTH, noise)
    scale[rng.integers(FIRST_CHANGE, LAST_CHANGE + 1) :] *= rng.choice([1 / 3, 3.0])
    return rng.normal(0.0, 1.0, LENGTH) * scale, None


def _ar(noise: float, rng: Rng) -> Made:
    shocks = rng.normal(0.0, noise * np.sqrt(1 - 0.5**2), LENGTH)
    values = np.empty(LENGTH)
    values[0] = rng.normal(0.0, noise)
    for i in range(1, LENGTH):
        values[i] = 0.5 * values[i - 1] + shocks[i]
    return values, None


def _heavy(noise: float, rng: Rng) -> Made:
    return rng.standard_t(3, LENGTH) * noise / np.sqrt(3.0), None  # t(3) has variance 3


MAKERS: dict[str, Callable[[float, Rng], Made]] = {
    "outlier": _outlier,
    "drift": _drift,
    "bimodal": _bimodal,
    "sticky": _sticky,
    "machine": _machine,
    "variance": _variance,
    "ar": _ar,
    "heavy": _heavy,
}
