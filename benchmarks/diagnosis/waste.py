"""Suggests what the measured code can leave out of a step: copies, rare waits, compiling. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from benchmarks.contracts import Compilation, NeedlessCopy, Replicate, Synchronization
from benchmarks.diagnosis.bottleneck import Evidence

LEAST = 0.01
"""Share of the step from which something is worth leaving out."""
_REMEDIES: Mapping[str, str] = {
    "clone": "Use the value itself",
    "contiguous": "Leave out .contiguous()",
    "layout": "Make it in the order that the next operation needs, where that is possible",
    "round_trip": "Leave out both",
    "memory_format": "Keep one memory format from operation to operation",
}
_Weighed = tuple[float, str]
"""A share of the step, and the sentence on it."""


def sentences(replicates: Sequence[Replicate], evidence: Evidence) -> list[str]:
    """Return one sentence for each waste that is worth leaving out, the largest first.

    Rare waits and compiling make the noise of the passes; copies have to cost more than it.
    """
    weighed = [*_compiling(replicates, evidence.get("compiling", 0.0))]
    profiled = next((one for one in replicates if one.profile is not None), None)
    if profiled is not None and profiled.profile is not None:
        step_s = profiled.synth.wall_s / profiled.synth.steps
        noise = evidence.get("noise", 0.0)
        weighed += [one for one in _copies(profiled.profile.copies, step_s) if one[0] > noise]
        weighed += _rare_waits(profiled.profile.synchronizations, step_s)
    return [sentence for share, sentence in sorted(weighed, reverse=True) if share >= LEAST]


def _copies(copies: Sequence[NeedlessCopy], step_s: float) -> Iterator[_Weighed]:
    for copy in copies:
        often = "once" if copy.calls == 1 else f"{copy.calls:,} times"
        takes = f"{_milliseconds(copy.self_s)} of the device, {copy.self_s / step_s:.1%} of a step"
        remedy, what = _REMEDIES[copy.kind], copy.what[:200]
        yield (
            copy.self_s / step_s,
            f"{remedy}: {copy.source[:150]} copies {often} a step ({what}), which takes {takes}.",
        )


def _rare_waits(waits: Sequence[Synchronization], step_s: float) -> Iterator[_Weighed]:
    for wait in waits:
        if wait.every > 1 and wait.cost_s is not None:
            cost = _cost(wait.cost_s, step_s)
            yield (
                wait.cost_s / step_s,
                f"Log less often, or tensors that are read later: {wait.source[:150]} makes the "
                f"host wait every {wait.every} steps ({wait.what[:100]}), which with what belongs "
                f"to it {cost}.",
            )


def _compiling(replicates: Sequence[Replicate], share: float) -> Iterator[_Weighed]:
    if not LEAST <= share < 1.0:
        return
    passes = [timed for replicate in replicates for timed in (replicate.full, replicate.synth)]
    seconds = max((timed.compile_s or 0.0) / timed.steps for timed in passes)
    again = _most_frequent(replicates[0].compilation)
    yield (
        share,
        f"Keep fixed what the compiler guards, or compile with dynamic=True: {again}compiling "
        f"takes {_milliseconds(seconds)} of each step; without it up to x{1 / (1 - share):.2f}.",
    )


def _most_frequent(compiled: Compilation | None) -> str:
    if compiled is None or not compiled.recompiles:
        return ""
    guard = max(compiled.recompiles, key=compiled.recompiles.__getitem__)
    times = sum(compiled.recompiles.values())
    return f"it compiled anew {times:,} times, as for {' '.join(guard.split())[:250]}; "


def breaks(replicates: Sequence[Replicate]) -> list[str]:
    """Return a sentence on the most frequent graph break of the first process, if it had one."""
    compiled = replicates[0].compilation
    if compiled is None or not compiled.breaks:
        return []
    reason = max(compiled.breaks, key=compiled.breaks.__getitem__)
    return [
        f"Let the compiler see the step whole: it broke it {sum(compiled.breaks.values()):,} "
        f"times, most often because of: {reason[:300]}. {_cost_of_breaks(replicates)}"
    ]


def _cost_of_breaks(replicates: Sequence[Replicate]) -> str:
    profiles = (one.profile for one in replicates if one.profile is not None)
    known = next((one for one in profiles if one.uncaptured_idle_s is not None), None)
    if known is None or known.uncaptured_idle_s is None or not known.step_s:
        return "What that costs is not known."
    idle, eager = known.uncaptured_idle_s, known.uncaptured_s
    return (
        f"Outside of its graphs the device works {_milliseconds(eager)} of each step "
        f"({eager / known.step_s:.1%}), eagerly, and waits {_milliseconds(idle)} "
        f"({idle / known.step_s:.1%}) for the host."
    )


def _cost(seconds: float, step_s: float) -> str:
    return f"costs {_milliseconds(seconds)} of each step, {seconds / step_s:.1%} of it"


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"
