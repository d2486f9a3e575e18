"""Records fresh processes of equal and of slower code in turn, on one device.

``PYTHONPATH=.:tests python -m agreement.record NAME SECONDS FILE``: the case of that name in
`CASES` for so many seconds, one row a process. A B, B A, A B ...: B has one percent more work in
its step.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from benchmarks.contracts import Protocol, Result, Status, Telemetry
from benchmarks.tiers import Tier, timed
from worker.nvml import Gauge, NvmlGauge
from worker.occupancy import Occupancy
from worker.telemetry import Sampler, attach

CASES = {
    "resnet50": "resnet50 precision=bf16 layout=channels_last optimizer=fused pinning=on "
    "workers=16 decode=cache",
    "nanogpt": "nanogpt precision=bf16 optimizer=fused pinning=on workers=2",
    "unet": "unet precision=bf16 optimizer=fused graphs=on pinning=on workers=4",
}
"""Each limited by the device."""
MORE = 0.01
HZ = 10.0


@dataclass(frozen=True, slots=True)
class Case:
    """What every process of a recording has in common."""

    words: tuple[str, ...]
    protocol: Protocol
    planted_b: int = 0
    """Bytes that side B copies in each step."""


def begun(case: Case, side: str, seed: int) -> subprocess.Popen[bytes]:
    """A fresh process of the case, which waits to be told."""
    command = [sys.executable, "-m", "agreement.planted", str(case.planted_b), side, *case.words]
    command += ["--seed", str(seed)]
    command += ["--protocol", case.protocol.model_dump_json(exclude_defaults=True)]
    pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nothing)


def measured(child: subprocess.Popen[bytes], gauge: Gauge | None = None) -> Result:
    """Tell the process to measure, wait for what it found, and add what the device said."""
    if gauge is None:
        return _answer(child)
    with Sampler(gauge, HZ, Occupancy(gauge)) as sampler:
        sampler.start()
        result = _answer(child)
    return attach(result, sampler.readings())


def _answer(child: subprocess.Popen[bytes]) -> Result:
    out, _ = child.communicate(b"\n")
    return Result.model_validate_json(out.splitlines()[-1])


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
        **_watched(replicate.telemetry.get("full")),
    }


def _watched(told: Telemetry | None) -> dict[str, float]:
    """Means over FULL: SM clock in Hz, power in W, and the share of it under the power cap."""
    if told is None:
        return {}
    means = {name: told.channels[name].values() for name in ("sm_clock_hz", "power_w")}
    capped = told.reasons.get("sw_power_cap", 0.0)
    return {name: fmean(values) for name, values in means.items()} | {"power_capped": capped}


def record(name: str, tier: Tier, limit_s: float, file: Path) -> None:
    """Measure pairs until ``limit_s`` would be passed by the next process."""
    from_s = time.monotonic()
    plain = Case(tuple(CASES[name].split()), timed(tier))
    first = row(measured(begun(plain, "A", 0)))  # not counted
    gauge = NvmlGauge(first["gpu"]) if first["gpu"] else None
    case = replace(plain, planted_b=round(MORE * first["step_s"] * copy_rate()))
    turns = order()
    longest_s = time.monotonic() - from_s
    turn = next(turns)
    waiting = begun(case, turn.side, turn.pair)
    while time.monotonic() - from_s + longest_s < limit_s:
        at_s, child, now, turn = time.monotonic(), waiting, turn, next(turns)
        waiting = begun(case, turn.side, turn.pair)
        told = row(measured(child, gauge), name=name, tier=tier.value, side=now.side, pair=now.pair)
        took_s = time.monotonic() - at_s
        longest_s = took_s if now.number == 0 else max(longest_s, took_s)
        with file.open("a") as out:
            out.write(json.dumps(told | {"planted_b": case.planted_b, "took_s": took_s}) + "\n")
    waiting.kill()


def copy_rate() -> float:
    """Bytes per second of `agreement.planted`'s copies by themselves."""
    command = [sys.executable, "-m", "agreement.planted"]
    return float(subprocess.run(command, capture_output=True, check=True).stdout)


class Turn(NamedTuple):
    """Whose turn it is."""

    number: int
    pair: int
    side: str


def order() -> Iterator[Turn]:
    """A B, B A, A B ..."""
    for number in itertools.count():
        pair, second = divmod(number, 2)
        yield Turn(number, pair, "BA"[second] if pair % 2 else "AB"[second])


if __name__ == "__main__":
    record(sys.argv[1], Tier(sys.argv[2]), float(sys.argv[3]), Path(sys.argv[4]))
