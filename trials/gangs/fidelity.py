"""Compares a gang in the harness with a plain loop of the same ranks, in turn.

``torchrun --standalone --nproc-per-node 2 -m trials.gangs.fidelity FILE`` appends a row for each
workload: the step times of both loops on the slowest rank, and the median of their ratios. The
plain loop is that of `trials.fidelity`: it meets nobody but in what ddp exchanges.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from benchmarks import contracts
from benchmarks.data.cache import cache_folder
from benchmarks.measure import ranks
from benchmarks.workload import Context
from trials import fidelity


def main() -> None:
    """Compare, on each rank; rank 0 writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--span-s", type=float, default=2.0)
    parser.add_argument("--tiny", action="store_true", help="nanoGPT's smallest, on a CPU")
    options = parser.parse_args()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = torch.device("cpu" if options.tiny else f"cuda:{rank}")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    # torchrun gives all ranks of a launch one id.
    place = Path(tempfile.gettempdir()) / f"ranks-{os.environ['TORCHELASTIC_RUN_ID']}"
    gang = ranks.Gang(
        contracts.GangRank(rank=rank, world=world, rendezvous=place), device, lambda: None
    )
    for case in cases(world, tiny=options.tiny):
        context = Context(device, cache_folder())
        told = fidelity.compare(case, context, options.pairs, options.span_s, gang=gang)
        if rank == 0:
            with options.file.open("a", encoding="utf-8") as out:
                out.write(json.dumps({**asdict(told), "ratio": told.ratio}) + "\n")
            print(f"{told.case}: {told.ratio:.4f}", flush=True)
    gang.leave()
    if rank == 0:
        place.unlink()


def cases(world: int, *, tiny: bool) -> Sequence[contracts.Case]:
    """List the cases of `trials.fidelity`, as gangs."""
    more = {"gpus": str(world), "parallel": "ddp"}
    if tiny:
        return [contracts.Case(workload="nanogpt", preset="tiny", axes=more)]
    return [case.model_copy(update={"axes": {**case.axes, **more}}) for case in fidelity.CASES]


if __name__ == "__main__":
    main()
