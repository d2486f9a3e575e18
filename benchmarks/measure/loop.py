"""The timed loop: three marks per step, no synchronisation per step.

A step runs from the end of the step before it to its own end. Within it:

* ``stall``: end of the step before, to the moment the next batch was there (device idle);
* ``copy``:  that moment, to the batch being on the device;
* ``work``:  from there to the end: forward, backward, update.

Where batches are copied on a stream of their own, ``copy`` is what the compute stream still waits
for, and ``transfer`` how long the copy itself took.

The host waits only for the step before the last but one. That bounds how far it runs ahead and
never empties the device's queue, and it lets times be read while the loop goes on.
"""

from __future__ import annotations

import math
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from benchmarks.contracts import GangBlock, RankTimes, Window
from benchmarks.cpus import pressure_s
from benchmarks.measure import compilation
from benchmarks.measure.sm_clock import NoClock, SpanClock
from benchmarks.measure.timestamps import Mark, drain, maker
from benchmarks.measure.trainer import Trainer

RUN_AHEAD = 2
"""Steps that the host may be ahead of the device, at most."""
UNHINDERED_STEPS = 3
_NO_CLOCK = NoClock()


@dataclass
class StepTimes:
    """Times of finished steps, in seconds, in order."""

    step: list[float] = field(default_factory=list)
    stall: list[float] = field(default_factory=list)
    copy: list[float] = field(default_factory=list)
    work: list[float] = field(default_factory=list)
    enqueue: list[float] = field(default_factory=list)
    drained: list[bool] = field(default_factory=list)
    transfer: list[float] = field(default_factory=list)
    """Copies on a stream of their own, each from its start to its end; empty without one."""


@dataclass(frozen=True)
class TimedPass:
    """A finished pass."""

    times: StepTimes
    window: Window
    wall_s: float
    cpu_pressure: float | None
    """Share of the pass in which some task of the node waited for a CPU."""
    loss: float
    """Loss of the last step, read after the pass."""
    sm_clock_hz: float | None = None
    """Mean clock of the device's SMs, as they counted it."""
    compile_s: float | None = None
    """Seconds of the compiler meanwhile; None where nothing was compiled."""
    ranks: tuple[RankTimes, ...] = ()
    """Each rank's own, of a gang."""
    blocks: tuple[GangBlock, ...] = ()
    """Each block of a gang."""


@dataclass(slots=True)
class _Queued:
    ready: Mark
    start: Mark
    end: Mark
    enqueue_s: float = 0.0
    drained: bool = True
    transfer: tuple[Mark, Mark] | None = None

    def read_into(self, times: StepTimes, before: Mark) -> None:
        times.step.append(before.elapsed_time(self.end) / 1e3)
        times.stall.append(before.elapsed_time(self.ready) / 1e3)
        times.copy.append(self.ready.elapsed_time(self.start) / 1e3)
        times.work.append(self.start.elapsed_time(self.end) / 1e3)
        times.enqueue.append(self.enqueue_s)
        times.drained.append(self.drained)
        if self.transfer is not None:
            started, ended = self.transfer
            times.transfer.append(started.elapsed_time(ended) / 1e3)


def run(
    trainer: Trainer,
    feed: Iterator[Sequence[Tensor]],
    enough: Callable[[StepTimes], bool],
    clock: SpanClock = _NO_CLOCK,
    run_ahead: int = RUN_AHEAD,
    uncounted: int = 0,
) -> TimedPass:
    """Step until ``enough`` says so; it sees the finished steps, ``run_ahead`` late.

    Where lengths repeat, from there on to the end of the recipe's cycle.

    Args:
        trainer: what steps.
        feed: batches without end, on the host (FULL) or on the device (SYNTH).
        enough: called once per finished step; must be quick.
        clock: counts the device's cycles from before the first step to after the last.
        run_ahead: steps, 1 or 2, that the host may be ahead of the device.
        uncounted: first steps that the caller leaves out; the others are whole cycles.
    """
    cycle, begun, over = trainer.recipe.cycle, 0, False
    times, queued, (before, *idle) = StepTimes(), deque[_Queued](), _items(trainer.device)
    spare = deque(idle)
    drain(trainer.device)
    waited_s, compiled_s = pressure_s(), compilation.spent_s()
    start_s, wall_from = time.monotonic(), time.perf_counter()
    clock.start()
    before.end.record()
    while True:
        queued.append(item := spare.popleft())
        batch = next(feed)
        item.ready.record()
        placed = trainer.place(batch)
        item.start.record()
        item.transfer = trainer.placement.transfer
        item.drained = len(queued) < 2 or queued[-2].end.query()
        from_s = time.perf_counter()
        loss = trainer.step(placed)
        item.end.record()
        item.enqueue_s = time.perf_counter() - from_s
        begun += 1
        if len(queued) > run_ahead:
            queued[0].end.synchronize()
            queued[0].read_into(times, before.end)
            spare.append(before)
            before = queued.popleft()
            over = over or enough(times)
            if over and (begun - uncounted) % cycle == 0:
                break
    clock.stop()
    drain(trainer.device)
    wall_s, end_s = time.perf_counter() - wall_from, time.monotonic()
    waited_s = pressure_s() - waited_s
    for item in queued:
        item.read_into(times, before.end)
        before = item
    window = Window(start_s=start_s, end_s=end_s)
    pressure = _share(waited_s, wall_s)
    compile_s = compilation.spent_s() - compiled_s if compilation.graphs() else None
    return TimedPass(times, window, wall_s, pressure, _value(loss), clock.mean_hz(), compile_s)


def unhindered_s(trainer: Trainer, feed: Iterator[Sequence[Tensor]]) -> float | None:
    """Host time to queue one step on an idle device, the median of a few; None without a queue.

    In a timed pass the queue is full where the device is the slower one, and holds the host back.
    """
    if trainer.device.type != "cuda":
        return None
    times = []
    for _ in range(max(UNHINDERED_STEPS, trainer.recipe.cycle)):
        placed = trainer.place(next(feed))
        drain(trainer.device)
        from_s = time.perf_counter()
        trainer.step(placed)
        times.append(time.perf_counter() - from_s)
    return statistics.median(times)


def _items(device: torch.device) -> list[_Queued]:
    mark = maker(device)
    return [_Queued(mark(), mark(), mark()) for _ in range(RUN_AHEAD + 2)]


def _share(waited_s: float, wall_s: float) -> float | None:
    return min(1.0, waited_s / wall_s) if math.isfinite(waited_s) else None


def _value(loss: Tensor) -> float:
    with torch.no_grad():
        return float(loss)
