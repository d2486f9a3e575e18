"""The history that is analysed, and the scale on which it is.

Run times and rates change by factors and their noise grows with them, so positive values (and
negative ones, mirrored) are analysed by their logarithms. A history that holds zeros or both signs
has no ratios; it is analysed as it is, and its effects are shares of its typical size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.contracts import Direction
from service.analysis.detection.robust import Floats, Ints, spread

QUIET = 0.02
"""Without ratios the size of a step means nothing: noise is made to look like 2 %, where evidence
counts size neither way."""
MOST_UNITS = 1e12
"""Units beyond which a value is an outlier whatever it is, and its square still a good double."""

HIGHEST = 700.0
"""A logarithm; at 710 its exponential overflows a double."""

UNITS = (60.0, 3600.0, 1e3, 1024.0, 1e6, 1024.0**2, 1e9, 1024.0**3)
"""Between minutes and seconds, milliseconds and seconds, kibibytes and bytes, and so on."""
ALIKE = 0.05
"""A change of code and of unit at once is not guessed at."""


def between_units(before: float, after: float) -> float | None:
    """By what the level was multiplied, if that looks like a change of unit; else None."""
    if before * after <= 0:
        return None
    for unit in UNITS:
        for factor in (unit, 1.0 / unit):
            if abs(after / before / factor - 1.0) < ALIKE:
                return factor
    return None


@dataclass(frozen=True, slots=True)
class Scale:
    """The transformation of values, and the way back."""

    logarithmic: bool
    sign: float = 1.0
    unit: float = 1.0
    """The value of one unit of this scale, for a history that has no logarithms."""
    size: float = 1.0
    """Median of its absolute values that are not zero."""

    @property
    def typical_size(self) -> float | None:
        """The size that effects are shares of; None where that is the value itself."""
        return None if self.logarithmic else self.size

    def effect(self, difference: float) -> float:
        """The change of the value as a share: 0.02 is two percent more of it."""
        if not self.logarithmic:
            return difference * self.unit / self.size
        return math.expm1(min(difference, HIGHEST))

    def deviation(self, deviation: float) -> float:
        """A standard deviation as a share of what effects are shares of."""
        return deviation if self.logarithmic else self.effect(deviation)

    def value(self, position: float) -> float:
        """A position on the scale as a value in the unit that was measured."""
        if not self.logarithmic:
            return position * self.unit
        return self.sign * math.exp(min(position, HIGHEST))


def transform(values: Floats) -> tuple[Floats, Scale]:
    """The values on the scale on which they are analysed; same length."""
    if values.size and bool(np.all(values > 0)):
        return np.log(values), Scale(logarithmic=True)
    if values.size and bool(np.all(values < 0)):
        return np.log(-values), Scale(logarithmic=True, sign=-1.0)
    sizes = np.abs(values[values != 0])
    size = float(np.median(sizes)) if sizes.size else 1.0
    noise = spread(np.diff(values)) / math.sqrt(2)
    unit = noise / QUIET if noise > 1e-9 * size else size
    with np.errstate(over="ignore"):
        y = np.clip(values / unit, -MOST_UNITS, MOST_UNITS)
    return y, Scale(logarithmic=False, unit=unit, size=size)


LARGEST = 1e150
"""Squares of anything larger overflow a double; nothing that is measured comes near it."""


class Refused(ValueError):
    """This history cannot be analysed; the sentence says which value and why."""


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """Values in order, which way is better, and on request the machine behind each value.

    Make one with ``of``, which refuses what cannot be analysed.
    """

    values: Floats
    direction: Direction
    groups: Ints | None = None
    """One number per value; equal numbers are the same machine."""
    group_names: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        values: Sequence[float] | Floats,
        direction: Direction | str = Direction.LOWER,
        groups: Sequence[str] | None = None,
    ) -> History:
        """Check and freeze; raises ``Refused``."""
        checked = _numbers(values)
        try:
            way = Direction(direction)
        except ValueError:
            raise Refused(f"The direction is 'higher' or 'lower', not {direction!r}.") from None
        if groups is None:
            return cls(checked, way)
        if len(groups) != len(checked):
            raise Refused(f"There are {len(groups)} groups for {len(checked)} values.")
        names, numbers = np.unique(np.asarray(groups, dtype=str), return_inverse=True)
        return cls(checked, way, numbers.astype(np.int64), tuple(names.tolist()))

    def first(self, count: int) -> History:
        """The history as it was when it had ``count`` values."""
        groups = None if self.groups is None else self.groups[:count]
        return History(self.values[:count], self.direction, groups, self.group_names)


def _numbers(values: Sequence[float] | Floats) -> Floats:
    try:
        numbers = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise Refused("The values are not all numbers.") from None
    if numbers.ndim != 1:
        raise Refused("The values are not a flat list of numbers.")
    wrong = np.flatnonzero(~(np.abs(numbers) <= LARGEST))
    if len(wrong):
        raise Refused(f"Value {wrong[0]} is {numbers[wrong[0]]}, which cannot be analysed.")
    numbers.setflags(write=False)
    return numbers
