"""Records fresh processes of equal and of slower code in turn, on one device.

``PYTHONPATH=.:tests python -m agreement.record NAME SECONDS FILE``: the case of that name in
`CASES` for so many seconds, one row a process. A B, B A, A B ...: B has one percent more work in
its step.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.contracts import Protocol, Result, Status

CASES = {
    "resnet50": (
        "copy",
        "resnet50 precision=bf16 layout=channels_last optimizer=fused pinning=on workers=16 "
        "decode=cache",
    ),
    "nanogpt": ("product", "nanogpt precision=bf16 optimizer=fused pinning=on workers=2"),
    "unet": ("copy", "unet precision=bf16 optimizer=fused graphs=on pinning=on workers=4"),
}
"""What is planted, and the case: each limited by the device."""
MORE = 0.01


def one(kind: str, seconds: float, words: list[str], seed: int) -> Result:
    """A fresh process of the case."""
    command = [sys.executable, "-m", "agreement.planted", kind, repr(seconds), *words]
    command += [
        "--seed",
        str(seed),
        "--protocol",
        Protocol().model_dump_json(exclude_defaults=True),
    ]
    child = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    return Result.model_validate_json(child.stdout.splitlines()[-1])


def row(result: Result, **told: Any) -> dict[str, Any]:
    """What is kept of a process: rates in items per second, and what may speak against them."""
    if result.status is not Status.OK:
        return told | {"status": result.status.value, "reason": result.reason}
    (replicate,) = result.replicates
    return told | {
        "case": result.case.key,
        "gpu": result.environment.facts.get("hw.gpu.uuid", ""),
        "measured_at": result.measured_at.isoformat(),
        "status": "ok",
        "full": replicate.full.rate,
        "full_half_width": replicate.full.half_width,
        "synth": replicate.synth.rate,
        "step_s": replicate.full.wall_s / replicate.full.steps,
        "flags": list(replicate.flags),
    }


def record(name: str, limit_s: float, file: Path) -> None:
    """Measure pairs until ``limit_s`` would be passed by the next process."""
    from_s = time.monotonic()
    kind, case = CASES[name]
    words = case.split()
    step_s = row(one(kind, 0.0, words, 0))["step_s"]  # the first one of all, and not counted
    longest_s = time.monotonic() - from_s
    number = 0
    while True:
        pair, second = divmod(number, 2)
        side = "BA"[second] if pair % 2 else "AB"[second]
        at_s = time.monotonic()
        if at_s - from_s + longest_s > limit_s:
            return
        extra_s = MORE * step_s if side == "B" else 0.0
        told = row(
            one(kind, extra_s, words, pair), name=name, side=side, pair=pair, planted_s=extra_s
        )
        longest_s = max(longest_s if number else 0.0, time.monotonic() - at_s)
        with file.open("a") as out:
            out.write(json.dumps(told | {"took_s": time.monotonic() - at_s}) + "\n")
        number += 1


if __name__ == "__main__":
    record(sys.argv[1], float(sys.argv[2]), Path(sys.argv[3]))
