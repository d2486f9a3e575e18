"""A timeline read into figures per step: busy, idle, kinds, operations and their lines. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from benchmarks.contracts import Operation, Profile
from benchmarks.measure.profile.timeline import DeviceSpan, Span, Timeline

GAP_S = 30e-6
"""Longest pause that a device needs from one kernel to the next (HTA's rule)."""
TOP = 12
"""Operations that are told by name and line."""
SMALL_S = 5e-6
"""A shorter kernel mostly starts and ends: an empty one takes some 2 us."""
AT = "throughline.at "
"""Prefix of the annotation that `observation` puts around each operation; its line follows."""
COPY = "throughline.copy "
"""Prefix of the annotation around a copy; its number in the step follows."""

Places = Mapping[str, Mapping[str, tuple[float, int]]]
"""For each operation: seconds and calls by the line that asked for it."""


class Unreadable(ValueError):
    """A trace without usable steps; the message says why in one sentence."""


def read(timeline: Timeline, places: Places | None = None) -> Profile:
    """Return the profile of a timeline in steady state, per step.

    The window goes from the first kernel of the first step to the first kernel of the last one:
    whole periods, however far the host was ahead. ``places`` is `located` of another trace.
    """
    window, periods = _window(timeline)
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
        operations=_operations(work, periods, places or {}),
    )


def _window(timeline: Timeline) -> tuple[Span, int]:
    """The span that is read, and how many whole steps it holds."""
    if not timeline.steps:
        raise Unreadable("The profiler recorded no step.")
    if not timeline.work:
        raise Unreadable("The profiler recorded no work of the device.")
    starts = (_first(timeline, step) for step in timeline.steps)
    firsts = [start for start in starts if start is not None]
    if len(firsts) < len(timeline.steps):
        raise Unreadable("The trace does not tell which step its kernels belong to.")
    if len(firsts) > 1:
        return (firsts[0], firsts[-1]), len(firsts) - 1
    return (timeline.work[0].start_s, max(item.end_s for item in timeline.work)), 1


def _first(timeline: Timeline, step: Span) -> float | None:
    """Start of the first work that was queued within ``step``."""
    started = (
        item.start_s
        for item in timeline.work
        if step[0] <= (item.start_s if item.queued_s is None else item.queued_s) < step[1]
        and (item.queued_s is not None or not timeline.on_gpu)
    )
    return min(started, default=None)


def _launches(timeline: Timeline) -> int:
    first, last = timeline.steps[0][0], timeline.steps[-1][0]
    if len(timeline.steps) == 1:
        last = timeline.steps[0][1]
    return bisect_left(timeline.launches, last) - bisect_left(timeline.launches, first)


def _small_s(work: Sequence[DeviceSpan], periods: int) -> float | None:
    """Seconds per step in kernels that cannot fill the device; None where no size is known."""
    sized = [(item, item.blocks_per_sm) for item in work if item.blocks_per_sm is not None]
    small = (item.self_s for item, blocks in sized if blocks < 1 or item.self_s < SMALL_S)
    return sum(small) / periods if sized else None


def _cut(work: Iterable[DeviceSpan], window: Span) -> list[Span]:
    return [(max(w.start_s, window[0]), min(w.end_s, window[1])) for w in work]


def union(spans: Iterable[Span]) -> list[Span]:
    """The spans joined where they overlap or touch, in order."""
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((start, end))
    return joined


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


def _operations(work: Sequence[DeviceSpan], periods: int, places: Places) -> tuple[Operation, ...]:
    """The most expensive operations, each split over the lines that asked for it."""
    seconds: dict[str, float] = defaultdict(float)
    calls: Counter[str] = Counter()
    kinds: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for item in work:
        name = item.op or item.name
        seconds[name] += item.self_s
        calls[name] += 1
        kinds[name][item.kind] += item.self_s
    operations: list[Operation] = []
    for name, total in seconds.items():
        operations += [
            Operation(
                name=_printable(name),
                kind=max(kinds[name], key=kinds[name].__getitem__),
                self_s=total * part / periods,
                calls=calls[name] * often / periods,
                source=source,
            )
            for source, (part, often) in _shares(places.get(name, {})).items()
        ]
    return tuple(sorted(operations, key=lambda operation: -operation.self_s)[:TOP])


def _printable(name: str) -> str:
    return "".join(c if c.isprintable() else " " for c in name)[:300]


def _shares(by_source: Mapping[str, tuple[float, int]]) -> dict[str, tuple[float, float]]:
    seconds = sum(part for part, _ in by_source.values())
    calls = sum(often for _, often in by_source.values())
    if seconds <= 0:
        return {"": (1.0, 1.0)}
    return {s: (part / seconds, often / calls) for s, (part, often) in by_source.items()}


def located(timeline: Timeline) -> dict[str, dict[str, tuple[float, int]]]:
    """Return seconds and calls of each operation of an annotated step, by the calling line."""
    places: dict[str, dict[str, tuple[float, int]]] = defaultdict(dict)
    for item in timeline.work:
        line = next((e[len(AT) :] for e in reversed(item.stack) if e.startswith(AT)), None)
        if line is not None:
            lines = places[item.op or item.name]
            seconds, calls = lines.get(line, (0.0, 0))
            lines[line] = seconds + item.self_s, calls + 1
    return dict(places)


def copying_s(timeline: Timeline) -> dict[int, float]:
    """Return the seconds of each copy of an annotated step, by its number."""
    seconds: dict[int, float] = defaultdict(float)
    for item in timeline.work:
        number = next((e[len(COPY) :] for e in item.stack if e.startswith(COPY)), None)
        if number is not None:
            seconds[int(number)] += item.self_s
    return dict(seconds)
