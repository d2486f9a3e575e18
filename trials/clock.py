"""Measures how step times and cycles vary between windows, by the SMs' clock and by NVML's.

One process steps a model in short windows, one after the other. ``python -m trials.clock`` prints a
JSON line for each: its step time, the SMs' own mean clock, and the mean of NVML's readings, ten a
second. ``--table FILE`` prints how much each figure varies.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import groupby, pairwise
from pathlib import Path
from statistics import fmean, linear_regression, stdev

import torch

from benchmarks import contracts
from benchmarks.catalog import catalog
from benchmarks.data.cache import cache_folder
from benchmarks.measure import batch_source, flags, loop, session, sm_clock
from benchmarks.measure.device import choose
from benchmarks.measure.trainer import Trainer
from benchmarks.workload import Batch, Context
from worker.device.nvml import NvmlGauge

CASES = tuple(
    contracts.Case(workload=workload, axes={"precision": "bf16", **axes})
    for workload, axes in (
        ("nanogpt", {"optimizer": "fused", "compile": "default"}),
        ("nanogpt", {"optimizer": "fused"}),
        ("resnet50", {"layout": "channels_last", "compile": "default"}),
        ("unet", {"layout": "channels_last", "compile": "default"}),
    )
)
WARM_UP_S, READ_EVERY_S = 5.0, 0.1


@dataclass(frozen=True)
class Window:
    """One window of steps."""

    case: str
    device: str
    steps: int
    step_s: float
    """Mean, by CUDA events."""
    sm_hz: float | None
    nvml_hz: float | None


def windows(case: contracts.Case, context: Context, count: int, span_s: float) -> Iterator[Window]:
    """Warm up, then time ``count`` windows of ``span_s`` each, with batches on the device."""
    case = catalog.normalise(case, context.device.type)
    recipe = session.build(case, context)
    flags.put_in_force(recipe)
    trainer = Trainer(recipe, context.device)
    ring = itertools.cycle(batch_source.ring(trainer, batch_source.batches(recipe, context.seed)))
    loop.run(trainer, ring, lambda times: sum(times.step[1:]) >= WARM_UP_S)
    clock, name = sm_clock.of(context.device), _name(context.device)
    for _ in range(count):
        with flags.collector(recipe), _nvml(context.device) as readings:
            timed = _window(trainer, ring, span_s, clock)
        step_s = fmean(timed.times.step)
        nvml_hz = fmean(readings) if readings else None
        yield Window(case.key, name, len(timed.times.step), step_s, timed.sm_clock_hz, nvml_hz)


def _window(
    trainer: Trainer, ring: Iterator[Batch], span_s: float, clock: sm_clock.SpanClock
) -> loop.TimedPass:
    return loop.run(trainer, ring, lambda times: sum(times.step) >= span_s, clock)


def _name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"


@contextmanager
def _nvml(device: torch.device) -> Iterator[list[float]]:
    """Read the SM clock meanwhile, as a worker does."""
    readings: list[float] = []
    if device.type != "cuda":
        yield readings
        return
    gauge, over = (
        NvmlGauge(f"GPU-{torch.cuda.get_device_properties(device).uuid}"),
        threading.Event(),
    )

    def read() -> None:
        while not over.wait(READ_EVERY_S):
            readings.append(gauge.channels()["sm_clock_hz"])

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield readings
    finally:
        over.set()
        reader.join()
        gauge.close()


def table(rows: Sequence[Window]) -> list[str]:
    """Tabulates the standard deviations of time and cycles between neighbouring windows."""
    lines = [
        "| case | device | windows | step | time | cycles, NVML | cycles, SMs | slope | adjusted |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for (case, device), group in groupby(rows, key=lambda row: (row.case, row.device)):
        of_case = [row for row in group if row.sm_hz and row.nvml_hz]
        times = [math.log(row.step_s) for row in of_case]
        clocks = [math.log(row.sm_hz or 1.0) for row in of_case]
        nvml = [math.log(row.nvml_hz or 1.0) for row in of_case]
        steps = [b - a for a, b in pairwise(times)], [b - a for a, b in pairwise(clocks)]
        slope = linear_regression(steps[1], steps[0]).slope
        figures = (
            times,
            [t + c for t, c in zip(times, nvml, strict=True)],
            [t + c for t, c in zip(times, clocks, strict=True)],
        )
        spread = " | ".join(f"{_spread(values):.3%}" for values in figures)
        adjusted = _spread([t - slope * c for t, c in zip(times, clocks, strict=True)])
        step_ms = 1e3 * fmean(row.step_s for row in of_case)
        lines.append(
            f"| {case} | {device} | {len(of_case)} | {step_ms:.1f} ms | {spread} | {slope:.2f} | "
            f"{adjusted:.3%} |"
        )
    return lines


def _spread(logs: Sequence[float]) -> float:
    """Standard deviation of one window, from the differences of neighbours."""
    return stdev(b - a for a, b in pairwise(logs)) / math.sqrt(2)


def main() -> int:
    """Measure every case, or print the table of a file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--windows", type=int, default=60)
    parser.add_argument("--span-s", type=float, default=0.5)
    parser.add_argument("--table", type=Path)
    options = parser.parse_args()
    if options.table:
        rows = [Window(**json.loads(line)) for line in options.table.read_text().splitlines()]
        print("\n".join(table(rows)))
        return 0
    context = Context(choose(None), cache_folder())
    for case in CASES:
        for row in windows(case, context, options.windows, options.span_s):
            print(json.dumps(asdict(row)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
