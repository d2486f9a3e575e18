"""Detects the end of warm-up, with floors and a cap. Pure but for the readings it is given.

Steps are compared without their wait for a batch: a loader that is slower than the device never
becomes steady, and the device behind it does. FULL lets the loader find its rate by itself.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from benchmarks.contracts import Protocol
from benchmarks.measure.estimate import block_means
from benchmarks.measure.loop import StepTimes

AGREE = 0.01
"""Medians of two blocks in a row must agree this closely."""
SPIKE = 1.10
"""No step of them may be so many times the median."""
SLOPE = 0.002
"""A noisy host never meets the two rules above; three blocks as flat as this suffice."""
QUIET_STEPS = 10
"""Steps without a new graph or a grown allocator."""
SETTLED_S = 5.0
"""Time for which the temperature must stay within the protocol's span."""
CAP_AFTER = 3.0
"""The cap in steps holds only after so many times the floor in seconds."""

Reason = Literal["steady", "flat", "capped"]


@dataclass(frozen=True)
class Reading:
    """The conditions in process and device between two steps."""

    counters: tuple[int, ...] = ()
    """Graphs compiled, bytes reserved, allocator retries: all must stand still."""
    temperature_c: float | None = None


@dataclass
class WarmupRule:
    """Decides after each block whether steady state is reached."""

    protocol: Protocol
    read: Callable[[], Reading]
    cycle: int = 1
    """Steps whose times repeat, as their lengths do: a block is whole ones, told by their means."""
    reason: Reason = "capped"
    _since: int = 0
    _elapsed_s: float = 0.0
    _blocks: list[list[float]] = field(default_factory=list)
    _quiet: int = 0
    _counters: tuple[int, ...] | None = None
    _temperatures: list[tuple[float, float]] = field(default_factory=list)

    def __call__(self, times: StepTimes) -> bool:
        """Say whether warm-up is over; how is then in ``reason``."""
        steps = times.step
        self._elapsed_s += steps[-1]
        if self._counters is None:
            self._counters = self.read().counters
        block = steps[self._since :]
        if len(block) < self.protocol.block_min_steps:
            return self._capped(steps)
        if len(block) % self.cycle:
            return self._capped(steps)
        if sum(block) < self.protocol.block_min_s:
            return self._capped(steps)
        stalls = times.stall[self._since :]
        block = [step_s - stall_s for step_s, stall_s in zip(block, stalls, strict=True)]
        self._blocks.append(block_means(block, self.cycle).tolist())
        self._since = len(steps)
        self._take_reading(len(block))
        return self._capped(steps) or self._steady(steps)

    def _take_reading(self, steps: int) -> None:
        reading = self.read()
        if reading.counters == self._counters:
            self._quiet += steps
        else:
            self._quiet = 0
        self._counters = reading.counters
        if reading.temperature_c is not None:
            self._temperatures.append((self._elapsed_s, reading.temperature_c))

    def _capped(self, steps: Sequence[float]) -> bool:
        # Of steps of a few milliseconds the cap would come before the floor in seconds.
        had_time = self._elapsed_s >= CAP_AFTER * self.protocol.warmup_min_s
        too_many = had_time and len(steps) >= self.protocol.warmup_max_steps
        return too_many or self._elapsed_s >= self.protocol.warmup_max_s

    def _steady(self, steps: Sequence[float]) -> bool:
        floors = (
            len(steps) >= self.protocol.warmup_min_steps
            and self._elapsed_s >= self.protocol.warmup_min_s
            and self._quiet >= min(QUIET_STEPS, self.protocol.warmup_min_steps)
            and self._settled()
        )
        if not floors:
            return False
        if _agree(self._blocks[-2:]):
            self.reason = "steady"
        elif _flat(self._blocks[-3:]):
            self.reason = "flat"
        else:
            return False
        return True

    def _settled(self) -> bool:
        if not self._temperatures or self._elapsed_s >= self.protocol.settle_max_s:
            return True
        now_s = self._temperatures[-1][0]
        recent = [c for at_s, c in self._temperatures if now_s - at_s <= SETTLED_S]
        covered = now_s - self._temperatures[0][0] >= SETTLED_S
        return covered and max(recent) - min(recent) <= self.protocol.settle_c


def _agree(blocks: Sequence[Sequence[float]]) -> bool:
    if len(blocks) < 2:
        return False
    medians = [statistics.median(block) for block in blocks]
    calm = all(max(block) <= SPIKE * m for block, m in zip(blocks, medians, strict=True))
    return calm and max(medians) <= min(medians) * (1 + AGREE)


def _flat(blocks: Sequence[Sequence[float]]) -> bool:
    if len(blocks) < 3:
        return False
    first, _, last = (statistics.median(block) for block in blocks)
    return abs(last - first) / 2 <= SLOPE * first
