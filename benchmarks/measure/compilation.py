"""Reads what the compiler counted in this process."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any

from benchmarks.contracts import Compilation
from benchmarks.measure.profile.observation import place_of

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
        breaks=_counted(_broken(compiler)),
        recompiles=_counted(_again(compiler.get_compilation_metrics())),
    )


def arguments() -> dict[str, tuple[str, ...]]:
    """Return the names of the arguments of each Triton kernel that Inductor wrote and loaded."""
    cache = getattr(sys.modules.get("torch._inductor.codecache"), "PyCodeCache", None)
    loaded = [item for module in getattr(cache, "modules", ()) for item in vars(module).items()]
    named = ((name, getattr(getattr(one, "fn", None), "arg_names", None)) for name, one in loaded)
    return {name: tuple(map(str, names)) for name, names in named if names}


def _compiler() -> ModuleType | None:
    return sys.modules.get("torch._dynamo.utils")


def _counted(reasons: Mapping[str, int]) -> dict[str, int]:
    counted: Counter[str] = Counter()
    for reason, times in reasons.items():
        counted[_first(reason)] += times
    return dict(counted.most_common(MOST_REASONS))


def _first(reason: str) -> str:
    """The first line of a reason, printable."""
    first = next((line for line in reason.splitlines() if line.strip()), "no reason given")
    return "".join(c if c.isprintable() else " " for c in first.strip())[:500]


def _broken(compiler: Any) -> Counter[str]:
    """Reasons of graph breaks, with their lines where the compiler kept them."""
    left = Counter(_counted(compiler.counters["graph_break"]))
    located: Counter[str] = Counter()
    for broken in getattr(compiler, "graph_break_reasons", ()):
        frames = (place_of(frame.filename, frame.lineno or 0) for frame in broken.user_stack[::-1])
        reason, line = _first(broken.reason), next(filter(None, frames), "")
        if left[reason] > 0 and line:
            left[reason] -= 1
            located[f"{reason[:250]} at {line}"] += 1
    return +left + located


def _again(metrics: Iterable[Any]) -> Counter[str]:
    """Reasons of the compilations that were not the first of their frame, with its line."""
    first = "0"  # a compile id reads frame/times that this frame was compiled before
    again: dict[str, Any] = {}
    for metric in metrics:
        compiled = str(metric.compile_id or f"0/{first}")
        if compiled.rpartition("/")[2].partition("_")[0] == first:
            continue
        # The backward pass is an event of the same id, and has no reason of its own.
        if compiled not in again or metric.recompile_reason:
            again[compiled] = metric
    return Counter(map(_reason, again.values()))


def _reason(metric: Any) -> str:
    reason = str(metric.recompile_reason or "no reason given")
    file = str(getattr(metric, "co_filename", None) or "")
    line = place_of(file, getattr(metric, "co_firstlineno", None) or 0)
    reason = _first(reason.partition(": ")[2] or reason)
    return f"{reason[:250]} at {line}" if line and line not in reason else reason
