"""Plants delays on one rank of a gang, and counts how often rank and size are recovered.

    PYTHONPATH=. python -m trials.gangs.delays FILE                # ddp on two GPUs, over NCCL
    PYTHONPATH=. python -m trials.gangs.delays FILE --device cpu   # over gloo

Each launch is a fresh gang. It traces a few steps with each delay on each rank, ``--repeats``
times, then equal steps until its time is up. The n-th traces of all launches are judged together,
as the launches of one benchmark are. Equal steps of one launch share its processes: more launches
say more.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from benchmarks.catalog import catalog
from benchmarks.contracts import Case, GangRank, GangTrace
from benchmarks.data.cache import cache_folder
from benchmarks.diagnosis.straggler import straggler
from benchmarks.measure import batch_source, graphs, ranks, timestamps
from benchmarks.measure.session import build as built
from benchmarks.measure.trainer import Trainer
from benchmarks.workload import Batch, Context, Recipe

PRESETS = {
    "full": {"batch": 4096, "width": 2048, "blocks": 8},
    "tiny": {"batch": 64, "width": 256, "blocks": 4},
}
DELAYS_S = {"cuda": (0.0005, 0.001, 0.005, 0.02), "cpu": (0.005, 0.02, 0.05)}
WARM_STEPS = 20
CYCLES_HZ = 1.8e9
"""About how fast a GPU counts cycles: a delay is measured, so it need not be exact."""
RIGHT, CLOSE_S = 0.05, 50e-6
"""A size is recovered within either."""


def loss(model: nn.Module, batch: Batch) -> Tensor:
    """Mean square of what comes out."""
    result: Tensor = model(batch[0]).square().mean()
    return result


def build(size: Mapping[str, int], context: Context) -> Recipe:
    """Products one after another, each with its own gradients to exchange."""
    width = size["width"]
    blocks = (nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(size["blocks"]))
    return Recipe(
        model=nn.Sequential(*blocks).to(context.device),
        loss=loss,
        optimizer=torch.optim.SGD,
        parameters=lambda model: model.parameters(),
        optimizer_options={"lr": 1e-3},
        dataset=TensorDataset(torch.randn(4 * size["batch"], width)),
        batch=size["batch"],
    )


def main() -> None:
    """Run the launches, one after another, and print what was found."""
    asked = _arguments()
    if asked.rank is not None:
        _rank(asked)
        return
    launches = [list(_launch(asked, number)) for number in range(asked.launches)]
    rows = list(_judged(launches))
    asked.out.write_text("".join(json.dumps(row) + "\n" for row in rows))
    planted, equal = [row for row in rows if row["delay_s"]], [r for r in rows if not r["delay_s"]]
    right = sum(row["found"] == row["rank"] for row in planted)
    close = sum(row["is_close"] for row in planted)
    named = sum(row["found"] is not None for row in equal)
    print(f"planted {len(planted)}: right rank {right}, its size {close}")
    print(f"equal {len(equal)}: named {named}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("out", type=Path, help="a file for JSON rows")
    parser.add_argument("--device", choices=DELAYS_S, default="cuda")
    parser.add_argument("--world", type=int, default=2, help="ranks")
    parser.add_argument("--launches", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=1, help="times that each delay is planted")
    parser.add_argument("--seconds", type=float, default=50.0, help="of one launch, once it stands")
    parser.add_argument("--workload", default="trials.gangs.delays:build")
    parser.add_argument("--axes", nargs="*", default=[], metavar="AXIS=VALUE")
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def _launch(asked: argparse.Namespace, number: int) -> Iterator[dict[str, Any]]:
    """Start a process for each rank and wait for all; yield rank 0's rows."""
    links = {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo", "NCCL_NVLS_ENABLE": "0"}
    with tempfile.TemporaryDirectory(prefix="tl-") as folder:
        again = [sys.executable, "-m", "trials.gangs.delays", *sys.argv[1:]]
        processes = [
            subprocess.Popen(
                [*again, "--rank", str(rank), "--folder", folder],
                env=links | os.environ | {"LOCAL_RANK": str(rank)},
            )
            for rank in range(asked.world)
        ]
        while None in (codes := [process.poll() for process in processes]) and not any(codes):
            time.sleep(0.1)
        for process in processes:  # those that wait for one that failed
            process.kill()
            process.wait()
        if any(codes):
            sys.exit(f"A rank of launch {number} failed.")
        for line in (Path(folder) / "rows").read_text().splitlines():
            yield json.loads(line)


def _rank(asked: argparse.Namespace) -> None:
    """Trace each planted delay, then equal steps until the time is up; rank 0 writes the rows."""
    device = torch.device("cpu") if asked.device == "cpu" else torch.device("cuda", asked.rank)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    axes = {"gpus": str(asked.world), "parallel": "ddp"}
    axes |= dict(word.split("=", 1) for word in asked.axes)
    preset = "full" if device.type == "cuda" else "tiny"
    case = catalog.normalise(Case(workload=asked.workload, preset=preset, axes=axes), device.type)
    recipe = built(case, Context(device, cache_folder()))
    place = GangRank(rank=asked.rank, world=asked.world, rendezvous=asked.folder / "meet")
    gang = ranks.Gang(place, device, lambda: None)
    trainer = graphs.trainer(recipe, device)
    feed = cycle(batch_source.ring(trainer, batch_source.batches(recipe, 0, asked.rank)))
    for _ in range(WARM_STEPS):
        trainer.step(trainer.place(next(feed)))
    late = _Late(trainer)
    plans = [(delay_s, rank) for delay_s in DELAYS_S[device.type] for rank in range(asked.world)]
    plans *= asked.repeats
    until_s = time.monotonic() + asked.seconds
    rows = []
    while plans or gang.most(float(time.monotonic() < until_s)):
        delay_s, rank = plans.pop(0) if plans else (0.0, None)
        late.begin(delay_s if rank == asked.rank else 0.0)
        trace = gang.traced(trainer, feed)
        delay_s = gang.most(late.taken_s())
        rows.append({"delay_s": delay_s, "rank": rank, "trace": trace.model_dump(mode="json")})
    if asked.rank == 0:
        (asked.folder / "rows").write_text("".join(json.dumps(row) + "\n" for row in rows))
    gang.leave()


class _Late:
    """Puts a delay before each step of a trainer, and measures how long it was."""

    def __init__(self, trainer: Trainer) -> None:
        self._step, self._device = trainer.step, trainer.device
        self._mark = timestamps.maker(trainer.device)
        self._delay_s = 0.0
        self._spans: list[tuple[Any, Any]] = []
        trainer.step = self._late  # type: ignore[method-assign]

    def begin(self, delay_s: float) -> None:
        """Delay each step by so much from now on."""
        self._delay_s, self._spans = delay_s, []

    def taken_s(self) -> float:
        """Return the median of the delays so far."""
        spans = [start.elapsed_time(end) / 1e3 for start, end in self._spans]
        return statistics.median(spans) if spans else 0.0

    def _late(self, batch: Batch) -> Tensor:
        if self._delay_s:
            start, end = self._mark(), self._mark()
            start.record()
            if self._device.type == "cpu":
                time.sleep(self._delay_s)
            else:
                torch.cuda._sleep(int(self._delay_s * CYCLES_HZ))  # type: ignore[no-untyped-call]
            end.record()
            self._spans.append((start, end))
        return self._step(batch)


def _judged(launches: Sequence[Sequence[dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    """Judge the n-th traces of all launches together."""
    for rows in zip(*launches, strict=False):  # some have time for more than others
        traces = [GangTrace.model_validate(row["trace"]) for row in rows]
        found, first = straggler(traces), rows[0]
        late_s = None if found is None else found.late_s
        yield {
            "delay_s": first["delay_s"],
            "rank": first["rank"],
            "found": None if found is None else found.rank,
            "late_s": late_s,
            "is_close": _is_close(late_s, first["delay_s"]),
            "resolution_s": None if found is None else found.resolution_s,
            "launches": [row["trace"] for row in rows],
        }


def _is_close(late_s: float | None, delay_s: float) -> bool:
    return late_s is not None and abs(late_s - delay_s) <= max(RIGHT * delay_s, CLOSE_S)


if __name__ == "__main__":
    main()
