"""How near right cases come to what parity allows: ``python -m trials.parity > rows.jsonl``.

One line for each case and seed, with every quantity's error and what was allowed. None of these
cases is wrong, so a line with ``fail`` is a false alarm.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from benchmarks.catalog import catalog
from benchmarks.contracts import Case, Parity
from benchmarks.environment import capture
from benchmarks.measure import flags
from benchmarks.measure.device import choose
from benchmarks.measure.parity_check import Check
from benchmarks.measure.session import build
from benchmarks.measure.trainer import Trainer
from benchmarks.workload import Context

STEPS: tuple[dict[str, str], ...] = ({"optimizer": "fused"}, {"layout": "channels_last"}, {})
PRECISIONS = {"cpu": ("fp32", "bf16"), "cuda": ("fp32", "tf32", "bf16", "fp16")}


def cases(workload: str, device: str, *, compiled: bool) -> list[Case]:
    """Every precision with each step; layouts only where there are images."""
    steps = (*STEPS, {"compile": "default"}) if compiled else STEPS
    images = catalog.workloads()[workload].facts["input"] == "images"
    return [
        catalog.normalise(Case(workload=workload, axes={"precision": precision} | step), device)
        for precision in PRECISIONS[device]
        for step in steps
        if images or "layout" not in step
    ]


def checked(case: Case, context: Context) -> Parity:
    """Hold one case against its reference, without timing it."""
    recipe = build(case, context)
    facts = capture(context.device, flags.put_in_force(recipe), recipe.data_name).facts
    check = Check(case, context, facts, build)
    trainer = Trainer(recipe, context.device)
    del recipe
    check.follow(trainer)
    del trainer
    return check.verdict()


def main() -> int:
    """Check every case of the chosen workloads."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--workloads", default="resnet50,nanogpt,unet")
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--cache", type=Path)
    options = parser.parse_args()
    device = choose(None)
    with TemporaryDirectory() as temporary:
        cache = options.cache or Path(temporary)
        for workload in options.workloads.split(","):
            for case in cases(workload, device.type, compiled=options.compiled):
                for seed in range(options.seeds):
                    parity = checked(case, Context(device, cache, seed=seed))
                    print(_row(case, seed, parity), flush=True)
    return 0


def _row(case: Case, seed: int, parity: Parity) -> str:
    fields = parity.model_dump(mode="json", exclude={"losses"})
    fields["agreements"] = {
        agreement.quantity: [
            float(f"{value:.3g}") for value in (agreement.error, agreement.allowed)
        ]
        for agreement in parity.agreements
    }
    return json.dumps({"case": case.key, "seed": seed, "torch": torch.__version__, **fields})


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
