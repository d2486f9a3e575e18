"""The history that is judged: the values of one series in the order of their revisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.contracts import Direction

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LARGEST = 1e150
"""Squares of anything larger overflow a double; nothing that is measured comes near it."""


class Refused(ValueError):
    """This history cannot be judged; the sentence says which value and why."""


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """Values in order, which way is better, and on request the machine behind each value.

    Make one with ``of``, which refuses what cannot be judged.
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
        raise Refused(f"Value {wrong[0]} is {numbers[wrong[0]]}, which cannot be judged.")
    numbers.setflags(write=False)
    return numbers
