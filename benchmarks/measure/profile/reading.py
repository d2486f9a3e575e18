"""A timeline read into figures per step: busy, idle, kinds, operations and their lines. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from benchmarks.contracts import KernelTime, Operation, Profile
from benchmarks.contracts.profile import MOST_KERNEL_TIMES
from benchmarks.measure.profile.generated import Traffic
from benchmarks.measure.profile.origins import Origins
from benchmarks.measure.profile.timeline import DeviceSpan, Span, Timeline, union

GAP_S = 30e-6
"""Longest pause that a device needs from one kernel to the next (HTA's rule)."""
TOP = 12
"""Operations that are told by name and line."""
SMALL_S = 5e-6
"""A shorter kernel mostly starts and ends: an empty one takes some 2 us."""
SAME_CALLS = 0.01
"""An operation whose calls differ more from those of the eager step may do other work."""


class Unreadable(ValueError):
    """A trace without usable steps; the message says why in one sentence."""


def read(
    timeline: Timeline,
    origins: Origins | None = None,
    generated: Mapping[str, Traffic] = MappingProxyType({}),
) -> Profile:
    """Return the profile of a timeline in steady state, per step.

    The window goes from the first kernel of the first step to the first kernel of the last one:
    whole periods, however far the host was ahead. ``origins`` are of an eager step; ``generated``
    is the traffic of one call of each kernel that a compiler wrote.
    """
    starts, end = window_of(timeline)
    window, periods = (starts[0], end), len(starts)
    work = [item for item in timeline.work if window[0] <= item.start_s < window[1]]
    busy = union(_cut(work, window))
    silent = union(_cut((w for w in work if w.kind != "communication"), window))
    kinds: dict[str, float] = defaultdict(float)
    for item in work:
        kinds[item.kind] += item.self_s
    return Profile(
        steps=len(timeline.steps),
        step_s=(window[1] - window[0]) / periods,
        busy_s=length(busy) / periods,
        kernels=len(work) / periods,
        launches=_launches(timeline) / periods,
        seconds={kind: seconds / periods for kind, seconds in sorted(kinds.items())},
        small_s=_small_s(work, periods),
        idle_s={cause: s / periods for cause, s in _idle(work, window, timeline.on_gpu).items()},
        exposed_communication_s=max(0.0, length(busy) - length(silent)) / periods,
        operations=_operations(work, periods, origins or Origins(), generated),
        **_uncaptured(timeline, busy, window),
        uncaptured_s=sum(item.self_s for item in work if item.uncaptured) / periods,
        kernel_times=_kernel_times(work, starts),
    )


def window_of(timeline: Timeline) -> tuple[list[float], float]:
    """Return the start of each whole step of the span that is read, and the end of that span.

    Raises:
        Unreadable: the trace has no usable steps.
    """
    if not timeline.steps:
        raise Unreadable("The profiler recorded no step.")
    if not timeline.work:
        raise Unreadable("The profiler recorded no work of the device.")
    starts = (_first(timeline, step) for step in timeline.steps)
    firsts = [start for start in starts if start is not None]
    if len(firsts) < len(timeline.steps):
        raise Unreadable("The trace does not tell which step its kernels belong to.")
    if len(firsts) > 1:
        return firsts[:-1], firsts[-1]
    return [timeline.work[0].start_s], max(item.end_s for item in timeline.work)


def _first(timeline: Timeline, step: Span) -> float | None:
    """Start of the first work that was queued within ``step``."""
    started = (
        item.start_s
        for item in timeline.work
        if step[0] <= (item.start_s if item.queued_s is None else item.queued_s) < step[1]
        and (item.queued_s is not None or not timeline.on_gpu)
    )
    return min(started, default=None)


def _host_window(timeline: Timeline) -> Span:
    """The whole steps of the host: until the last one begins, or a single one ends."""
    first, *others = timeline.steps
    return first[0], others[-1][0] if others else first[1]


def _launches(timeline: Timeline) -> int:
    first, last = _host_window(timeline)
    return bisect_left(timeline.launches, last) - bisect_left(timeline.launches, first)


def _small_s(work: Sequence[DeviceSpan], periods: int) -> float | None:
    """Seconds per step in kernels that cannot fill the device; None where no size is known."""
    sized = [(item, item.blocks_per_sm) for item in work if item.blocks_per_sm is not None]
    small = (item.self_s for item, blocks in sized if blocks < 1 or item.self_s < SMALL_S)
    return sum(small) / periods if sized else None


def _cut(work: Iterable[DeviceSpan], window: Span) -> list[Span]:
    return [(max(w.start_s, window[0]), min(w.end_s, window[1])) for w in work]


def length(spans: Iterable[Span]) -> float:
    """Sum of the spans' lengths."""
    return sum(end - start for start, end in spans)


def _idle(work: Sequence[DeviceSpan], window: Span, on_gpu: bool) -> dict[str, float]:
    """Idle seconds of the window by cause, by the rule of Holistic Trace Analysis.

    A kernel launched only after the device had finished waited for the host. A short pause is the
    device's own. The rest has another cause, such as one stream waiting for another. Between the
    operators of a CPU there is only the host.
    """
    idle = {"host_wait": 0.0, "kernel_gap": 0.0, "other": 0.0}
    until_s = window[0]
    for item in work:
        gap = item.start_s - until_s
        if gap > 0:
            late = not on_gpu or (item.queued_s is not None and item.queued_s > until_s)
            idle["host_wait" if late else "kernel_gap" if gap < GAP_S else "other"] += gap
        until_s = max(until_s, item.end_s)
    if window[1] > until_s:  # before the next step's first kernel, whose launch is its own
        late = not on_gpu or idle["host_wait"] >= idle["kernel_gap"] + idle["other"]
        idle["host_wait" if late else "other"] += window[1] - until_s
    return idle


def _uncaptured(timeline: Timeline, busy: Sequence[Span], window: Span) -> dict[str, float]:
    """Seconds per step of the host in compiled frames and outside of their graphs, and the part of
    them in which the device idles."""
    first, last = _host_window(timeline)
    spans = [span for span in timeline.uncaptured if first <= span[0] < last]
    if not spans:
        return {}
    periods = max(1, len(timeline.steps) - 1)
    edges = [window[0], *(edge for span in busy for edge in span), window[1]]
    idle = list(zip(edges[::2], edges[1::2], strict=True))
    shared = (_overlap(span, gap) for span in spans for gap in idle)
    return {
        "uncaptured_host_s": length(spans) / periods,
        "uncaptured_idle_s": sum(shared) / periods,
    }


def _overlap(one: Span, other: Span) -> float:
    return max(0.0, min(one[1], other[1]) - max(one[0], other[0]))


def _operations(
    work: Sequence[DeviceSpan],
    periods: int,
    origins: Origins,
    generated: Mapping[str, Traffic],
) -> tuple[Operation, ...]:
    """The most expensive operations, each split over the lines that asked for it."""
    spans: dict[str, list[DeviceSpan]] = defaultdict(list)
    for item in work:
        spans[item.op or item.name].append(item)
    operations = (
        operation
        for name, items in spans.items()
        for operation in _split(_whole(name, items, periods), name, origins)
    )
    operations = (_with_traffic(one, generated.get(one.name)) for one in operations)
    return tuple(sorted(operations, key=lambda operation: -operation.self_s)[:TOP])


def _whole(name: str, items: Sequence[DeviceSpan], periods: int) -> Operation:
    kinds: dict[str, float] = defaultdict(float)
    for item in items:
        kinds[item.kind] += item.self_s
    return Operation(
        name=_printable(name),
        kind=max(kinds, key=kinds.__getitem__),
        self_s=sum(item.self_s for item in items) / periods,
        calls=len(items) / periods,
        blocks_per_sm=_mean((item.blocks_per_sm, item.self_s) for item in items),
        occupancy=_mean((item.occupancy, item.self_s) for item in items),
    )


def _with_traffic(operation: Operation, traffic: Traffic | None) -> Operation:
    if traffic is None or operation.moved_b is not None:
        return operation
    moved_b = traffic.moved_b * operation.calls
    update = {"flops": 0.0, "moved_b": moved_b, "arithmetic": traffic.arithmetic}
    return operation.model_copy(update=update)


def _mean(weighted: Iterable[tuple[float | None, float]]) -> float | None:
    known = [(value, weight) for value, weight in weighted if value is not None]
    total = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / total if total > 0 else None


def _split(whole: Operation, name: str, origins: Origins) -> Iterator[Operation]:
    """The parts of an operation by line; itself where no line is known."""
    parts = origins.parts.get(name, ())
    seconds, kernels = sum(part.self_s for part in parts), sum(part.kernels for part in parts)
    if seconds <= 0:
        source = origins.of_generated(name)
        found = {"source": source[:500], "found_by": "inductor"} if source else {}
        yield whole.model_copy(update=found)
        return
    same = abs(whole.calls - kernels) <= SAME_CALLS * kernels
    for part in parts:
        update: dict[str, Any] = {
            "self_s": whole.self_s * part.self_s / seconds,
            "calls": whole.calls * part.kernels / kernels,
            "source": part.line,
            "found_by": ("operator" if "::" in name else "kernel") if part.line else "",
        }
        if same and part.moved_b:
            update |= {"flops": part.flops, "moved_b": part.moved_b}
            update |= {"arithmetic": part.arithmetic}
        yield whole.model_copy(update=update)


def _kernel_times(work: Sequence[DeviceSpan], starts: Sequence[float]) -> tuple[KernelTime, ...]:
    """The most expensive kernels by name; ``starts`` are those of the steps."""
    seconds: dict[str, list[float]] = defaultdict(lambda: [0.0] * len(starts))
    calls: Counter[str] = Counter()
    for item in work:
        name = _printable(item.name)
        seconds[name][bisect_right(starts, item.start_s) - 1] += item.self_s
        calls[name] += 1
    times = (
        KernelTime(
            name=name,
            self_s=sum(of_steps) / len(starts),
            range_s=max(of_steps) - min(of_steps),
            calls=calls[name] / len(starts),
        )
        for name, of_steps in seconds.items()
    )
    return tuple(sorted(times, key=lambda time: -time.self_s)[:MOST_KERNEL_TIMES])


def _printable(name: str) -> str:
    return "".join(c if c.isprintable() else " " for c in name)[:300]
