"""Reads what the compiler counted in this process."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any

from benchmarks.contracts import Compilation

MOST_REASONS = 100
"""As many as a result keeps; the most frequent."""


def graphs() -> int:
    """Graphs that the compiler has made; 0 while nothing was compiled."""
    compiler = _compiler()
    return int(compiler.counters["stats"]["unique_graphs"]) if compiler else 0


def graphs_skipped() -> int:
    """Compiled graphs that were to become CUDA graphs and did not; the compiler only logs it."""
    compiler = _compiler()
    return int(compiler.counters["inductor"]["cudagraph_skips"]) if compiler else 0


def spent_s() -> float:
    """Seconds that the compiler has worked; 0 while nothing was compiled."""
    compiler = _compiler()
    return float(compiler.calculate_time_spent().get("total_wall_time", 0.0)) if compiler else 0.0


def read() -> Compilation | None:
    """Return the compiler's counters so far; None if nothing was compiled."""
    compiler, made = _compiler(), graphs()
    if compiler is None or not made:
        return None
    return Compilation(
        graphs=made,
        breaks=_counted(compiler.counters["graph_break"]),
        recompiles=_counted(_again(compiler.get_compilation_metrics())),
    )


def _compiler() -> ModuleType | None:
    return sys.modules.get("torch._dynamo.utils")


def _counted(reasons: Mapping[str, int]) -> dict[str, int]:
    counted: Counter[str] = Counter()
    for reason, times in reasons.items():
        first = next((line for line in reason.splitlines() if line.strip()), "no reason given")
        counted["".join(c if c.isprintable() else " " for c in first.strip())[:500]] += times
    return dict(counted.most_common(MOST_REASONS))


def _again(metrics: Iterable[Any]) -> Counter[str]:
    """Reasons of the compilations that were not the first of their frame."""
    first = "0"  # a compile id reads frame/times that this frame was compiled before
    reasons: Counter[str] = Counter()
    for metric in metrics:
        place = str(metric.compile_id or f"0/{first}").rpartition("/")[2]
        if place.partition("_")[0] != first:
            reason = str(metric.recompile_reason or "no reason given")
            reasons[reason.partition(": ")[2] or reason] += 1
    return reasons
