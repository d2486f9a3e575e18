"""Records fresh processes of equal and of slower code in turn, on one device.

``PYTHONPATH=.:tests python -m trials.agreement.record NAME TIER SECONDS FILE [equal]``: the case of
that name in `CASES` for so many seconds, one row a process. Of the gate tier A B, B A, A B ...: B
has one percent more work in its step. Of the standard tier only A, and of the gate tier with
``equal``.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from benchmarks.catalog.precision_tiers import Tier, timed
from benchmarks.contracts import Protocol, Result, Status, Telemetry
from trials.agreement.planted import Kind
from trials.live_service import environment
from worker.device.nvml import Gauge, NvmlGauge
from worker.device.state import Occupancy, Sampler
from worker.device.telemetry import attach


class Subject(NamedTuple):
    """A case that is limited by the device, and what one percent more of it is made of."""

    words: str
    kind: Kind


CASES = {
    "resnet50": Subject(
        "resnet50 precision=bf16 layout=channels_last optimizer=fused pinning=on workers=16 "
        "decode=cache",
        Kind.COPIES,
    ),
    # At the power limit: copies would let the clock rise.
    "nanogpt": Subject(
        "nanogpt precision=bf16 optimizer=fused pinning=on workers=2", Kind.PRODUCTS
    ),
    # Below the power limit.
    "nanogpt-fp32": Subject(
        "nanogpt precision=fp32 optimizer=fused pinning=on workers=2", Kind.COPIES
    ),
    "unet": Subject(
        "unet precision=bf16 optimizer=fused graphs=on pinning=on workers=4", Kind.COPIES
    ),
    # Without graphs, with which the case above has two speeds: the first of these three leaves the
    # host most time to spare.
    "unet-fp32": Subject("unet precision=fp32 optimizer=fused pinning=on workers=4", Kind.COPIES),
    "unet-tf32": Subject("unet precision=tf32 optimizer=fused pinning=on workers=4", Kind.COPIES),
    "unet-channels-last": Subject(
        "unet precision=bf16 layout=channels_last optimizer=fused pinning=on workers=4",
        Kind.COPIES,
    ),
}
MORE = 0.01
HZ = 10.0


@dataclass(frozen=True, slots=True)
class Case:
    """What every process of a recording has in common."""

    words: tuple[str, ...]
    protocol: Protocol
    kind: Kind
    planted: int = 0
    """How much work of that kind side B does besides in each step."""


def begun(case: Case, side: str, seed: int) -> subprocess.Popen[bytes]:
    """A fresh process of the case, which waits to be told."""
    command = [sys.executable, "-m", "trials.agreement.planted", case.kind, str(case.planted), side]
    command += [*case.words, "--seed", str(seed)]
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


def row(result: Result, **labels: Any) -> dict[str, Any]:
    """What is kept of a process: rates in items per second, and what may speak against them."""
    if result.status is not Status.OK:
        return labels | {"status": result.status.value, "reason": result.reason}
    (replicate,) = result.replicates
    return labels | {
        "case": result.case.key,
        "gpu": result.environment.facts.get("hw.gpu.uuid", ""),
        "measured_at": result.measured_at.isoformat(),
        "status": "ok",
        "full": replicate.full.rate,
        "full_half_width": replicate.full.half_width,
        "synth": replicate.synth.rate,
        "step_s": replicate.full.wall_s / replicate.full.steps,
        "build_s": replicate.build_s,
        "warmup_s": replicate.warmup.s,
        "flags": list(replicate.flags),
        "counted_hz": replicate.full.sm_clock_hz,
        **_watched(replicate.telemetry.get("full")),
    }


def _watched(telemetry: Telemetry | None) -> dict[str, float]:
    """Means over FULL: of every channel, and the share of it that each clock limit was in force."""
    if telemetry is None:
        return {}
    means = {name: fmean(trace.values()) for name, trace in telemetry.channels.items()}
    return means | {f"reason.{name}": share for name, share in telemetry.reasons.items()}


def record(name: str, tier: Tier, limit_s: float, file: Path, *, equal: bool = False) -> None:
    """Measure pairs until ``limit_s`` would be passed by the next process."""
    from_s = time.monotonic()
    subject = CASES[name]
    plain = Case(tuple(subject.words.split()), timed(Tier.QUICK), subject.kind)
    first = row(measured(begun(plain, "A", 0)))  # not counted: it warms up, and tells the step
    gauge = NvmlGauge(first["gpu"]) if first["gpu"] else None
    paired = tier is Tier.GATE and not equal
    amount = MORE * first["step_s"] * work_rate(subject.kind) if paired else 0
    case = replace(plain, protocol=timed(tier), planted=round(amount))
    turns = order("AB" if paired else "A")
    longest_s = 2 * (time.monotonic() - from_s)
    turn = next(turns)
    waiting = begun(case, turn.side, turn.pair)
    while time.monotonic() - from_s + longest_s < limit_s:
        at_s, child, now, turn = time.monotonic(), waiting, turn, next(turns)
        waiting = begun(case, turn.side, turn.pair)
        recorded = row(
            measured(child, gauge), name=name, tier=tier.value, side=now.side, pair=now.pair
        )
        took_s = time.monotonic() - at_s
        longest_s = took_s if now.number == 0 else max(longest_s, took_s)
        with file.open("a") as out:
            out.write(
                json.dumps(
                    recorded | {"kind": case.kind, "planted": case.planted, "took_s": took_s}
                )
                + "\n"
            )
    waiting.kill()


def work_rate(kind: Kind, device: str = "auto") -> float:
    """Measure how much `trials.agreement.planted` does of such work per second by itself, on
    ``device`` such as cuda:2; by default on the first one."""
    command = [sys.executable, "-m", "trials.agreement.planted", kind]
    number = device.partition(":")[2]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if number and visible:
        number = visible.split(",")[int(number)]
    chosen = {"CUDA_VISIBLE_DEVICES": number} if number else {}
    made = subprocess.run(command, env=environment(**chosen), capture_output=True, check=True)
    return float(made.stdout)


class Turn(NamedTuple):
    """Whose turn it is."""

    number: int
    pair: int
    side: str


def order(sides: str) -> Iterator[Turn]:
    """A B, B A, A B ... of two sides."""
    for pair in itertools.count():
        for place, side in enumerate(sides if pair % 2 == 0 else reversed(sides)):
            yield Turn(pair * len(sides) + place, pair, side)


if __name__ == "__main__":
    _name, _tier, _limit_s, _file, *_more = sys.argv[1:]
    record(_name, Tier(_tier), float(_limit_s), Path(_file), equal=_more == ["equal"])
