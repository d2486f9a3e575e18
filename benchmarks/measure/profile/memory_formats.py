"""Finds copies that operators make because their input lies in another memory format. Pure.

cuDNN's convolutions take channels_last and group norm does not: between them each passes a copy of
its input on, which no line asks for and which the dispatcher does not see.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

from benchmarks.contracts import NeedlessCopy
from benchmarks.measure.profile.origins import Call
from benchmarks.measure.profile.timeline import DeviceSpan

_ASKED = "aten::contiguous"
_BACKWARD = re.compile(r"\w+Backward\d+")
"""Autograd numbers the nodes of its own operators, and those of a custom function not."""


def copies(
    calls: Mapping[int, Call], work: Mapping[int, Sequence[DeviceSpan]]
) -> list[NeedlessCopy]:
    """Return these copies by the operator that makes them.

    ``work`` is `origins.by_call` of the trace of ``calls``.
    """
    seconds: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    count: dict[str, int] = defaultdict(int)
    for number, items in work.items():
        for item in items:
            if operator := _copying(item.stack):
                seconds[operator][calls[number].line] += item.self_s
                count[operator] += item.op == "aten::copy_"
    return [_copy(name, count[name], lines) for name, lines in seconds.items()]


def _copying(stack: Sequence[str]) -> str:
    """The operator that asked for a copy into another format; empty if none did."""
    called = [name for name in stack if not name.startswith("throughline.")]
    if _ASKED not in called[1:]:
        return ""
    caller = called[called.index(_ASKED, 1) - 1]
    node = _BACKWARD.search(caller)
    return (
        node[0] if node else caller.removeprefix("aten::").lstrip("_") if "aten::" in caller else ""
    )


def _copy(operator: str, calls: int, lines: Mapping[str, float]) -> NeedlessCopy:
    source = max(lines, key=lambda line: lines[line])
    also = f", at {len(lines)} lines" if len(lines) > 1 else ""
    return NeedlessCopy(
        kind="memory_format",
        what=f"{operator} needs its input in another memory format{also}",
        source=source,
        calls=calls,
        self_s=sum(lines.values()),
    )
