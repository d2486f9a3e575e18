"""Rates with more loader processes, as measured and as the model says from fewer.

    PYTHONPATH=. python -m trials.loader_processes [WORKERS ...]

prints one JSON line for each number of them. On a GPU the case is ResNet-50 in bf16; on a CPU its
photographs are fetched for a step of one product, since its own step leaves a loader no processor.
"""

from __future__ import annotations

import json
import sys
import warnings
from dataclasses import replace

import torch
from torch import Tensor, nn

from benchmarks.catalog import catalog
from benchmarks.catalog.precision_tiers import Tier, timed
from benchmarks.contracts import Case, Protocol, Replicate
from benchmarks.data.cache import cache_folder
from benchmarks.diagnosis import loader_processes
from benchmarks.diagnosis.loader_processes import Forecast
from benchmarks.measure import flags, session
from benchmarks.measure.device import choose, free_memory
from benchmarks.measure.passes import Passes
from benchmarks.measure.progress import Reporter
from benchmarks.measure.trainer import Trainer
from benchmarks.workload import Batch, Context, Recipe

AXES = {"precision": "bf16", "layout": "channels_last", "pinning": "on"}
PROTOCOL = timed(Tier.QUICK, Protocol(phases=True))


def small_step(model: nn.Module, batch: Batch) -> Tensor:
    """Return a loss that takes next to no time."""
    out: Tensor = model(batch[0].mean((2, 3))).pow(2).mean()
    return out


def recipe(context: Context) -> Recipe:
    """Build the case whose loader is measured."""
    on_gpu = context.device.type == "cuda"
    case = Case(workload="resnet50", preset="full", axes=AXES if on_gpu else {})
    made = session.build(catalog.normalise(case, context.device.type), context)
    return made if on_gpu else replace(made, model=nn.Linear(3, 1), loss=small_step, batch=16)


def measured(made: Recipe, workers: int, device: torch.device) -> Replicate:
    """Measure ``made`` with so many loader processes."""
    options = {**made.loader_options, "num_workers": workers, "persistent_workers": True}
    trainer = Trainer(replace(made, loader_options=options), device)
    with Reporter(None, "trial") as reporter:
        return Passes(trainer, PROTOCOL, reporter, "img/s").replicate(0, 0.0, 0.0)


def main() -> None:
    """Measure each number of loader processes, and forecast the next ones."""
    warnings.filterwarnings("ignore", message="This DataLoader will create")
    counts = [int(word) for word in sys.argv[1:]] or [1, 2, 3, 4]
    device = choose(None)
    context = Context(device, cache_folder(), None, 0)
    forecasts: dict[int, tuple[Forecast, float]] = {}
    for workers in counts:
        made = recipe(context)
        flags.put_in_force(made)
        replicate = measured(made, workers, device)
        said = {
            str(fewer): round(rate * told.speedup(workers), 1)
            for fewer, (told, rate) in forecasts.items()
        }
        row = {"workers": workers, "rate": round(replicate.full.rate, 1), "from": said}
        told = loader_processes.forecast(replicate)
        if told is not None:
            forecasts[workers] = told, replicate.full.rate
            row |= {"limit": told.limit, "enough": told.enough}
        cost = replicate.input.model_dump(exclude_defaults=True) if replicate.input else {}
        print(
            json.dumps(row | {"synth": round(replicate.synth.rate, 1), "input": cost}), flush=True
        )
        del made
        free_memory(device)


if __name__ == "__main__":
    main()
