"""Tells what speaks for each move: axes that lift a limit, evidence for their values. Pure.

A new move is one row of `MOVES`, and its axis stands in `LIFTS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from benchmarks.contracts import Bottleneck
from benchmarks.diagnosis.bottleneck import BUSY, STARVED

WORTH_NAMING = 0.02
"""A smaller share of the evidence speaks for nothing."""
MORE, FEWER = "more", "fewer"
"""Loader processes: up to as many as CPUs run side by side; or the next lower number."""
Evidence = Mapping[str, float]
Reason = tuple[float, str]
"""A share of the evidence, and the clause that tells it."""
Why = Callable[[Evidence], Reason | None]


def _share(name: str, words: str) -> Why:
    """A reason based on one share of the evidence, where the share is worth naming."""

    def reason(evidence: Evidence) -> Reason | None:
        share = evidence.get(name, 0.0)
        return (share, f"{share:.0%} {words}") if share >= _least(evidence) else None

    return reason


def _kinds(kinds: Sequence[str], words: str) -> Why:
    """A reason based on the share of some kinds in the kernels' time."""

    def reason(evidence: Evidence) -> Reason | None:
        share = sum(evidence.get(f"time_{kind}", 0.0) for kind in kinds)
        sentence = f"{share:.0%} of the kernels' time goes into {words}"
        return (share, sentence) if share >= _least(evidence) else None

    return reason


def _least(evidence: Evidence) -> float:
    """Least share that is a reason: what goes away with a smaller one is lost in the noise."""
    return max(WORTH_NAMING, evidence.get("noise", 0.0))


def _device(evidence: Evidence) -> Reason | None:
    """Take the step without the loader for the device's work, unless a profile or a queue that ran
    dry says otherwise."""
    if any(name.startswith("time_") for name in evidence) or _queues(evidence):
        return None
    stall = max(0.0, evidence.get("input_stall", 0.0))
    return 1.0 - stall, f"the device's own work is {1.0 - stall:.0%} of the step"


def _queues(evidence: Evidence) -> Reason | None:
    """Queuing is a reason where the device waits for it; a full queue holds the host back."""
    dry = evidence.get("drained", 0.0) >= STARVED and evidence.get("busy", 0.0) <= BUSY
    return _ENQUEUES(evidence) if dry else None


def _crowds(evidence: Evidence) -> Reason | None:
    return None if _WAITS(evidence) else _CONTENDS(evidence)


def _lacks(evidence: Evidence) -> Reason | None:
    """Waiting is a reason for more loader processes unless the model says what they bring."""
    return _MODELLED(evidence) if "more_workers" in evidence else _WAITS(evidence)


_WAITS = _share("stall", "of the step is spent waiting for batches")
_MODELLED = _share("more_workers", "of the step goes away with more of them, by the model")
_DISK = _share("sample_disk", "of a sample's time goes to the disk")
_COPIES = _share("copy", "of the step goes into copying batches to the device")
_CONTENDS = _share("contention", "of the step is lost to the loader's use of the processor")
_ENQUEUES = _share("enqueue", "of the step is what the host needs to queue its work")
_PRODUCTS = _kinds(("gemm", "conv", "attention"), "matrix products and convolutions")
_ATTENDS = _kinds(("attention",), "attention")
_CONVOLVES = _kinds(("conv", "norm"), "convolutions and norms")
_POINTWISE = _kinds(("norm", "pointwise", "memcpy", "other"), "what a compiler can fuse")
_TOO_SMALL = _share("small_kernels", "of the kernels' time cannot fill the device")
_UPDATES = _kinds(("optimizer",), "the optimizer's update")

_EXCHANGES = _share("exchange", "of the step goes into exchange between GPUs")
_SLOWED = _share("exchange_contention", "of the step is computation that exchange beside it slows")

MOVES: tuple[tuple[str, str, tuple[Why, ...]], ...] = (
    ("workers", MORE, (_lacks,)),
    ("pinning", "on", (_COPIES,)),
    ("prefetch", "on", (_COPIES,)),
    ("decode", "cache", (_DISK, _WAITS, _COPIES, _CONTENDS)),
    ("decode", "gpu", (_WAITS, _CONTENDS)),
    ("decode", "cpu-uint8", (_COPIES, _CONTENDS)),
    ("prefetch_factor", "4", (_WAITS,)),
    ("workers", FEWER, (_crowds,)),
    ("precision", "bf16", (_PRODUCTS, _device)),
    ("precision", "tf32", (_PRODUCTS, _device)),
    ("precision", "fp8", (_PRODUCTS,)),
    ("layout", "channels_last", (_CONVOLVES, _device)),
    ("graphs", "on", (_queues,)),
    ("compile", "default", (_POINTWISE, _TOO_SMALL, _queues, _device)),
    ("compile", "reduce-overhead", (_queues,)),
    ("compile", "max-autotune", (_PRODUCTS, _POINTWISE)),
    ("optimizer", "fused", (_UPDATES, _queues, _device)),
    ("attention", "flash", (_ATTENDS,)),
    ("attention", "cudnn", (_ATTENDS,)),
    ("attention", "efficient", (_ATTENDS,)),
    ("overlap", "on", (_EXCHANGES,)),
    ("bucket_mb", "100", (_EXCHANGES,)),
    ("bucket_mb", "5", (_EXCHANGES,)),
    ("reshard", "off", (_EXCHANGES,)),
    ("microbatches", "8", (_EXCHANGES,)),
    ("microbatches", "16", (_EXCHANGES,)),
    ("overlap", "off", (_SLOWED,)),
)
"""Every move that there is and the reasons that it may have. The batch is none: another batch
trains differently."""
INPUT = ("workers", "pinning", "prefetch", "decode", "prefetch_factor")
"""Axes of the loader."""
LIFTS: Mapping[Bottleneck, tuple[str, ...]] = {
    Bottleneck.INPUT: INPUT,
    Bottleneck.OVERHEAD: ("graphs", "compile", "optimizer"),
    Bottleneck.COMPUTE: ("precision", "layout", "attention", "compile", "optimizer"),
    Bottleneck.MEMORY: ("precision", "layout", "compile", "attention", "optimizer"),
    Bottleneck.MIXED: ("precision", "layout", "compile", "attention", "optimizer", "graphs"),
    Bottleneck.COMMUNICATION: ("bucket_mb", "reshard", "microbatches", "overlap"),
    Bottleneck.LATENCY: ("compile", "graphs", "optimizer", "attention"),
    Bottleneck.DEVICE: ("precision", "layout", "compile", "attention", "optimizer"),
}
"""The axes that can lift each limit, the most promising first."""
