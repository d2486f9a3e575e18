"""Compares the harness with a plain loop, interleaved: how much slower does measuring make a step?

``python -m trials.fidelity`` prints one JSON line per case: step times of both loops in
turn, and the median of their pairwise ratios. A last line has the harness's time on the host per
step. ``make gpu`` tests the claims about them.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace

import torch
from torch import Tensor

from benchmarks import contracts
from benchmarks.catalog import catalog
from benchmarks.data.cache import cache_folder
from benchmarks.measure import batch_source, flags, loop, session
from benchmarks.measure.device import choose
from benchmarks.measure.estimate import StopRule
from benchmarks.measure.passes import Passes
from benchmarks.measure.progress import Reporter
from benchmarks.measure.timestamps import drain
from benchmarks.measure.trainer import Trainer
from benchmarks.workload import Batch, Context

CASES = (
    contracts.Case(workload="resnet50", axes={"precision": "bf16", "layout": "channels_last"}),
    contracts.Case(workload="nanogpt", axes={"precision": "bf16", "optimizer": "fused"}),
    contracts.Case(workload="unet"),
)
"""An eager case of each workload that keeps a big GPU busy, so that half a percent can be seen.

The U-Net's faster rungs wait for the host. On a shared host their spans of three seconds differ by
6 %, whichever loop runs; `host_cost` bounds the harness's part in such a step.
"""


@dataclass(frozen=True)
class Fidelity:
    """Step times of the two loops in turn, in seconds."""

    case: str
    device: str
    steps: int
    plain_s: tuple[float, ...]
    harness_s: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """Median over pairs of harness / plain step time; 1 means that measuring is free."""
        pairs = zip(self.harness_s, self.plain_s, strict=True)
        return statistics.median(harness / plain for harness, plain in pairs)


def compare(
    case: contracts.Case,
    context: Context,
    pairs: int,
    span_s: float,
    beside: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> Fidelity:
    """Time both loops ``pairs`` times in turn, each for about ``span_s``, in this process.

    Both step the same model, so that memory addresses and compiled code are the same. The plain
    loop is written out here and shares no code with `benchmarks.measure.loop`. ``beside`` is active
    while the harness runs, as a worker watches the device.
    """
    case = catalog.normalise(case, context.device.type)
    recipe = session.build(case, context)
    flags.put_in_force(recipe)
    trainer = Trainer(recipe, context.device)
    ring = itertools.cycle(batch_source.ring(trainer, batch_source.batches(recipe, context.seed)))
    _plain(trainer, ring, 5)
    steps = max(10, round(span_s / _plain(trainer, ring, 10)))
    _plain(trainer, ring, steps)
    plain_s, harness_s = [], []
    with Reporter(os.open(os.devnull, os.O_WRONLY), case.key) as reporter:
        passes = Passes(trainer, _until(steps), reporter, "sample/s")
        for turn in range(pairs):
            for kind in ("plain", "harness") if turn % 2 == 0 else ("harness", "plain"):
                if kind == "plain":
                    plain_s.append(_plain(trainer, ring, steps))
                else:
                    with beside():
                        harness_s.append(_harness(passes, trainer, ring))
    return Fidelity(case.key, _name(context), steps, tuple(plain_s), tuple(harness_s))


def _until(steps: int) -> contracts.Protocol:
    return contracts.Protocol(
        window_min_steps=steps, window_min_s=0.0, window_min_blocks=2, precision=0.99
    )


def _name(context: Context) -> str:
    on_gpu = context.device.type == "cuda"
    return torch.cuda.get_device_name(context.device) if on_gpu else "cpu"


def _plain(trainer: Trainer, ring: Iterator[Batch], steps: int) -> float:
    """Seconds per step of a loop as anyone would write it: no events, no limit on run-ahead."""
    recipe, model, optimizer = trainer.recipe, trainer.model, trainer.optimizer
    # The same pause before both loops, or one has the cooler device.
    with flags.collector(replace(recipe, collect_garbage=False)):
        drain(trainer.device)
        from_s = time.perf_counter()
        for _ in range(steps):
            batch = next(ring)
            with torch.autocast(
                trainer.device.type, dtype=recipe.autocast, enabled=recipe.autocast is not None
            ):
                loss = recipe.loss(model, batch)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        drain(trainer.device)
        return (time.perf_counter() - from_s) / steps


def _harness(passes: Passes, trainer: Trainer, ring: Iterator[Batch]) -> float:
    rule = StopRule(passes.protocol, passes.protocol.block_min_steps)
    with flags.collector(replace(trainer.recipe, collect_garbage=False)):
        times = loop.run(trainer, ring, passes.watched("synth", rule)).times.step
    return sum(times) / len(times)


class _Still(Trainer):
    """Does nothing in a step."""

    def step(self, batch: Batch) -> Tensor:
        """Return a number that is there already."""
        return batch[0]


@dataclass(frozen=True)
class HostCost:
    """The host's time per step for marks, stop rule and progress, in seconds."""

    device: str
    steps: int
    cost_s: tuple[float, ...]
    """Of each repetition."""


def host_cost(context: Context, steps: int = 2_000, repetitions: int = 5) -> HostCost:
    """Time the harness's loop around a step that does nothing.

    A step that waits for the host pays this in full; a busy device hides it.
    """
    case = catalog.normalise(contracts.Case(workload="nanogpt", preset="tiny"), context.device.type)
    trainer = _Still(session.build(case, context), context.device)
    batch = (torch.zeros((), device=context.device),)
    with Reporter(os.open(os.devnull, os.O_WRONLY), case.key) as reporter:
        passes = Passes(trainer, _until(steps), reporter, "sample/s")
        costs = [_harness_wall(passes, trainer, batch) for _ in range(repetitions)]
    return HostCost(_name(context), steps, tuple(costs))


def _harness_wall(passes: Passes, trainer: Trainer, batch: Batch) -> float:
    rule = StopRule(passes.protocol, passes.protocol.block_min_steps)
    with flags.collector(replace(trainer.recipe, collect_garbage=False)):
        timed = loop.run(trainer, itertools.repeat(batch), passes.watched("synth", rule))
    return timed.wall_s / len(timed.times.step)


def main() -> int:
    """Compare every workload on this machine's device."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--span-s", type=float, default=3.0, help="length of each half of a pair")
    options = parser.parse_args()
    context = Context(choose(None), cache_folder())
    for case in CASES:
        comparison = compare(case, context, options.pairs, options.span_s)
        print(json.dumps({**asdict(comparison), "ratio": comparison.ratio}), flush=True)
    print(json.dumps(asdict(host_cost(context))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
