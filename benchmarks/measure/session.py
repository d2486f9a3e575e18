"""One replicate from case to Result: build, warm up, time FULL, time SYNTH.

The order is the story of measurement: everything that compiles, autotunes or allocates happens
before the first timed step, both timed passes start from the same weights, and nothing but the
step runs inside them.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
import shlex
import statistics
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime

import torch
from torch import Tensor

from benchmarks import catalog
from benchmarks.contracts import (
    Case,
    Environment,
    Pass,
    Protocol,
    Replicate,
    Result,
    Status,
    Warmup,
)
from benchmarks.environment import capture
from benchmarks.measure import conditions, feed, flags, loop
from benchmarks.measure.estimate import StopRule, block_length, summarise
from benchmarks.measure.failures import classify
from benchmarks.measure.loop import StepTimes
from benchmarks.measure.marks import drain
from benchmarks.measure.progress import Reporter
from benchmarks.measure.trainer import Trainer
from benchmarks.measure.warmup import WarmupRule
from benchmarks.merge import samples
from benchmarks.verdict import judge
from benchmarks.workload import Batch, Context, Recipe

CLOCK_AGREEMENT = 0.005
"""Event span and wall clock of a pass must agree this closely."""
TAIL = 0.02
"""Mean and median step time further apart than this: a few steps carry much of the time."""
REFILL_STEPS = 3
"""Untimed steps after a change of feed."""


@dataclasses.dataclass(frozen=True)
class Request:
    """What one child process is asked to measure."""

    case: Case
    protocol: Protocol
    context: Context
    import_s: float = 0.0


def measure(request: Request, reporter: Reporter) -> Result:
    """Measure one replicate; whatever goes wrong becomes a status with one sentence."""
    started_at = datetime.now(UTC)
    case = request.case
    environment = Environment(facts={"hw.device": request.context.device.type})
    batch = 0
    try:
        case = catalog.normalise(case, request.context.device.type)
        from_s = time.perf_counter()
        recipe = build(case, request.context)
        batch = recipe.batch
        environment = capture(request.context.device, flags.put_in_force(recipe), recipe.data_name)
        trainer = Trainer(recipe, request.context.device)
        timing = _Timing(request, trainer, reporter, time.perf_counter() - from_s)
        replicate = timing.replicate()
    except Exception as error:  # every failure is information, stored with its reason
        status, reason = classify(error, batch)
        return Result(
            case=case,
            status=status,
            reason=reason,
            log_tail=traceback.format_exc()[-16_000:].replace("\x00", ""),
            measured_at=started_at,
            protocol=request.protocol,
            environment=environment,
            repro=_repro(case, request),
        )
    item = catalog.workloads()[case.workload].item
    return Result(
        case=case,
        status=Status.OK,
        measured_at=started_at,
        protocol=request.protocol,
        item=item,
        batch_items=timing.items_per_step,
        parameters=trainer.parameters,
        environment=environment,
        samples=samples(replicate, item),
        replicates=(replicate,),
        verdict=judge((replicate,)),
        flags=replicate.flags,
        repro=_repro(case, request),
    )


def _repro(case: Case, request: Request) -> str:
    """A command that measures ``case`` again, with nothing left to a default of the day."""
    words = ["python", "-m", "benchmarks", case.workload]
    words += [f"{axis}={value}" for axis, value in case.axes.items()]
    words += ["--preset", case.preset, "--seed", str(request.context.seed)]
    unusual = request.protocol.model_dump_json(exclude_defaults=True, exclude={"replicates"})
    if unusual != "{}":
        words += ["--protocol", unusual]
    if request.context.data_root:
        words += ["--data-root", str(request.context.data_root)]
    return shlex.join(words)


def build(case: Case, context: Context) -> Recipe:
    """The workload's recipe with every axis applied.

    Args:
        case: normalised, its preset resolved.
        context: device, data and seed.
    """
    torch.manual_seed(context.seed)
    size = catalog.workloads()[case.workload].presets[case.preset]
    workload = importlib.import_module(f"benchmarks.workloads.{case.workload}")
    recipe: Recipe = workload.build(size, context)
    for name, value in catalog.settings(case).items():
        axis = importlib.import_module(f"benchmarks.axes.{name}")
        recipe = axis.apply(value, recipe)
    return recipe


class _Timing:
    """The passes of one replicate, in order."""

    def __init__(
        self, request: Request, trainer: Trainer, reporter: Reporter, build_s: float
    ) -> None:
        self._request = request
        self._trainer = trainer
        self._reporter = reporter
        self._build_s = build_s
        self._protocol = request.protocol
        self._device = trainer.device
        self._flags: list[str] = []
        recipe = trainer.recipe
        self.items_per_step = recipe.batch * recipe.items_per_sample
        self._unit = f"{catalog.workloads()[request.case.workload].item}/s"

    def replicate(self) -> Replicate:
        """Run every pass."""
        seed = self._request.context.seed
        batches: Iterator[Sequence[Tensor]] = iter(feed.loader(self._trainer.recipe, seed))
        warmup, step_s = self._warm_up(batches)
        conditions.reset_peak(self._device)
        full = self._full(batches, step_s)
        peak_b, reserved_b = conditions.peak_memory(self._device)
        on_device = feed.ring(self._trainer, batches)
        del batches  # ends the loader's processes: SYNTH shares the machine with nobody
        synth = self._synth(on_device, step_s)
        return Replicate(
            seed=seed,
            import_s=self._request.import_s,
            build_s=self._build_s,
            warmup=warmup,
            full=full,
            synth=synth,
            peak_memory_b=peak_b,
            reserved_memory_b=reserved_b,
            flags=tuple(self._flags),
        )

    def _warm_up(self, batches: Iterator[Sequence[Tensor]]) -> tuple[Warmup, float]:
        """Step until steady; returns how it went and the step time that it ended with."""
        first_step_s = self._first_step(batches)
        rule = WarmupRule(self._protocol, conditions.reader(self._device))
        timed = loop.run(self._trainer, batches, self._told("warmup", rule, 0.2, 0.4))
        if rule.reason == "capped":
            self._flags.append("warmup_incomplete")
        steps = timed.times.step
        warmup = Warmup(
            steps=len(steps) + 1,
            s=first_step_s + sum(steps),
            reason=rule.reason,
            first_step_s=first_step_s,
        )
        return warmup, statistics.median(steps[-10:])

    def _first_step(self, batches: Iterator[Sequence[Tensor]]) -> float:
        """Seconds of the step that compiles, autotunes and allocates, its batch already read."""
        batch = next(batches)
        self._reporter.tell("first_step", 0.05)
        from_s = time.perf_counter()
        self._trainer.step(self._trainer.place(batch))
        drain(self._device)
        return time.perf_counter() - from_s

    def _full(self, batches: Iterator[Sequence[Tensor]], step_s: float) -> Pass:
        recipe = self._trainer.recipe
        self._trainer.rewind(self._request.context.seed)
        feed.empty_queue(recipe, batches)
        loop.run(self._trainer, batches, _refilled)
        # A window of at least three queues, or the queue's own filling would weigh too much.
        least = max(self._protocol.window_min_steps, 3 * feed.queue_batches(recipe))
        return self._timed("full", batches, step_s, least)

    def _synth(self, on_device: Iterator[Batch], step_s: float) -> Pass:
        self._trainer.rewind(self._request.context.seed)
        loop.run(self._trainer, on_device, _refilled)
        return self._timed("synth", on_device, step_s, self._protocol.window_min_steps)

    def _timed(
        self, name: str, batches: Iterator[Sequence[Tensor]], step_s: float, least_steps: int
    ) -> Pass:
        protocol = self._protocol.model_copy(update={"window_min_steps": least_steps})
        rule = StopRule(protocol, block_length(step_s, protocol))
        spans = {"full": (0.4, 0.7), "synth": (0.7, 1.0)}
        with flags.QuietCollector():
            timed = loop.run(self._trainer, batches, self._told(name, rule, *spans[name]))
        self._flags += [f"{name}.{flag}" for flag in _doubts(timed)]
        return summarise(timed, self.items_per_step, rule, queued=self._device.type == "cuda")

    def _told(
        self, phase: str, rule: Callable[[StepTimes], bool], start: float, end: float
    ) -> Callable[[StepTimes], bool]:
        """``rule``, with progress told on the way."""
        least = max(1, self._protocol.window_min_steps)

        def enough(times: StepTimes) -> bool:
            steps = len(times.step)
            done = start + (end - start) * min(1.0, steps / least)
            rate = self.items_per_step / times.step[-1] if times.step[-1] > 0 else 0.0
            self._reporter.tell(phase, done, steps, (rate, self._unit))
            return rule(times)

        return enough


def _refilled(times: StepTimes) -> bool:
    return len(times.step) >= REFILL_STEPS


def _doubts(timed: loop.Timed) -> list[str]:
    """Flags that a finished pass has earned."""
    steps = timed.times.step
    total_s = sum(steps)
    found = []
    if abs(total_s - timed.wall_s) > CLOCK_AGREEMENT * timed.wall_s:
        found.append("clock_mismatch")
    if total_s / len(steps) > (1 + TAIL) * statistics.median(steps):
        found.append("tail")
    if not math.isfinite(timed.loss):
        found.append("loss_not_finite")
    return found
