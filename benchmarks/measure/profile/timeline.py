"""Reads a Chrome trace of `torch.profiler` into timed work and the operators that asked for it.
Pure.

Times are seconds from the first profiled step. On a GPU the work is its kernels and copies. A
correlation id joins each to its launch, and so to the operators open on that thread. On a CPU the
work is the operators themselves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.measure.profile.kinds import kind_of

STEP = "ProfilerStep#"
"""Prefix of the annotation that the profiler puts around each step."""
_COLLECTIVES = ("nccl", "gloo:")
"""Prefixes of NCCL's kernels and of gloo's annotations."""
_DEVICE = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
_RUNTIME = frozenset({"cuda_runtime", "cuda_driver"})
_HOST = frozenset({"cpu_op", "user_annotation"})
_GRAPH_LAUNCH = "GraphLaunch"
_FRAME = "Torch-Compiled Region"
"""Prefix of the span around a frame that `torch.compile` took over: its graphs, and whatever else
runs between them."""
_GRAPHS = ("CompiledFunction", "## Call CompiledFxGraph")
"""Prefixes of the spans around one of its graphs."""

Event = Mapping[str, Any]
Span = tuple[float, float]


@dataclass(frozen=True, slots=True)
class DeviceSpan:
    """One kernel or copy; on a CPU one operator."""

    name: str
    op: str
    """The innermost operator around it; empty where none was open."""
    stack: tuple[str, ...]
    """Operators and annotations around it, the outermost first."""
    start_s: float
    end_s: float
    self_s: float
    """Without what it called; a kernel calls nothing."""
    queued_s: float | None = None
    """When the host launched it; None where the trace does not tell."""
    blocks_per_sm: float | None = None
    """Blocks of a kernel's grid over the device's SMs; None for a copy and on a CPU."""
    occupancy: float | None = None
    """Share of an SM's warps that the profiler expects to be in use; None where it has no estimate,
    as of kernels with much shared memory."""

    @property
    def kind(self) -> str:
        """Its kind, as `kind_of` tells it."""
        return kind_of(self.name, self.stack)

    @property
    def uncaptured(self) -> bool:
        """Return True if it was launched in a compiled frame, between that frame's graphs."""
        graphs = any(name.startswith(_GRAPHS) for name in self.stack)
        return not graphs and any(name.startswith(_FRAME) for name in self.stack)


@dataclass(frozen=True, slots=True)
class Collective:
    """One collective of ranks, from where this one arrives to its end."""

    group: str
    """Its process group, by the name that all ranks have for it; gloo's tell none."""
    start_s: float
    end_s: float


@dataclass(frozen=True)
class Timeline:
    """The content of one trace."""

    steps: tuple[Span, ...]
    """Each profiled step on the host."""
    work: tuple[DeviceSpan, ...]
    """In order of start."""
    launches: tuple[float, ...]
    """When the host launched a kernel or a graph."""
    graphed: bool
    """Whether a CUDA graph was launched: then no kernel tells which operator it came from."""
    on_gpu: bool
    uncaptured: tuple[Span, ...] = ()
    """Spans of the host within a compiled frame and outside of its graphs."""
    collectives: tuple[Collective, ...] = ()
    """From the first step on, in order of start."""


@dataclass(slots=True)
class OpenSpan:
    """A span of the host, and the operators and annotations around it, the outermost first."""

    event: Event
    stack: tuple[str, ...]
    children_us: float = 0.0


def read(events: Iterable[Event]) -> Timeline:
    """Read the ``traceEvents`` of one trace; whatever is not understood is passed over."""
    spans = [e for e in events if e.get("ph") == "X" and "ts" in e and "dur" in e]
    host_spans = [e for e in spans if e.get("cat") in _HOST | _RUNTIME]
    steps = sorted(
        _span(e) for e in host_spans if e["cat"] == "user_annotation" and e["name"].startswith(STEP)
    )
    zero_us = steps[0][0] if steps else min((float(e["ts"]) for e in spans), default=0.0)
    opened = [entry for thread in threads(host_spans).values() for entry in nested(thread)]
    device = [e for e in spans if e.get("cat") in _DEVICE]
    work = _kernels(device, opened, zero_us) if device else _operators(opened, zero_us)
    calls = [e for e in host_spans if e["cat"] in _RUNTIME and "Launch" in e["name"]]
    return Timeline(
        steps=tuple((_s(start, zero_us), _s(end, zero_us)) for start, end in steps),
        work=tuple(sorted(work, key=lambda item: item.start_s)),
        launches=tuple(sorted(_s(float(e["ts"]), zero_us) for e in calls)),
        graphed=any(_GRAPH_LAUNCH in e["name"] for e in calls),
        on_gpu=bool(device),
        uncaptured=tuple((_s(a, zero_us), _s(b, zero_us)) for a, b in _uncaptured(host_spans)),
        collectives=tuple(sorted(_collectives(device or spans, zero_us), key=_start)),
    )


def _collectives(events: Iterable[Event], zero_us: float) -> Iterator[Collective]:
    """Yield NCCL's kernels, or the work of gloo's threads."""
    for event in events:
        start, end = (_s(at, zero_us) for at in _span(event))
        if start >= 0 and str(event["name"]).startswith(_COLLECTIVES):
            group = event.get("args", {}).get("Process Group Name", "")
            yield Collective(str(group), start, end)


def _start(collective: Collective) -> float:
    return collective.start_s


def _uncaptured(host_spans: Iterable[Event]) -> Iterator[Span]:
    for thread in threads(host_spans).values():
        frames = union(_span(e) for e in thread if e["name"].startswith(_FRAME))
        graphs = union(_span(e) for e in thread if e["name"].startswith(_GRAPHS))
        yield from (span for frame in frames for span in _without(frame, graphs))


def _without(span: Span, parts: Sequence[Span]) -> Iterator[Span]:
    """Yield the rests of ``span`` between ``parts``, which are in order and do not overlap."""
    start, end = span
    for part in parts:
        if start < part[0] < end:
            yield start, part[0]
        if part[0] < end:
            start = max(start, part[1])
    if start < end:
        yield start, end


def union(spans: Iterable[Span]) -> list[Span]:
    """The spans joined where they overlap or touch, in order."""
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((start, end))
    return joined


def _span(event: Event) -> Span:
    return float(event["ts"]), float(event["ts"]) + float(event["dur"])


def _s(at_us: float, zero_us: float) -> float:
    return (at_us - zero_us) / 1e6


def threads(events: Iterable[Event]) -> dict[tuple[Any, Any], list[Event]]:
    """Sort events by their process and thread."""
    sorted_: dict[tuple[Any, Any], list[Event]] = defaultdict(list)
    for event in events:
        sorted_[event.get("pid"), event.get("tid")].append(event)
    return sorted_


def nested(events: Sequence[Event]) -> Iterator[OpenSpan]:
    """Each event of one thread with the operators open around it; spans of a thread nest."""
    open_: list[OpenSpan] = []
    for event in sorted(events, key=lambda e: (float(e["ts"]), -float(e["dur"]))):
        start, end = _span(event)
        while open_ and _span(open_[-1].event)[1] <= start:
            yield open_.pop()
        around = (*open_[-1].stack, str(open_[-1].event["name"])) if open_ else ()
        caller = next((o for o in reversed(open_) if o.event["cat"] == "cpu_op"), None)
        if caller is not None and event["cat"] == "cpu_op":
            caller.children_us += end - start
        open_.append(OpenSpan(event, around))
    yield from reversed(open_)


def _kernels(
    device: Sequence[Event], opened: Sequence[OpenSpan], zero_us: float
) -> Iterator[DeviceSpan]:
    launched = {
        _correlation(entry.event): entry for entry in opened if entry.event["cat"] in _RUNTIME
    }
    for event in device:
        start, end = _span(event)
        entry = launched.get(_correlation(event))
        stack = entry.stack if entry else ()
        yield DeviceSpan(
            name=str(event["name"]),
            op=_innermost(stack),
            stack=stack,
            start_s=_s(start, zero_us),
            end_s=_s(end, zero_us),
            self_s=(end - start) / 1e6,
            queued_s=_s(float(entry.event["ts"]), zero_us) if entry else None,
            blocks_per_sm=_estimate(event, "blocks per SM"),
            occupancy=_estimate(event, "est. achieved occupancy %", 100),
        )


def _estimate(event: Event, name: str, scale: float = 1) -> float | None:
    # Zero or less says that it could not be estimated, such as with much shared memory.
    value = event.get("args", {}).get(name)
    return value / scale if value is not None and value > 0 else None


def _correlation(event: Event) -> Any:
    return event.get("args", {}).get("correlation")


def _innermost(stack: Sequence[str]) -> str:
    called = (name for name in reversed(stack) if "::" in name and " " not in name)
    return next(called, "")


def _operators(opened: Sequence[OpenSpan], zero_us: float) -> Iterator[DeviceSpan]:
    for entry in opened:
        name = str(entry.event["name"])
        if entry.event["cat"] != "cpu_op" or "::" not in name or " " in name:
            continue
        start, end = _span(entry.event)
        yield DeviceSpan(
            name=name,
            op=name,
            stack=entry.stack,
            start_s=_s(start, zero_us),
            end_s=_s(end, zero_us),
            self_s=max(0.0, end - start - entry.children_us) / 1e6,
        )
