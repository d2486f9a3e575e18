"""The limit of a step that has its batches: host, other devices, arithmetic or memory. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from benchmarks.contracts import Bottleneck, Demand, Operation, Profile, Replicate, Synchronization


@dataclass(frozen=True)
class Ceilings:
    """Achievable rates of one kind of device."""

    bandwidth_b_per_s: float
    flop_per_s: Mapping[str, float]
    """By arithmetic: fp32, tf32, bf16, fp16 ..."""


@dataclass(frozen=True)
class Roofline:
    """Least seconds of one step, and how much of them is memory traffic."""

    roof_s: float
    """Each operation reads and writes memory for itself, as eager PyTorch does."""
    fused_s: float
    """Pointwise operations are fused into their neighbours and move nothing."""
    memory_share: float
    """Share of ``roof_s`` in operations that bandwidth limits."""
    memory_share_fused: float


def roofline(demands: Sequence[Demand], ceilings: Ceilings) -> Roofline | None:
    """The roofline of one step; None where a peak that it needs is not known.

    Williams, Waterman and Patterson 2009: each operation needs at least the longer of two times,
    its arithmetic at the peak rate and its bytes at the peak bandwidth. Peaks are measured ones:
    by those of a data sheet every model would seem to have room.
    """
    if any(d.flops > 0 and d.arithmetic not in ceilings.flop_per_s for d in demands):
        return None
    unfused = _times(demands, ceilings)
    fused = _times([d for d in demands if not d.fusable], ceilings)
    roof_s = sum(max(pair) for pair in unfused)
    if roof_s <= 0:
        return None
    memory = _memory_share(unfused)
    # A step of nothing but pointwise operations has nothing to be fused into.
    fused_memory = _memory_share(fused) if fused else memory
    return Roofline(roof_s, sum(max(pair) for pair in fused) or roof_s, memory, fused_memory)


def _times(demands: Sequence[Demand], ceilings: Ceilings) -> list[tuple[float, float]]:
    """Seconds of arithmetic and of memory traffic of each."""
    return [
        (
            d.flops / ceilings.flop_per_s[d.arithmetic] if d.flops > 0 else 0.0,
            d.moved_b / ceilings.bandwidth_b_per_s,
        )
        for d in demands
    ]


def _memory_share(times: Sequence[tuple[float, float]]) -> float:
    total = sum(max(pair) for pair in times)
    return sum(memory for compute, memory in times if memory > compute) / total if total else 0.0


BUSY = 0.85
"""Share of the step from which on the device counts as busy."""
ENQUEUE = 0.85
"""Share of the step that the host spends on queuing: the second sign of overhead."""
STARVED = 0.5
"""Share of steps that found the device idle, above which the host is too slow."""
EXPOSED = 0.10
"""Share of the step in which communication runs alone, above which it is the limit."""
MEMORY = 0.60
"""Share of the roofline in operations limited by bandwidth, above which memory is the limit ..."""
COMPUTE = 0.40
"""... and below which arithmetic is; both with pointwise operations fused and not."""
AGREES = 0.5
"""Share of the kernels' time in matrix products: above, it confirms arithmetic; below, memory."""
_MATRIX = ("gemm", "conv", "attention")

Evidence = Mapping[str, float]


@dataclass(frozen=True)
class Finding:
    """The part of a verdict that concerns the step itself."""

    bottleneck: Bottleneck
    confidence: Literal["high", "low"]
    sentence: str


_ATTENTION = (
    ("cudnn", re.compile(r"cudnn")),  # whose kernels have "flash" in their names as well
    ("flex", re.compile(r"flex")),
    ("efficient", re.compile(r"efficient|fmha_cutlass")),
    ("flash", re.compile(r"flash")),
)
"""Values of the axis ``attention`` by the names of their operators and kernels."""


@dataclass(frozen=True)
class Seen:
    """The findings of a profile, which add to the evidence of the timed passes."""

    evidence: dict[str, float]
    bounds: dict[str, float]
    launches: float
    """Per step."""
    waits: tuple[Synchronization, ...]


def seen(replicates: Sequence[Replicate], ceilings: Ceilings | None) -> Seen | None:
    """The evidence of the first replicate that has a profile; None where none has.

    Busy seconds come from the profile and the step from SYNTH. The profiler slows the host, which
    would make the device seem idle, but hardly the kernels.
    """
    for replicate in replicates:
        profile = replicate.profile
        if profile is not None and profile.busy_s is not None and profile.busy_s > 0:
            step_s = replicate.synth.wall_s / replicate.synth.steps
            return _read(profile, profile.busy_s, step_s, ceilings)
    return None


def _read(profile: Profile, busy_s: float, step_s: float, ceilings: Ceilings | None) -> Seen:
    busy = min(1.0, busy_s / step_s)
    evidence = {"busy": busy}
    evidence["exposed_communication"] = min(1.0, profile.exposed_communication_s / step_s)
    total = sum(profile.seconds.values())
    if total > 0:
        evidence |= {f"time_{kind}": s / total for kind, s in profile.seconds.items()}
    evidence |= _attention_by(profile.operations)
    bounds = {"without_launch_gaps": 1.0 / busy}
    roof = roofline(profile.demands, ceilings) if ceilings else None
    if roof is not None:
        evidence["memory_share"] = roof.memory_share
        evidence["memory_share_fused"] = roof.memory_share_fused
        evidence["roofline"] = min(1.0, roof.fused_s / step_s)
        bounds["at_roofline"] = max(1.0, step_s / roof.fused_s)
    return Seen(evidence, bounds, profile.launches, profile.synchronizations)


def _attention_by(operations: Sequence[Operation]) -> dict[str, float]:
    """Return the share of each kernel in the time of attention."""
    seconds: dict[str, float] = {}
    for operation in operations:
        if operation.kind == "attention":
            name = f"attention_{_kernel(operation.name)}"
            seconds[name] = seconds.get(name, 0.0) + operation.self_s
    total = sum(seconds.values())
    return {name: s / total for name, s in seconds.items()} if total > 0 else {}


def _kernel(operation: str) -> str:
    named = (kernel for kernel, pattern in _ATTENTION if pattern.search(operation))
    return next(named, "math")


def overhead(evidence: Evidence, seen: Seen | None, *, waits: bool) -> Finding | None:
    """Return the finding that the host is too slow; None if it is not.

    ``waits``: the step waits for the device on purpose, which counts as queuing time.
    """
    slow = evidence["enqueue"] >= ENQUEUE
    dry = evidence.get("drained", 0.0) >= STARVED
    if "drained" not in evidence or not slow:  # the first is a CPU, which has no queue
        return None
    if seen is None:
        return None if waits or not dry else Finding(Bottleneck.OVERHEAD, "high", _dry(evidence))
    busy = seen.evidence["busy"]
    if busy > BUSY:
        return None
    sentence = (
        f"{_held_up(seen.waits)} The device works {busy:.0%} of the step."
        if seen.waits
        else f"The device works {busy:.0%} of the step; the host needs {evidence['enqueue']:.0%} "
        f"of it to queue {seen.launches:,.0f} launches."
    )
    sentence += f" Without the gaps, x{seen.bounds['without_launch_gaps']:.2f}."
    return Finding(Bottleneck.OVERHEAD, "high" if dry and not waits else "low", sentence[:500])


def _dry(evidence: Evidence) -> str:
    return (
        f"The host needs {evidence['enqueue']:.0%} of the step to queue its work, and the "
        f"device had run dry at {evidence['drained']:.0%} of the steps."
    )


def _held_up(waits: Sequence[Synchronization]) -> str:
    """Name the line at which the host waits most often, and how many others there are."""
    worst = max(waits, key=lambda wait: wait.calls)
    times = "once" if worst.calls == 1 else f"{worst.calls:,} times"
    others = len(waits) - 1
    also = f", and at {others} other line{'s' if others > 1 else ''}" if others else ""
    return (
        f"In each step the host waits for the device {times} at {worst.source} "
        f"({worst.what}){also}."
    )


def device(seen: Seen | None) -> Finding | None:
    """Find the part of the device that is the limit; None where the evidence shows none."""
    if seen is None:
        return None
    evidence = seen.evidence
    exposed = evidence["exposed_communication"]
    if exposed >= EXPOSED:
        sentence = f"The device waits for other devices for {exposed:.0%} of the step."
        return Finding(Bottleneck.COMMUNICATION, "high", sentence)
    if evidence["busy"] <= BUSY:
        sentence = (
            f"The device works {evidence['busy']:.0%} of the step and the host does not hold it "
            "up: its kernels are too short to fill it, or wait for each other."
        )
        return Finding(Bottleneck.MIXED, "low", sentence)
    if "memory_share" not in evidence:
        return None
    return _by_roofline(seen)


def _by_roofline(seen: Seen) -> Finding:
    evidence = seen.evidence
    shares = evidence["memory_share"], evidence["memory_share_fused"]
    matrix = sum(evidence.get(f"time_{kind}", 0.0) for kind in _MATRIX)
    sentence = (
        f"The device works {evidence['busy']:.0%} of the step. By its peaks "
        f"{min(shares):.0%} to {max(shares):.0%} of the least time"
        if abs(shares[0] - shares[1]) >= 0.01
        else f"The device works {evidence['busy']:.0%} of the step. By its peaks "
        f"{shares[0]:.0%} of the least time"
    )
    rest = (
        f" goes into moving data, and matrix products take {matrix:.0%} of the kernels' time. "
        f"At the roofline, x{seen.bounds['at_roofline']:.2f}."
    )
    if min(shares) >= MEMORY:
        bottleneck, agrees = Bottleneck.MEMORY, matrix <= AGREES
    elif max(shares) <= COMPUTE:
        bottleneck, agrees = Bottleneck.COMPUTE, matrix >= AGREES
    else:
        bottleneck, agrees = Bottleneck.MIXED, True
    return Finding(bottleneck, "high" if agrees else "low", sentence + rest)
