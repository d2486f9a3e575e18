"""Measures the truths as any case is measured, and writes what it saw as recordings.

``PYTHONPATH=.:tests python -m trials.truths.measured FOLDER`` writes one JSON file a truth into
FOLDER; from `trials/truths/recorded/` the tests of every machine read them. The device's own canary
says what it can reach.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import torch

from benchmarks.contracts import Bottleneck, Protocol, Replicate, Verdict
from benchmarks.diagnosis.conclude import ceilings
from benchmarks.diagnosis.verdict import diagnose
from benchmarks.measure import canary, flags
from benchmarks.measure.passes import Passes
from benchmarks.measure.progress import Reporter
from trials.truths.models import TRUTHS
from trials.truths.parts import Truth

RECORDED = Path(__file__).with_name("recorded")
BRIEF = Protocol(
    warmup_min_s=0.5,
    warmup_max_s=2.0,
    settle_max_s=0.0,
    window_min_s=1.0,
    window_max_s=2.0,
    block_min_s=0.1,
    phases=True,
    profile=True,
)


def measure(name: str, device: torch.device) -> Replicate:
    """One replicate of the truth of that name."""
    truth = TRUTHS[name]
    torch.manual_seed(0)
    torch._dynamo.reset()
    if device.type == "cuda":
        torch.cuda.set_per_process_memory_fraction(1.0, device)  # one truth is short of memory
    recipe = truth.build(device)
    flags.put_in_force(recipe)
    trainer = truth.trainer(recipe, device)
    with Reporter(os.open(os.devnull, os.O_WRONLY), name) as reporter:
        return Passes(trainer, BRIEF, reporter, "step/s").replicate(0, 0.0, 0.0)


def names_the_limit(truth: Truth, verdict: Verdict) -> bool:
    """Whether the verdict says what is true."""
    evidence = verdict.evidence
    copied = evidence["copy"] > evidence["stall"]
    as_known = copied == truth.by_copy or verdict.bottleneck is not Bottleneck.INPUT
    return verdict.bottleneck is truth.limit and as_known and truth.says in verdict.sentence


def main(folder: Path, names: list[str]) -> int:
    """Record the truths of these names, or all; 1 if one of them is told wrong."""
    folder.mkdir(parents=True, exist_ok=True)
    device = torch.device("cuda", 0)
    reached = canary.measure(device)
    _tell(f"{reached.readings}")
    wrong = 0
    for name in names or TRUTHS:
        from_s = time.perf_counter()
        replicate = measure(name, device)
        torch.cuda.empty_cache()
        verdict = diagnose((replicate,), ceilings({"hw.device": "cuda"}, reached.readings))
        right = names_the_limit(TRUTHS[name], verdict)
        wrong += not right
        document = {
            "truth": name,
            "device": torch.cuda.get_device_name(device),
            "torch": torch.__version__,
            "canary": reached.readings,
            "replicate": replicate.model_dump(mode="json"),
        }
        (folder / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n")
        mark, took_s = "right" if right else "WRONG", time.perf_counter() - from_s
        _tell(
            f"{name}: {mark} in {took_s:.1f} s: {verdict.bottleneck} ({verdict.confidence}): "
            f"{verdict.sentence}\n  {[one.sentence for one in verdict.suggestions]}\n"
            f"  {verdict.evidence}\n  {verdict.bounds}\n  {replicate.flags}"
        )
    return 1 if wrong else 0


def _tell(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    where, *named = sys.argv[1:] or [str(RECORDED)]
    sys.exit(main(Path(where), named))
