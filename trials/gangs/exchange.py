"""Times what ddp's settings, and NCCL's share of the SMs, do to a step, in turn in one gang.

``torchrun --standalone --nproc-per-node 2 -m trials.gangs.exchange FILE nanogpt precision=bf16``
builds the case once for each variant below, all on the same GPUs, and times them in turn, round
after round. Rank 0 writes a JSON line for each time to FILE. It prints each variant's mean, and
that of its ratios to the first variant of the same round.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle
from pathlib import Path
from statistics import fmean, stdev
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from benchmarks.catalog import catalog
from benchmarks.contracts import Case
from benchmarks.data.cache import cache_folder
from benchmarks.measure import batch_source, flags, graphs, session, wrappers
from benchmarks.measure.trainer import Trainer
from benchmarks.workload import Batch, Context
from trials.gangs.plain_ddp import WARM_UP, joined, timed_span

SPAN_STEPS = 15


@dataclass(frozen=True)
class Variant:
    """Settings of ddp and of the group that exchanges."""

    exchanges: bool = True
    views: bool = False
    """Gradients are views of the buckets, so that none is copied."""
    blocks: int = 0
    """Most thread blocks, of an SM each, that a collective takes; 0 leaves it to NCCL."""
    axes: Mapping[str, str] | None = None


VARIANTS = {
    "as torch has it": Variant(),
    "no exchange": Variant(exchanges=False),
    "views": Variant(views=True),
    "16 blocks": Variant(blocks=16),
    "8 blocks": Variant(blocks=8),
    "4 blocks": Variant(blocks=4),
    "views, 8 blocks": Variant(views=True, blocks=8),
    "100 MiB": Variant(axes={"bucket_mb": "100"}),
    "views, 8 blocks, 100 MiB": Variant(views=True, blocks=8, axes={"bucket_mb": "100"}),
}


def main() -> int:
    """Build every variant, time them in turn, and print the table on rank 0."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("workload")
    parser.add_argument("axes", nargs="*", metavar="axis=value")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    asked = parser.parse_args()
    rank, device = joined(asked.device)
    torch._dynamo.config.recompile_limit = 8 * len(VARIANTS)  # they share one code object
    axes = dict(one.split("=", 1) for one in asked.axes)
    trainers = {name: _built(one, asked.workload, axes, device) for name, one in VARIANTS.items()}
    rows = list(_timed(trainers, device, rank, asked.rounds))
    if rank == 0:
        with asked.file.open("a") as file:
            file.writelines(json.dumps({"case": asked.workload, **row}) + "\n" for row in rows)
        print(table(rows))
    dist.destroy_process_group()
    return 0


def _built(
    variant: Variant, workload: str, axes: Mapping[str, str], device: torch.device
) -> Trainer:
    gang = {"gpus": str(dist.get_world_size()), "parallel": "ddp"}
    case = Case(workload=workload, axes={**axes, **gang, **(variant.axes or {})})
    case = catalog.normalise(case, device.type)
    recipe = session.build(case, Context(device, cache_folder()))
    flags.put_in_force(recipe)
    with patch.object(wrappers, "DistributedDataParallel", _wrapper(variant, device)):
        trainer = graphs.trainer(recipe, device)
    trainer.exchanges = variant.exchanges
    return trainer


def _wrapper(variant: Variant, device: torch.device) -> Callable[..., nn.Module]:
    group = dist.group.WORLD
    if variant.blocks and device.type == "cuda":
        options = dist.ProcessGroupNCCL.Options()
        options.config.max_ctas = variant.blocks
        group = dist.new_group(pg_options=options)
    views = variant.views
    return partial(DistributedDataParallel, process_group=group, gradient_as_bucket_view=views)


def _timed(
    trainers: Mapping[str, Trainer], device: torch.device, rank: int, rounds: int
) -> Iterator[dict[str, Any]]:
    """Time each variant once a round, in this order and in the opposite one by turns."""
    feeds: dict[str, Iterator[Batch]] = {}
    for name, trainer in trainers.items():
        batches = batch_source.batches(trainer.recipe, 0, rank)
        feeds[name] = cycle(batch_source.ring(trainer, batches))
        for _ in range(WARM_UP):
            trainer.step(trainer.place(next(feeds[name])))
    with flags.collector(replace(trainer.recipe, collect_garbage=False)):
        for number in range(rounds):
            for name in list(trainers)[:: 1 if number % 2 == 0 else -1]:
                step_s = timed_span(trainers[name].step, feeds[name], SPAN_STEPS, device)
                yield {"round": number, "variant": name, "step_s": step_s}


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Means over rounds, as Markdown."""
    first = {row["round"]: row["step_s"] for row in rows if row["variant"] == next(iter(VARIANTS))}
    lines = ["| variant | step, ms | beside the first | sd over rounds |", "|---|---|---|---|"]
    for name in VARIANTS:
        of = [row for row in rows if row["variant"] == name]
        ratios = [row["step_s"] / first[row["round"]] for row in of]
        spread = f"{stdev(ratios):.2%}" if len(ratios) > 1 else ""
        step_ms = fmean(row["step_s"] for row in of) * 1e3
        lines.append(f"| {name} | {step_ms:.2f} | {fmean(ratios):.4f} | {spread} |")
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
