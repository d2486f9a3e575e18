"""Joins the work of a step to the calls of one annotated eager step: lines, FLOPs, bytes. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.measure.profile.kinds import COPIES
from benchmarks.measure.profile.timeline import DeviceSpan, Timeline

AT = "throughline.at "
"""Prefix of the annotation that `observation` puts around each call; its number follows."""
MOST_LINES = 3
"""An operation that more lines ask for does not tell where a fused kernel comes from."""
_GENERATED = re.compile(r"(?:triton|cpp)_(?:[a-z]{2,4}_)?fused_(\w+?)(?:_\d+)?$")
"""Inductor names a kernel after the operations that it fuses, and numbers it."""
_BESIDE = COPIES | {"aten::fill_"}
"""Operators that another one calls to prepare its input or output."""


@dataclass(frozen=True)
class Call:
    """One operation that reached the dispatcher."""

    name: str
    """Such as ``aten.mm``."""
    line: str
    """The line of the workload that asked for it; empty if not known."""
    arithmetic: str = ""
    flops: float = 0.0
    moved_b: float = 0.0


@dataclass
class Origin:
    """The part of an operation, or of a kernel, that one line asked for in the eager step."""

    line: str
    self_s: float = 0.0
    kernels: int = 0
    flops: float = 0.0
    moved_b: float = 0.0
    arithmetic: str = ""

    def asked(self, call: Call) -> None:
        """Add the demands of one call."""
        self.flops += call.flops
        self.moved_b += call.moved_b
        self.arithmetic = self.arithmetic or call.arithmetic


@dataclass(frozen=True)
class Origins:
    """Lines, FLOPs and bytes of operators and kernels, from one eager step."""

    parts: Mapping[str, tuple[Origin, ...]] = field(default_factory=dict)
    """By operator, and by kernel."""
    lines: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Lines by the dispatcher's name of an operation, without ``aten.``."""

    def of_generated(self, kernel: str) -> str:
        """Return the lines behind a kernel that Inductor wrote; empty if its name tells none.

        The operation with the fewest lines tells them: most steps add at many places.
        """
        known = [self.lines[name] for name in fused(kernel, self.lines)]
        fewest = min((lines for lines in known if lines), key=len, default=())
        return ", ".join(fewest) if len(fewest) <= MOST_LINES else ""


def fused(kernel: str, known: Iterable[str]) -> tuple[str, ...]:
    """Return the ``known`` operations in Inductor's name of a kernel; none in another name."""
    generated = _GENERATED.match(kernel)
    if generated is None:
        return ()
    longest_first = sorted((name for name in known if name), key=len, reverse=True)
    pattern = "|".join(re.escape(name) for name in longest_first)
    found = re.finditer(f"(?:^|_)({pattern})(?=_|$)", generated[1]) if pattern else ()
    return tuple(dict.fromkeys(match[1] for match in found))


def by_call(timeline: Timeline) -> dict[int, list[DeviceSpan]]:
    """Return the work of each annotated call, by its number."""
    work: dict[int, list[DeviceSpan]] = defaultdict(list)
    for item in timeline.work:
        number = next((e[len(AT) :] for e in reversed(item.stack) if e.startswith(AT)), None)
        if number is not None:
            work[int(number)].append(item)
    return work


def joined(calls: Mapping[int, Call], work: Mapping[int, Sequence[DeviceSpan]]) -> Origins:
    """Return the origins of an eager step's operators and kernels.

    ``work`` is `by_call` of the step's trace. The demands of a call belong to its main operator and
    to the main kernel of that; whatever else it launched, such as a change of layout, has none.
    """
    parts: dict[str, dict[str, Origin]] = defaultdict(dict)
    for number, call in calls.items():
        items = work.get(number, ())
        for item in items:
            for name in {item.op or item.name, item.name}:
                part = parts[name].setdefault(call.line, Origin(call.line))
                part.self_s += item.self_s
                part.kernels += 1
        for name in _main(call, items):
            parts[name][call.line].asked(call)
    return Origins({name: tuple(by.values()) for name, by in parts.items()}, _lines(calls))


def _main(call: Call, items: Sequence[DeviceSpan]) -> set[str]:
    """The operator, and its kernel, that did most of a call's work."""
    own = [item for item in items if item.op not in _BESIDE] or list(items)
    if not own:
        return set()
    wanted = call.name.replace(".", "::", 1)
    most = max(own, key=lambda item: (item.op == wanted, item.self_s))
    return {most.op or most.name, most.name}


def _lines(calls: Mapping[int, Call]) -> dict[str, tuple[str, ...]]:
    lines: dict[str, dict[str, None]] = defaultdict(dict)
    for call in calls.values():
        if call.line:
            lines[call.name.partition(".")[2]][call.line] = None
    return {name: tuple(found) for name, found in lines.items()}
