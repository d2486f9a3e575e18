"""Fractional factorial designs of two-level factors: which cases to run, what they tell apart.

A design varies all its factors together, in a chosen fraction of all combinations. *Defining words*
are products of factors that are the same in every run: they say which effects the runs cannot tell
apart (aliases), and the shortest one is the design's resolution. Box, Hunter and Hunter, Statistics
for Experimenters, 2nd edition, chapter 6. Pure, without torch or numpy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations, product

from benchmarks.contracts import Case

Effect = frozenset[int]
"""One factor's number for a main effect, two for an interaction of two, and so on."""
Levels = tuple[int, ...]
"""Of each factor, -1 (low) or +1 (high)."""


@dataclass(frozen=True)
class Factor:
    """An axis with two of its values; the low one is where a ladder would start."""

    axis: str
    low: str
    high: str


@dataclass(frozen=True)
class Design:
    """Two-level factors of one workload, in the runs whose defining words have the given sign."""

    workload: str
    factors: tuple[Factor, ...]
    words: tuple[tuple[int, ...], ...] = ()
    """Independent defining words, as factor numbers. Their sign is that of the run with all
    factors low, so that this run, the baseline, is always in the design."""
    held: Mapping[str, str] = field(default_factory=dict)
    """Axes that are the same in every run."""

    def runs(self) -> tuple[Levels, ...]:
        """The levels of each run, the baseline first."""
        every = product((-1, 1), repeat=len(self.factors))
        return tuple(levels for levels in every if all(self._kept(levels, w) for w in self.words))

    @staticmethod
    def _kept(levels: Levels, word: tuple[int, ...]) -> bool:
        return math.prod(levels[at] for at in word) == math.prod(-1 for _ in word)

    def cases(self) -> tuple[Case, ...]:
        """The case of each run, in the runs' order."""
        return tuple(self.case(levels) for levels in self.runs())

    def case(self, levels: Levels) -> Case:
        """Return the case at these levels."""
        chosen = {
            factor.axis: factor.high if level > 0 else factor.low
            for factor, level in zip(self.factors, levels, strict=True)
        }
        return Case(workload=self.workload, axes=dict(self.held) | chosen)

    def defining(self) -> frozenset[Effect]:
        """Every defining word: the independent ones and all their products."""
        words: set[Effect] = {frozenset()}
        for word in self.words:
            words |= {product ^ frozenset(word) for product in words}
        return frozenset(words - {frozenset()})

    @property
    def resolution(self) -> int | None:
        """Length of the shortest defining word; None if every combination is run.

        At 5, main effects and interactions of two are mixed up with nothing below interactions of
        three; at 4, interactions of two with each other; at 3, main effects with them.
        """
        return min((len(word) for word in self.defining()), default=None)

    def aliases(self, effect: Effect) -> frozenset[Effect]:
        """Effects that these runs cannot tell from ``effect``."""
        return frozenset(effect ^ word for word in self.defining())

    def effects(self) -> tuple[Effect, ...]:
        """One effect for each contrast that the runs allow, the simplest of its aliases."""
        numbers = range(len(self.factors))
        effects: list[Effect] = []
        seen: set[Effect] = {frozenset()} | self.defining()
        for size in range(1, len(self.factors) + 1):
            for chosen in combinations(numbers, size):
                effect = frozenset(chosen)
                if effect not in seen:
                    effects.append(effect)
                    seen |= {effect} | self.aliases(effect)
        return tuple(effects)

    def name(self, effect: Effect) -> str:
        """Such as ``precision`` or ``layout x compile``."""
        return " x ".join(self.factors[at].axis for at in sorted(effect))

    def limits(self) -> Iterator[str]:
        """Yield what a reader must know: the size, the resolution, and the effects mixed up."""
        runs, whole = len(self.runs()), 2 ** len(self.factors)
        if self.resolution is None:
            yield f"All {whole} combinations of {len(self.factors)} factors are run."
            return
        yield f"{runs} of {whole} combinations are run: resolution {_roman(self.resolution)}."
        words = sorted(self.defining(), key=lambda word: (len(word), sorted(word)))
        yield "The same in every run: " + "; ".join(self.name(word) for word in words) + "."
        if self.resolution >= 5:
            yield (
                "Each main effect and each interaction of two is told apart from every other; what "
                "it is mixed up with are interactions of three and more, taken to be small."
            )
            return
        for effect in self.effects():
            close = [other for other in self.aliases(effect) if len(other) <= 2]
            if len(effect) <= 2 and close:
                named = " and ".join(sorted(self.name(other) for other in close))
                yield f"{self.name(effect)} cannot be told from {named}."


def _roman(number: int) -> str:
    numerals = ("", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX")
    return numerals[number] if number < len(numerals) else str(number)
