"""The least time of a step by the achievable rates of its device. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from benchmarks.contracts import Demand, Operation


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


@dataclass(frozen=True)
class RooflinePlace:
    """The place of one operation on the roofline."""

    intensity: float
    """FLOP for each byte that it has to move."""
    flop_per_s: float
    moved_b_per_s: float
    bound: Literal["compute", "memory"] | None
    """The rate that takes the longer of its two times; None without ceilings."""
    of_roof: float | None
    """Its least time by these ceilings over the time that it took."""


def placed(operation: Operation, ceilings: Ceilings | None) -> RooflinePlace | None:
    """The place of ``operation`` on the roofline; None where its demands are not known."""
    flops, moved_b, seconds = operation.flops, operation.moved_b, operation.self_s
    if flops is None or not moved_b or seconds <= 0:
        return None
    bound: Literal["compute", "memory"] | None = None
    of_roof = None
    peak = ceilings.flop_per_s.get(operation.arithmetic or "") if ceilings else None
    if ceilings and (peak or flops == 0):
        compute_s = flops / peak if peak else 0.0
        memory_s = moved_b / ceilings.bandwidth_b_per_s
        bound = "compute" if compute_s > memory_s else "memory"
        of_roof = max(compute_s, memory_s) / seconds
    return RooflinePlace(flops / moved_b, flops / seconds, moved_b / seconds, bound, of_roof)
