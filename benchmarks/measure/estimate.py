"""From step times to a rate with an interval, and to the decision to stop. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from benchmarks.contracts import Pass, Protocol, StopReason, Trace
from benchmarks.contracts.bounds import pass_steps
from benchmarks.measure.loop import StepTimes, TimedPass

Floats = NDArray[np.float64]

LAG1_LIMIT = 0.3
"""Above this the block means are not independent enough, and blocks are doubled."""
FEWEST = 4
"""Blocks that a finished pass is cut into at least, so that it has an interval."""
SLOW = 1.5
"""Times the median from which a step is counted as slow."""
PLATEAU = 4
"""So many half-widths in a row within `PLATEAU_SPAN` mean that more steps teach nothing."""
PLATEAU_SPAN = 0.05


@dataclass(frozen=True)
class Interval:
    """Student-t interval over block means."""

    half_width: float
    """Relative to the mean."""
    block_steps: int
    lag1: float
    n_eff: float


def block_length(step_s: float, protocol: Protocol, least: int = 1, cycle: int = 1) -> int:
    """Steps per block: enough of them, and long enough, for block means to be meaningful.

    Args:
        step_s: *mean* step time. Loader processes deliver in bursts, and the median step of a
            burst says nothing about how long a block takes.
        protocol: its floors.
        least: further floor in steps, such as one round of the loader's processes.
        cycle: steps whose times repeat, as their lengths do; a block has whole ones.
    """
    by_time = math.ceil(protocol.block_min_s / max(step_s, 1e-9))
    steps = max(protocol.block_min_steps, by_time, least)
    return math.ceil(steps / cycle) * cycle


def interval(step_s: Sequence[float], block_steps: int) -> Interval | None:
    """95 % interval of the mean step time, from blocks; None with fewer than two blocks.

    Blocks are doubled while neighbouring block means are correlated and eight would remain.
    """
    while True:
        means = block_means(step_s, block_steps)
        if len(means) < 2:
            return None
        lag1 = _lag1(means)
        if lag1 <= LAG1_LIMIT or len(means) < 16:
            break
        block_steps *= 2
    n = len(means)
    half = float(stdtrit(n - 1, 0.975)) * float(means.std(ddof=1)) / math.sqrt(n)
    spread = max(0.0, min(lag1, 0.99))
    n_eff = n * (1 - spread) / (1 + spread)
    return Interval(half / float(means.mean()), block_steps, lag1, n_eff)


def shortened(block_steps: int, steps: int, cycle: int = 1) -> int:
    """The block of a finished pass: halved until `FEWEST` of them fit, where the window held fewer.
    Whole cycles stay whole.

    Of a loader that delivers in bursts the interval is then a little narrow; without one nobody
    would learn how steady a pass of slow steps was.
    """
    while block_steps > cycle and steps // block_steps < FEWEST:
        block_steps = math.ceil(block_steps / (2 * cycle)) * cycle
    return block_steps


def block_means(step_s: Sequence[float], block_steps: int) -> Floats:
    """Means over blocks of that many steps; a last one that is not whole is left out."""
    whole = len(step_s) // block_steps
    kept = np.asarray(step_s[: whole * block_steps], dtype=np.float64)
    means: Floats = kept.reshape(whole, block_steps).mean(axis=1)
    return means


def _lag1(values: Floats) -> float:
    centred = values - values.mean()
    total = float(centred @ centred)
    return float(centred[:-1] @ centred[1:]) / total if total > 0 else 0.0


@dataclass
class StopRule:
    """Decides when a timed pass has seen enough; called once after each step."""

    protocol: Protocol
    block_steps: int
    reason: StopReason = StopReason.TIME
    _elapsed_s: float = 0.0
    _half_widths: list[float] = field(default_factory=list)

    def __call__(self, times: StepTimes) -> bool:
        """Say whether to stop; the reason is then in ``reason``."""
        self._elapsed_s += times.step[-1]
        if len(times.step) >= pass_steps(self.protocol.replicates):
            self.reason = StopReason.STEPS  # a result has no room for more of them
            return True
        if len(times.step) % self.block_steps == 0:
            reason = self._decide(times.step)
            if reason is not None:
                self.reason = reason
                return True
        # The limit holds at every step: a block may be longer than what is left of the window.
        return self._elapsed_s >= self.protocol.window_max_s

    def _decide(self, step_s: Sequence[float]) -> StopReason | None:
        blocks = len(step_s) // self.block_steps
        floors = (
            len(step_s) >= self.protocol.window_min_steps
            and blocks >= self.protocol.window_min_blocks
            and self._elapsed_s >= self.protocol.window_min_s
        )
        if floors:
            estimate = interval(step_s, self.block_steps)
            if estimate is not None:
                self._half_widths.append(estimate.half_width)
                if estimate.half_width <= self.protocol.precision:
                    return StopReason.PRECISE
                if self._flat():
                    return StopReason.PLATEAU
        enough_blocks = blocks >= self.protocol.window_max_blocks
        return StopReason.STEPS if floors and enough_blocks else None

    def _flat(self) -> bool:
        last = self._half_widths[-PLATEAU:]
        return len(last) == PLATEAU and max(last) <= min(last) * (1 + PLATEAU_SPAN)


def summarise(
    timed: TimedPass, items_per_step: float, rule: StopRule, *, queued: bool, cycle: int = 1
) -> Pass:
    """The contract's `Pass` of a finished pass. No step is left out.

    Args:
        timed: what the loop measured.
        items_per_step: what throughput counts, per step; the mean over a cycle.
        rule: the rule that ended it.
        queued: whether the device works from a queue, so that it can run dry; a CPU does not.
        cycle: steps whose times repeat, as their lengths do. The pass holds whole ones, and what
            is told of single steps is of their means.
    """
    times = timed.times
    steps = np.asarray(times.step)
    rate = items_per_step * len(steps) / float(steps.sum())
    estimate = interval(times.step, shortened(rule.block_steps, len(steps), cycle))
    alike = block_means(times.step, cycle)
    p50, p90, p99 = (float(v) for v in np.percentile(alike, [50, 90, 99]))
    return Pass(
        window=timed.window,
        steps=len(steps),
        block_steps=estimate.block_steps if estimate else rule.block_steps,
        rate=rate,
        half_width=rate * estimate.half_width if estimate else None,
        lag1=estimate.lag1 if estimate else None,
        n_eff=estimate.n_eff if estimate else None,
        stop=rule.reason,
        p50_s=p50,
        p90_s=p90,
        p99_s=p99,
        max_s=float(alike.max()),
        slow_steps=int((alike > SLOW * p50).sum()),
        cpu_pressure=timed.cpu_pressure,
        sm_clock_hz=timed.sm_clock_hz,
        stall_s=_mean(times.stall),
        copy_s=_mean(times.copy),
        work_s=_mean(times.work),
        enqueue_s=_mean(times.enqueue),
        compile_s=timed.compile_s,
        drained=_mean(times.drained) if queued else None,
        transfer_s=_mean(times.transfer) if times.transfer else None,
        overlap=overlap(times.copy, times.transfer) if times.transfer else None,
        wall_s=timed.wall_s,
        step_trace=Trace.of(times.step),
        stall_trace=Trace.of(times.stall),
        copy_trace=Trace.of(times.copy),
        work_trace=Trace.of(times.work),
        ranks=timed.ranks,
    )


def overlap(exposed_s: Sequence[float], transfer_s: Sequence[float]) -> float:
    """Share of the copying on a side stream that no step waited for, from 0 to 1.

    A wait may be longer than the copy, as it also holds what is done to a batch on its arrival.
    """
    copying_s = sum(transfer_s)
    waited_s = sum(max(0.0, value) for value in exposed_s)
    return min(1.0, max(0.0, 1.0 - waited_s / copying_s)) if copying_s > 0 else 0.0


def _mean(values: Sequence[float]) -> float:
    # Two marks recorded back to back can read a hair below zero.
    return max(0.0, sum(values) / len(values))
