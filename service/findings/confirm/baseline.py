"""The value that each worker measures at the level before a suspicious point. Pure.

Machines of one kind differ, for ever, by as much as the changes that are looked for. Which of them
happened to measure before and after is no change, so each is held against its own past. Only points
before the suspicious one count: an offset told from both sides would hold a part of the change.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median

ENOUGH = 3
"""Points of a worker's own that say what it measures; with fewer it is taken for one of many."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """The level that all workers measure together, and what single ones measure at it."""

    level: float
    own: Mapping[str, float]
    """By worker, of those that are known well enough."""

    @classmethod
    def of(cls, measured: Iterable[tuple[str, float]]) -> Baseline:
        """From workers and what they measured, at least one.

        Raises:
            ValueError: nothing was measured.
        """
        values: dict[str, list[float]] = defaultdict(list)
        for worker, value in measured:
            values[worker].append(value)
        if not values:
            raise ValueError("Nothing was measured: there is no usual level.")
        known = {name: median(its) for name, its in values.items() if len(its) >= ENOUGH}
        return cls(
            level=median(value for its in values.values() for value in its),
            own={name: own for name, own in known.items() if own > 0},
        )

    def at(self, worker: str) -> float:
        """Give the value that a worker measures at this level."""
        return self.own.get(worker, self.level)

    def alike(self, worker: str, value: float) -> float:
        """Convert a worker's ``value`` to what all workers together would have measured.

        If the worker's own level is not above zero, ``value`` comes out unchanged.
        """
        own = self.at(worker)
        return value * self.level / own if own > 0 else value
