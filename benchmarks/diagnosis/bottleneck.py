"""The limit of a step that has its batches: host, other devices, or a part of the device. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from benchmarks.contracts import Bottleneck, Operation, Profile, Replicate, Synchronization
from benchmarks.contracts.gang import GangTrace
from benchmarks.diagnosis.roofline import Ceilings, roofline

BUSY = 0.85
"""Share of the step from which on the device counts as busy."""
ENQUEUE = 0.85
"""Share of the step that the host spends on queuing: the second sign of overhead ..."""
ENQUEUE_DRY = 0.5
"""... and where steps find the device idle: what the host does between steps counts then too."""
STARVED = 0.5
"""Share of steps that found the device idle, above which the host is too slow."""
EXPOSED = 0.10
"""Share of the step in which communication runs alone, or of a gang's step that exchange adds,
above which it is the limit."""
MEMORY = 0.60
"""Share of the roofline in operations limited by bandwidth, above which memory is the limit ..."""
COMPUTE = 0.40
"""... and below which arithmetic is; both with pointwise operations fused and not."""
AGREES = 0.5
"""Share of the kernels' time in matrix products: above, it confirms arithmetic; below, memory."""
SMALL = 0.5
"""Share of the kernels' time in kernels too small to fill the device, from which on they are the
limit ..."""
REACHED = 0.25
"""... if the device reaches no more than this share of its own rates while it works."""
UNTOLD = 0.15
"""Share of its rates below which a busy device has a limit that the roofline does not know."""
RECOMPILING = 0.10
"""Share of the step's time in the compiler, above which the compiler is the limit."""
ALLOCATES = 1.0
"""Pieces of memory a step that the allocator gets from the driver or gives back, which a step in
steady state does not."""
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
    """Those of each step."""
    allocations: float
    """Per step: memory that the allocator asked the driver for, or gave back."""


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
        if profile.small_s is not None:
            evidence["small_kernels"] = profile.small_s / total
    evidence |= _attention_by(profile.operations)
    bounds = {"without_launch_gaps": 1.0 / busy}
    roof = roofline(profile.demands, ceilings) if ceilings else None
    if roof is not None:
        evidence["memory_share"] = roof.memory_share
        evidence["memory_share_fused"] = roof.memory_share_fused
        evidence["reached"] = min(1.0, roof.roof_s / busy_s)
        evidence["roofline"] = min(1.0, roof.fused_s / step_s)
        bounds["at_roofline"] = max(1.0, step_s / roof.fused_s)
    waits = tuple(wait for wait in profile.synchronizations if wait.every == 1)
    return Seen(evidence, bounds, profile.launches, waits, profile.device_allocations)


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
    dry = evidence.get("drained", 0.0) >= STARVED
    slow = evidence["enqueue"] >= (ENQUEUE_DRY if dry else ENQUEUE)
    if "drained" not in evidence or not slow:  # the first is a CPU, which has no queue
        return None
    if seen is None:
        return None if waits or not dry else Finding(Bottleneck.OVERHEAD, "high", _dry(evidence))
    busy = seen.evidence["busy"]
    if busy > BUSY:
        return None
    held_up = " ".join(filter(None, (_waits(seen.waits), _allocations(seen.allocations))))
    sentence = (
        f"{held_up} The device works {busy:.0%} of the step."
        if held_up
        else f"The device works {busy:.0%} of the step; the host needs {evidence['enqueue']:.0%} "
        f"of it to queue {seen.launches:,.0f} launches."
    )
    sentence += f" Without the gaps, x{seen.bounds['without_launch_gaps']:.2f}."
    sure = (dry or held_up) and not waits
    return Finding(Bottleneck.OVERHEAD, "high" if sure else "low", sentence[:500])


def _dry(evidence: Evidence) -> str:
    return (
        f"The host needs {evidence['enqueue']:.0%} of the step to queue its work, and the "
        f"device had run dry at {evidence['drained']:.0%} of the steps."
    )


def _allocations(a_step: float) -> str:
    if a_step < ALLOCATES:
        return ""
    return (
        f"In each step the allocator asks the driver for memory or gives it back {a_step:,.0f} "
        "times, which makes the device wait."
    )


def _waits(waits: Sequence[Synchronization]) -> str:
    """Name the line at which the host waits most often, and how many others there are."""
    if not waits:
        return ""
    worst, times = most_frequent(waits)
    others = len(waits) - 1
    also = f", and at {others} other line{'s' if others > 1 else ''}" if others else ""
    return (
        f"In each step the host waits for the device {times} at {worst.source} "
        f"({worst.what}){also}."
    )


def most_frequent(waits: Sequence[Synchronization]) -> tuple[Synchronization, str]:
    """Return the wait that comes most often in a step, and how often in words."""
    worst = max(waits, key=lambda wait: wait.calls)
    return worst, "once" if worst.calls == 1 else f"{worst.calls:,} times"


def recompiling(replicates: Sequence[Replicate], evidence: Evidence) -> Finding | None:
    """Return the finding that a compiler works during the steps; None if it does not."""
    share = evidence.get("compiling", 0.0)
    if share < RECOMPILING:
        return None
    sentence = f"The compiler works for {share:.0%} of the step, long after the first one."
    compiled = replicates[0].compilation
    if compiled is not None and compiled.recompiles:
        guard = max(compiled.recompiles, key=compiled.recompiles.__getitem__)
        sentence += (
            f" It compiled anew {sum(compiled.recompiles.values()):,} times, for example because "
            f"this did not hold: {' '.join(guard.split())[:250]}."
        )
    sentence += f" Without it, x{1 / (1 - share):.2f}." if share < 1 else ""
    return Finding(Bottleneck.OVERHEAD, "high", sentence)


def of_exchange(replicates: Sequence[Replicate]) -> dict[str, float]:
    """Shares of a gang's step that exchange takes, means over launches; empty without an account.

    Where nothing runs without exchange, the account's part holds all that sharing adds, so that
    the traced steps alone tell exchange.
    """
    accounts = [one.account for one in replicates if one.account is not None]
    traces = [one.gang_trace for one in replicates if one.gang_trace and one.gang_trace.ranks]
    shares = _traced(traces)
    if accounts and all(one.wrapper_s is not None for one in accounts):
        shares["exchange"] = fmean(one.exchange_s / one.gang_s for one in accounts)
    elif accounts and shares:
        shares["exchange"] = shares["exchange_transfer"] + shares["exchange_wait"]
    return shares


def _traced(traces: Sequence[GangTrace]) -> dict[str, float]:
    if not traces:
        return {}
    step_s = [fmean(rank.step_s for rank in trace.ranks) for trace in traces]
    both = list(zip(traces, step_s, strict=True))
    shares = {
        "exchange_transfer": fmean(trace.transfer_s / s for trace, s in both),
        "exchange_wait": fmean(trace.wait_s / s for trace, s in both),
    }
    contention = [(trace.contention_s, s) for trace, s in both]
    if all(seconds is not None for seconds, _ in contention):
        shares["exchange_contention"] = fmean((seconds or 0.0) / s for seconds, s in contention)
    return shares


_OF_EXCHANGE = {
    "exchange_transfer": "exposed transfer",
    "exchange_wait": "waiting for another rank",
    "exchange_contention": "computation slowed beside it",
}


def exchange(evidence: Evidence) -> Finding | None:
    """Return the finding that a gang's exchange is the limit; None if it is not."""
    share = evidence.get("exchange", 0.0)
    if share < EXPOSED:
        return None
    parts = [
        f"{words} {evidence[name]:.0%}" for name, words in _OF_EXCHANGE.items() if name in evidence
    ]
    split = f": in traced steps {', '.join(parts)}" if parts else ""
    without = f" Without it, x{1 / (1 - share):.2f}." if share < 1 else ""
    sentence = f"Exchange between the GPUs takes {share:.0%} of the step{split}.{without}"
    return Finding(Bottleneck.COMMUNICATION, "high", sentence)


def device(seen: Seen | None) -> Finding | None:
    """Find the part of the device that is the limit; None where the evidence shows none."""
    if seen is None:
        return None
    evidence = seen.evidence
    exposed = evidence["exposed_communication"]
    if exposed >= EXPOSED:
        sentence = f"The device waits for other devices for {exposed:.0%} of the step."
        return Finding(Bottleneck.COMMUNICATION, "high", sentence)
    if (small := _too_small(seen)) is not None:
        return small
    if evidence["busy"] <= BUSY:
        sentence = (
            f"The device works {evidence['busy']:.0%} of the step and the host does not hold it "
            "up: its kernels wait for each other."
        )
        return Finding(Bottleneck.MIXED, "low", sentence)
    if "memory_share" not in evidence:
        return None
    return _by_roofline(seen)


def _too_small(seen: Seen) -> Finding | None:
    """Find that kernels are too small to fill the device: by their sizes, and by its rates."""
    small, reached = seen.evidence.get("small_kernels", 0.0), seen.evidence.get("reached", 1.0)
    if small < SMALL or reached > REACHED:
        return None
    sentence = (
        f"{small:.0%} of the kernels' time goes into kernels with too few blocks to fill the "
        "device, or too short to do more than start and end; while it works it reaches "
        f"{reached:.1%} of its own rates."
    )
    return Finding(Bottleneck.LATENCY, "high", sentence)


def _by_roofline(seen: Seen) -> Finding:
    evidence = seen.evidence
    if evidence["reached"] < UNTOLD:
        sentence = (
            f"The device works {evidence['busy']:.0%} of the step and reaches "
            f"{evidence['reached']:.0%} of its own rates: neither arithmetic nor bandwidth holds "
            "its kernels up."
        )
        return Finding(Bottleneck.MIXED, "low", sentence)
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
