"""The passes of one replicate, in order: first step, warm-up, FULL, SYNTH; then phases, profile.

Everything that compiles, autotunes or allocates happens before the first timed step, both timed
passes start from the same weights, and nothing but the step runs inside them.
"""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from torch import Tensor

from benchmarks import contracts
from benchmarks.diagnosis import sanity
from benchmarks.diagnosis.verdict import HOST_SYNC
from benchmarks.measure import (
    batch_source,
    compilation,
    conditions,
    cycles,
    device,
    flags,
    loop,
    sm_clock,
)
from benchmarks.measure.estimate import StopRule, block_length, block_means, summarise
from benchmarks.measure.profile import extra_passes as beside
from benchmarks.measure.progress import Reporter
from benchmarks.measure.ranks import Solo, exchange_s
from benchmarks.measure.timestamps import drain
from benchmarks.measure.trainer import Trainer
from benchmarks.measure.warmup import WarmupRule
from benchmarks.workload import Batch

CLOCK_AGREEMENT = 0.005
"""Event span and wall clock of a pass must agree this closely."""
TAIL = 0.02
"""Relative difference of mean and median step above which a few slow steps carry much time."""
REFILL_STEPS = 3
"""Untimed steps before a pass, at least."""
QUEUES = 3
"""A FULL window holds at least so many loader queues, or filling the queue weighs too much."""
Enough = Callable[[loop.StepTimes], bool]
"""Says after each step whether the steps so far are enough."""
_NO_CLOCK = sm_clock.NoClock()
_SPANS = {"warmup": (0.2, 0.4), "full": (0.4, 0.7), "synth": (0.7, 1.0)}
"""Share of a replicate's progress that each phase covers."""


class Passes:
    """Runs the passes of one trainer."""

    def __init__(
        self,
        trainer: Trainer,
        protocol: contracts.Protocol,
        reporter: Reporter,
        unit: str,
        trace: Path | None = None,
        asked_beside: Callable[[contracts.Pass, contracts.Pass], contracts.Protocol] | None = None,
        *,
        anywhere: bool = False,
    ) -> None:
        """The step may run in another working directory if it runs ``anywhere``."""
        self.ranks = Solo()
        """This process, and the others of its gang."""
        self._trainer = trainer
        self._trace = trace
        self._asked_beside = asked_beside or (lambda *_: protocol)
        self.protocol = protocol
        self._reporter = reporter
        self._unit = unit
        self._device = trainer.device
        self._flags = [HOST_SYNC] if trainer.syncs else []
        recipe = trainer.recipe
        self.items_per_step = cycles.items_per_step(recipe)
        self._cycle = recipe.cycle
        self._queue = batch_source.queue_batches(recipe)
        self._workers = int(recipe.loader_options.get("num_workers", 0))
        self._clock = sm_clock.of(trainer.device)
        self._anywhere = anywhere
        self.startup: dict[str, float] = {}
        """Seconds of each part from the start of the loader to the first timed step."""

    def replicate(self, seed: int, import_s: float, build_s: float) -> contracts.Replicate:
        """Run every pass."""
        recipe, rank = self._trainer.recipe, self.ranks.rank
        batches: Iterator[Sequence[Tensor]] = batch_source.batches(recipe, seed, rank)
        warmup, step_s = self._warm_up(batches)
        conditions.reset_peak(self._device)
        full = self._full(batches, step_s, seed)
        peak_b, reserved_b = map(self.ranks.most, conditions.peak_memory(self._device))
        ring = batch_source.ring(self._trainer, batches)
        if len(ring) < batch_source.ring_size(self._trainer.recipe):
            self._flags.append("synth.small_ring")
        del batches  # ends the loader's processes: SYNTH shares the machine with nobody
        synth = self._synth(itertools.cycle(ring), seed)
        if compilation.graphs_skipped():
            self._flags.append("cudagraphs_skipped")
        exchange: Sequence[contracts.GangBlock] = ()
        gang_trace = None
        if self.protocol.account and recipe.parallel != "none" and self._trainer.exchanges:
            feed = itertools.cycle(ring)
            if recipe.parallel == "ddp":
                exchange = self.ranks.exchange(self._trainer, feed, synth.block_steps, self._clock)
            self._reporter.tell("trace", 1.0)
            gang_trace = self.ranks.traced(self._trainer, feed)
        retries, compiled = conditions.allocator_retries(self._device), compilation.read()
        asked = self._asked_beside(full, synth)
        timed = (full, synth)
        also = beside.run(self._trainer, ring, timed, asked, self._reporter, self._trace, seed)
        return contracts.Replicate(
            seed=seed,
            import_s=import_s,
            build_s=build_s,
            warmup=warmup,
            full=full,
            synth=synth,
            peak_memory_b=round(peak_b),
            reserved_memory_b=round(reserved_b),
            allocator_retries=retries,
            compilation=compiled,
            exchange_s=exchange_s(exchange),
            exchange_blocks=tuple(exchange),
            gang_trace=gang_trace,
            phases=also.phases,
            input=also.input,
            profile=also.profile,
            flags=(*self._flags, *also.flags),
        )

    @contextmanager
    def _from_the_start(
        self, batches: Iterator[Sequence[Tensor]], seed: int, enough: Enough
    ) -> Iterator[loop.TimedPass]:
        """Go back to the initial weights and let the loader find its own rate again, until
        ``enough``, a round of its processes at least; yields these steps."""
        from_s = time.perf_counter()
        with flags.collector(self._trainer.recipe):
            self._trainer.rewind(self.ranks.seed(seed, self._trainer.recipe.replicas))
            # A pause fills the queue, and the pass would be fed from it.
            batch_source.empty_queue(self._trainer.recipe, batches)
            # A loader that keeps up has its queue again after one round of its processes; without
            # these steps the wait for that round would be taken for a stall.
            refill = loop.run(self._trainer, batches, enough)
            self.startup["reset"] = time.perf_counter() - from_s
            yield refill

    def _warm_up(self, batches: Iterator[Sequence[Tensor]]) -> tuple[contracts.Warmup, float]:
        """Step until steady; returns how it went and the mean step time that it ended with."""
        first_step_s = self.ranks.most(self._first_step(self._first_batches(batches)))
        read = conditions.reader(self._device)
        rule = WarmupRule(self.protocol, read, self._cycle)
        # A gang meets before each block: whole rounds of its loaders, or it would mostly wait.
        block = max(self.protocol.block_min_steps, self._workers)
        timed = self._run(batches, "warmup", rule, block)
        if rule.reason == "capped":
            self._flags.append("warmup_incomplete")
        steps = timed.times.step
        self.startup["warmup"] = sum(steps)
        warmup = contracts.Warmup(
            steps=len(steps) + self._cycle,
            s=first_step_s + sum(steps),
            reason=rule.reason,
            first_step_s=first_step_s,
        )
        recent = math.ceil(max(10, self._queue) / self._cycle) * self._cycle
        return warmup, statistics.fmean(steps[-recent:])

    def _first_batches(self, batches: Iterator[Sequence[Tensor]]) -> list[Sequence[Tensor]]:
        """Start the loader, and wait for its first batch; where lengths repeat, for a cycle."""
        from_s = time.perf_counter()
        batch = next(batches)
        self.startup["first_batch"] = time.perf_counter() - from_s
        return [batch, *itertools.islice(batches, self._cycle - 1)]

    def _first_step(self, batches: Sequence[Sequence[Tensor]]) -> float:
        """Seconds of the step that compiles, autotunes and allocates: one for each of a cycle, as
        no shape may be new in a timed pass."""
        self._reporter.tell("first_step", 0.05)
        with device.shared_kernel_cache(self._device, anywhere=self._anywhere):
            from_s = time.perf_counter()
            for batch in batches:
                self._trainer.step(self._trainer.place(batch))
                self._reporter.tell("first_step", 0.05)
            drain(self._device)
            self.startup["first_step"] = time.perf_counter() - from_s
        return self.startup["first_step"]

    def _full(
        self, batches: Iterator[Sequence[Tensor]], step_s: float, seed: int
    ) -> contracts.Pass:
        least = max(self.protocol.window_min_steps, QUEUES * self._queue)
        protocol = self.protocol.model_copy(update={"window_min_steps": least})
        # Blocks of whole rounds: loader processes that started together deliver together.
        rule = StopRule(protocol, block_length(step_s, protocol, self._workers, self._cycle))
        scale = self._trainer.scale
        refilled = after(max(REFILL_STEPS, self._workers))
        with self._from_the_start(batches, seed, refilled):
            timed = self._run(batches, "full", rule, rule.block_steps, self._clock)
        return self._summary("full", timed, rule, scale)

    def _synth(self, ring: Iterator[Batch], seed: int) -> contracts.Pass:
        with flags.collector(self._trainer.recipe):
            host_s = loop.unhindered_s(self._trainer, ring)
            scale = self._trainer.scale
            self._trainer.rewind(self.ranks.seed(seed, self._trainer.recipe.replicas))
            # FULL may have been much slower, so these steps tell how long a block has to be.
            refill = loop.run(self._trainer, ring, after(REFILL_STEPS))
            step_s = self.ranks.most(statistics.fmean(refill.times.step))
            block = block_length(step_s, self.protocol, cycle=self._cycle)
            rule = StopRule(self.protocol, block)
            timed = self._run(ring, "synth", rule, block, self._clock)
        summary = self._summary("synth", timed, rule, scale)
        blocks = timed.blocks if self.protocol.account else ()
        return summary.model_copy(update={"host_s": host_s, "blocks": blocks})

    def _run(
        self,
        feed: Iterator[Sequence[Tensor]],
        phase: str,
        rule: Enough,
        block_steps: int,
        clock: sm_clock.SpanClock = _NO_CLOCK,
    ) -> loop.TimedPass:
        return self.ranks.run(self._trainer, feed, self.watched(phase, rule), block_steps, clock)

    def _summary(
        self, name: str, timed: loop.TimedPass, rule: StopRule, scale: float
    ) -> contracts.Pass:
        doubts = _doubts(timed, self._cycle)
        if sanity.lost(scale, self._trainer.scale, len(timed.times.step)):
            doubts.append(sanity.DISCARDED)
        self._flags += [f"{name}.{flag}" for flag in doubts]
        queued = self._device.type == "cuda"
        return summarise(timed, self.items_per_step, rule, queued=queued, cycle=self._cycle)

    def watched(self, phase: str, rule: Enough) -> Enough:
        """``rule``, with progress told on the way."""
        start, end = _SPANS[phase]

        def enough(times: loop.StepTimes) -> bool:
            steps = len(times.step)
            done = start + (end - start) * min(1.0, steps / self.protocol.window_min_steps)
            rate = self.items_per_step / times.step[-1] if times.step[-1] > 0 else 0.0
            self._reporter.tell(phase, done, steps, (rate, self._unit))
            return rule(times)

        return enough


def after(steps: int) -> Enough:
    """Say so after ``steps``."""
    return lambda times: len(times.step) >= steps


def _doubts(timed: loop.TimedPass, cycle: int) -> list[str]:
    """Flags that a finished pass has earned."""
    steps = timed.times.step
    total_s = sum(steps)
    doubts = []
    if abs(total_s - timed.wall_s) > CLOCK_AGREEMENT * timed.wall_s:
        doubts.append("clock_mismatch")
    if total_s / len(steps) > (1 + TAIL) * statistics.median(block_means(steps, cycle).tolist()):
        doubts.append("tail")
    if not math.isfinite(timed.loss):
        doubts.append(sanity.NOT_FINITE)
    return doubts
