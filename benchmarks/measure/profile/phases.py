"""The phases of a step: marks inside it, taken outside of the timed passes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from benchmarks.contracts import Pass, Phases
from benchmarks.measure.timestamps import Mark, drain, maker
from benchmarks.measure.trainer import Trainer
from benchmarks.workload import Batch

STEPS = 10
"""On H200s the mean of ten steps of SYNTH lay within 0.4 % of the whole pass (8 processes of
ResNet-50, benchmarks/results/h200/processes.jsonl)."""
AGREEMENT = 0.02
"""Relative difference from SYNTH's step above which the marks disturbed the pass."""
PERTURBED = "phases_perturbed"
_RUN_AHEAD = 2
_ONE_GRAPH = "The whole step is one CUDA graph, whose inside has no marks."


@dataclass
class Laps:
    """Marks of one step, each with the name of the phase that it ends."""

    new_mark: Callable[[], Mark]
    marks: list[tuple[str, Mark]] = field(default_factory=list)
    forwards: int = 0

    def end(self, phase: str) -> None:
        """Mark the end of ``phase``."""
        mark = self.new_mark()
        mark.record()
        self.marks.append((phase, mark))

    def forward_begins(self) -> None:
        """End what went before: the last micro-batch's backward pass, or the step's start."""
        self.end("backward" if self.forwards else "forward")
        self.forwards += 1


def measure(trainer: Trainer, ring: Sequence[Batch], full: Pass) -> Phases:
    """Mark the phases of `STEPS` steps in steady state, over batches on the device.

    Data wait and copy come from ``full``, whose loop has marked them.
    """
    try:
        laps, span_s = _steps(trainer, itertools.cycle(ring))
    except RuntimeError as error:  # such as a step that is compiled or captured as it stands
        return Phases(absent=f"The step cannot be marked: {type(error).__name__}.")
    if not all(step.forwards for step in laps):
        return Phases(steps=len(laps), absent=_ONE_GRAPH)
    totals = {"data": full.stall_s, "copy": full.copy_s}
    for step in laps:
        for (_, before), (phase, mark) in itertools.pairwise(step.marks):
            seconds = max(0.0, before.elapsed_time(mark) / 1e3) / len(laps)
            totals[phase] = totals.get(phase, 0.0) + seconds
    return Phases(steps=len(laps), step_s=span_s / len(laps), seconds=totals)


def perturbed(phases: Phases, synth: Pass) -> bool:
    """Return True if the marks changed the step time that they measured."""
    if phases.step_s is None:
        return False
    step_s = synth.wall_s / synth.steps
    return abs(phases.step_s - step_s) > AGREEMENT * step_s


def _steps(trainer: Trainer, feed: Iterator[Batch]) -> tuple[list[Laps], float]:
    """Marks of each step, and the seconds of all steps; the host stays `_RUN_AHEAD` steps ahead.

    At least `STEPS`, and whole cycles.
    """
    cycle = trainer.recipe.cycle
    new_mark = maker(trainer.device)
    done: list[Laps] = []
    start = new_mark()
    drain(trainer.device)
    start.record()
    with marked(trainer) as current:
        for number in range(math.ceil(STEPS / cycle) * cycle):
            if number > _RUN_AHEAD:
                done[number - _RUN_AHEAD - 1].marks[-1][1].synchronize()
            laps = current[0] = Laps(new_mark)
            placed = trainer.place(next(feed))
            laps.end("start")
            trainer.step(placed)
            laps.end("optimizer")
            done.append(laps)
    drain(trainer.device)
    return done, start.elapsed_time(done[-1].marks[-1][1]) / 1e3


@contextmanager
def marked(trainer: Trainer) -> Iterator[list[Laps]]:
    """Have ``trainer`` mark its phases in the list's one entry while this context lasts."""
    current: list[Laps] = [Laps(maker(trainer.device))]
    plain = trainer._forward

    def forward(batch: Batch) -> Tensor:
        current[0].forward_begins()
        loss = plain(batch)
        current[0].end("forward")
        return loss

    def update_begins(*_: Any) -> None:
        current[0].end("backward")

    trainer._forward = forward
    handle = trainer.optimizer.register_step_pre_hook(update_begins)
    try:
        yield current
    finally:
        handle.remove()
        trainer._forward = plain
