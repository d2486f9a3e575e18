"""The noise between a case's pairs that is known before a gate begins.

Two degrees of freedom tell little of how pairs vary, so three pairs by themselves decide quiet
cases only. Earlier gates of the same case on such a device tell it better. Their pooled variance
enters with some degrees of freedom of its own, beside that of the pairs at hand (the moderated t of
Smyth, 2004: exact where the variances of gates follow a scaled inverse chi-squared distribution).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Self

import numpy as np
from pydantic import Field, TypeAdapter
from pydantic.dataclasses import dataclass

from service.schemas.gate import MetricFinding, NoiseSource

FLOOR = 1e-4
"""No two processes are taken to repeat better than this (standard deviation of a pair's
difference): three equal readings of a coarse counter prove nothing about 0.01 %."""
FAR = 3.0
"""No gate's noise counts as more than so many times the median of several."""
MOST_FREEDOM = 5.0
"""Degrees of freedom with which earlier gates count at most, however many they are.

Noise of today may be twice that of earlier gates. With five, 0.1 to 0.4 % of gates of equal code
then find a regression, where 0.5 % are permitted; with ten 0.2 to 0.8 %, with twenty 0.7 to 1.7 %
(20,000 simulated gates each, noise of 0.18 and 0.27 %)."""


@dataclass(frozen=True, slots=True)
class PairNoise:
    """Standard deviation of a pair's log ratio, and the degrees of freedom that it was told by."""

    deviation: Annotated[float, Field(ge=0)]
    freedom: Annotated[float, Field(gt=0)]
    known_by: NoiseSource = NoiseSource.GATES

    @classmethod
    def of_gates(cls, found: Sequence[tuple[float, int]]) -> Self | None:
        """Pool what earlier gates found: their noise, and of how many pairs; None if none did."""
        if not found:
            return None
        most = FAR * max(float(np.median([noise for noise, _ in found])), FLOOR)
        freedom = sum(pairs - 1 for _, pairs in found)
        total = math.fsum((pairs - 1) * min(noise, most) ** 2 for noise, pairs in found)
        return cls(math.sqrt(total / freedom), freedom)

    @property
    def prior(self) -> PairNoise:
        """The same with the weight that it has beside the pairs of a gate."""
        return replace(self, freedom=min(self.freedom, MOST_FREEDOM))


@dataclass(frozen=True, slots=True)
class KnownNoise:
    """Noise of one metric between pairs, pooled from earlier gates."""

    metric: str = ""
    as_measured: PairNoise | None = None
    at_one_clock: PairNoise | None = None

    @classmethod
    def of_gates(cls, metric: str, found: Sequence[MetricFinding]) -> Self:
        """Pool what earlier gates found on ``metric``."""
        clocked = [(one.noise, one.pairs) for one in found if one.clock is not None and one.noise]
        measured = [
            (noise, one.pairs)
            for one in found
            if (noise := one.noise if one.clock is None else one.noise_as_measured)
        ]
        return cls(metric, PairNoise.of_gates(measured), PairNoise.of_gates(clocked))

    @property
    def noise(self) -> PairNoise | None:
        """The noise of what is compared, as far as that can be told beforehand."""
        return self.at_one_clock or self.as_measured

    def prior(self, metric: str, *, at_one_clock: bool) -> PairNoise | None:
        """The noise of ``metric`` as it counts in a gate; None where nothing is known of it."""
        noise = self.at_one_clock if at_one_clock else self.as_measured
        return None if noise is None or metric != self.metric else noise.prior


STORED = TypeAdapter(list[KnownNoise])
"""The noise of each case of a comparison, as it is stored with it."""
