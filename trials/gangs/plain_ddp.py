"""A plain training loop on several GPUs, as anyone would write it, to hold the harness against.

``torchrun --standalone --nproc-per-node 2 -m trials.gangs.plain_ddp nanogpt`` trains the
case's model with DistributedDataParallel, the same batch and settings, and prints the seconds of a
step, by events around all steps on the slowest rank. It shares with `benchmarks` what is trained,
and nothing of how it is trained or timed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from benchmarks.catalog import catalog
from benchmarks.contracts import Case
from benchmarks.data.cache import cache_folder
from benchmarks.measure import batch_source, flags, session
from benchmarks.measure.device import stay_near
from benchmarks.measure.to_device import placement
from benchmarks.workload import Batch, Context, Recipe

WARM_UP = 20
"""Steps before those that are timed, the first of which compiles."""


def main() -> int:
    """Train, time and print one JSON line on rank 0."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("workload")
    parser.add_argument("axes", nargs="*", metavar="axis=value")
    parser.add_argument("--preset", default="auto")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--span-s", type=float, default=4.0, help="length of the timed steps")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    rank, device = joined(asked.device)
    axes = dict(one.split("=", 1) for one in asked.axes)
    case = Case(workload=asked.workload, preset=asked.preset, axes=axes)
    recipe = session.build(
        catalog.normalise(case, device.type), Context(device, cache_folder(), seed=asked.seed)
    )
    step_s, steps = timed(recipe, device, rank, asked.span_s, asked.seed)
    if rank == 0:
        print(json.dumps({"step_s": step_s, "steps": steps}))
    dist.destroy_process_group()
    return 0


def joined(kind: str) -> tuple[int, torch.device]:
    """Join the ranks that torchrun started; return this one's number and device."""
    rank = int(os.environ["LOCAL_RANK"])
    device = torch.device("cpu" if kind == "cpu" else f"cuda:{rank}")
    if device.type == "cuda":
        torch.cuda.set_device(device)
        stay_near(device)
    else:
        torch.set_num_threads(max(1, torch.get_num_threads() // int(os.environ["WORLD_SIZE"])))
    dist.init_process_group("gloo" if device.type == "cpu" else "nccl")
    return rank, device


def timed(
    recipe: Recipe, device: torch.device, rank: int, span_s: float, seed: int
) -> tuple[float, int]:
    """Return the seconds of a step on the slowest rank, and the number of steps."""
    flags.put_in_force(recipe)
    feed, step = _batches(recipe, device, rank, seed), _step(recipe, device)
    for _ in range(WARM_UP):
        step(next(feed))
    with flags.collector(replace(recipe, collect_garbage=False)):
        trial_s = timed_span(step, feed, 10, device)
        steps = max(10, round(span_s / trial_s))
        step_s = timed_span(step, feed, steps, device)
    return step_s, steps


def _batches(recipe: Recipe, device: torch.device, rank: int, seed: int) -> Iterator[Batch]:
    """A few batches of this rank on the device, in turn without end."""
    place = placement(recipe, device)
    made = itertools.islice(batch_source.batches(recipe, seed, rank), 8)
    return itertools.cycle([place(batch) for batch in made])


def _step(recipe: Recipe, device: torch.device) -> Callable[[Batch], None]:
    model = recipe.model.to(memory_format=recipe.memory_format)  # type: ignore[call-overload]
    wrapped = DistributedDataParallel(model, None if device.type == "cpu" else [device])
    optimizer = recipe.optimizer(recipe.parameters(model), **recipe.optimizer_options)

    def loss(batch: Batch) -> torch.Tensor:
        return recipe.loss(wrapped, batch)

    if recipe.compile_options is not None:
        loss = torch.compile(loss, **recipe.compile_options)

    def step(batch: Batch) -> None:
        with torch.autocast(device.type, recipe.autocast, enabled=recipe.autocast is not None):
            value = loss(batch)
        value.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def timed_span(
    step: Callable[[Batch], object], feed: Iterator[Batch], steps: int, device: torch.device
) -> float:
    """Seconds of a step over ``steps`` of them, on the slowest rank."""
    dist.barrier()
    if device.type == "cpu":
        from_s = time.perf_counter()
        for _ in range(steps):
            step(next(feed))
        own_s = (time.perf_counter() - from_s) / steps
    else:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()
        start.record()
        for _ in range(steps):
            step(next(feed))
        end.record()
        torch.cuda.synchronize()
        own_s = start.elapsed_time(end) / 1e3 / steps
    slowest = torch.tensor(own_s, dtype=torch.float64, device=device)
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    return float(slowest)


if __name__ == "__main__":
    raise SystemExit(main())
