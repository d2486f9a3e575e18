"""Reads the trace of a few annotated steps into the time of each module. Pure."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from benchmarks.contracts import Layer, Layers, line
from benchmarks.measure.profile import timeline
from benchmarks.measure.profile.reading import Unreadable
from benchmarks.measure.profile.timeline import DeviceSpan, Event

MODULE = "throughline.module "
"""Prefix of the annotation that `modules` puts around each call of a module; its name follows."""
_BACKWARD = "throughline.backward "
"""Prefix of the annotation that is added here around a backward operation; its module follows."""
_ENGINE = "autograd::engine::evaluate_function"
_LINK = "fwdbwd"
"""Category of the arrows that the profiler draws from an operation to its backward."""

Direction = Literal["forward", "backward"]
Place = tuple[str | None, Direction]
"""A module, None outside of all, and the direction."""


@dataclass(frozen=True)
class CountedModule:
    """A module without its time."""

    class_name: str
    calls: int
    flops: int
    kept_b: int
    weights_b: int


def read(
    events: Sequence[Event], modules: Mapping[str, CountedModule], of: Literal["step", "eager"]
) -> Layers:
    """Return the own time of each of ``modules``, by name, from the ``traceEvents`` of some steps.

    Work belongs to the innermost module around its launch. A backward operation belongs to the
    module of its forward.

    Raises:
        Unreadable: the trace holds no step, or no work in its steps.
    """
    traced = timeline.read([*events, *_backward_marks(events)])
    if not traced.steps:
        raise Unreadable("The profiler recorded no step.")
    seconds: dict[Place, list[float]] = defaultdict(lambda: [0.0] * len(traced.steps))
    for item in traced.work:
        at_s = item.start_s if item.queued_s is None else item.queued_s
        for number, (start_s, end_s) in enumerate(traced.steps):
            if start_s <= at_s < end_s:
                seconds[_place(item)][number] += item.self_s
    if not seconds:
        raise Unreadable("The profiler recorded no work of the device in its steps.")
    return _layers(seconds, modules, of, len(traced.steps))


def _layers(
    seconds: Mapping[Place, Sequence[float]],
    modules: Mapping[str, CountedModule],
    of: Literal["step", "eager"],
    steps: int,
) -> Layers:
    def median_s(name: str | None, direction: Direction) -> float:
        # A trace tells no less than a nanosecond; further digits only make the document longer.
        return round(statistics.median(seconds.get((name, direction), [0.0])), 9)

    return Layers(
        of=of,
        steps=steps,
        outside_s=median_s(None, "forward") + median_s(None, "backward"),
        noise=_noise(seconds.values()),
        modules=tuple(
            Layer(
                name=line(name),
                class_name=line(module.class_name),
                calls=float(module.calls),
                forward_s=median_s(name, "forward"),
                backward_s=median_s(name, "backward"),
                flops=float(module.flops),
                kept_b=module.kept_b,
                weights_b=module.weights_b,
            )
            for name, module in modules.items()
        ),
    )


def _noise(times: Iterable[Sequence[float]]) -> float:
    known = list(times)
    ranges, medians = (max(t) - min(t) for t in known), (statistics.median(t) for t in known)
    whole = sum(medians)
    return sum(ranges) / whole if whole else 0.0


def _place(item: DeviceSpan) -> Place:
    for entry in reversed(item.stack):
        for prefix in (MODULE, _BACKWARD):
            if entry.startswith(prefix):
                return entry[len(prefix) :], _direction(item)
    return None, _direction(item)


def _direction(item: DeviceSpan) -> Direction:
    """A forward that checkpointing computes again runs inside the backward, and counts there."""
    return "backward" if any(entry.startswith(_ENGINE) for entry in item.stack) else "forward"


def _backward_marks(events: Sequence[Event]) -> Iterator[Event]:
    """An annotation around each backward operation whose forward lies in a module.

    The profiler's arrows join the two, by autograd's sequence numbers. An arrow ends inside
    autograd's own span of the operation, which has the same sequence number.
    """
    forwards = dict(_forwards(events))
    of_link = {e["id"]: (e["tid"], e["ts"]) for e in events if _is_link(e, "f")}
    ends = {place: forwards[link] for link, place in of_link.items() if link in forwards}
    operations = [e for e in events if _sequence(e) is not None]
    names = {
        _sequence(e): ends[e["tid"], e["ts"]] for e in operations if (e["tid"], e["ts"]) in ends
    }
    for event in operations:
        if (name := names.get(_sequence(event))) is not None:
            yield {**event, "cat": "user_annotation", "name": _BACKWARD + name}


def _forwards(events: Iterable[Event]) -> Iterator[tuple[int, str]]:
    """Each arrow with the innermost module around its beginning."""
    starts = ({**e, "dur": 0.0, "name": e["id"]} for e in events if _is_link(e, "s"))
    ranges = (e for e in events if str(e.get("name")).startswith(MODULE) and "dur" in e)
    for thread in timeline.threads([*ranges, *starts]).values():
        for entry in timeline.nested(thread):
            if entry.event["cat"] == _LINK and entry.stack:
                yield entry.event["name"], entry.stack[-1][len(MODULE) :]


def _is_link(event: Event, end: Literal["s", "f"]) -> bool:
    return event.get("ph") == end and event.get("cat") == _LINK


def _sequence(event: Event) -> tuple[int, int] | None:
    """Thread and number of the forward of a backward operation; None of any other event."""
    args = event.get("args", {})
    thread = args.get("Fwd thread id", 0)
    return (thread, args["Sequence number"]) if thread and "Sequence number" in args else None
