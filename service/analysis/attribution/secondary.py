"""Finds what goes along with a cause and is worth a clause of its own, at most two."""

from __future__ import annotations

from collections.abc import Sequence

from service.analysis.attribution.types import Cause, Evidence, Part, State
from service.analysis.statement import Statement

MOST = 2
_FIRST = (
    (Part.PARITY, ""),
    (Part.COMPILE, "graph"),
    (Part.COMPILE, "recompil"),
    (Part.INPUT, "full.stall_s"),
    (Part.INPUT, ""),
    (Part.PHASES, "bottleneck"),
    (Part.CLOCKS, "reason.hw"),
    (Part.CLOCKS, "reason.sw_thermal"),
    (Part.CLOCKS, "sm_clock"),
    (Part.PHASES, "forward"),
    (Part.PHASES, "backward"),
    (Part.PHASES, "optimizer"),
    (Part.PHASES, "full.work_s"),
    (Part.PHASES, "peak_memory"),
    (Part.CLOCKS, "reason."),
    (Part.COMPILE, ""),
)
"""What changed, by its part and a word of its name: a wrong result first, then what explains most.
Other quantities stay in the evidence."""
_REASSURING = ("sm_clock", "synth.sm_clock_hz", "full.work_s", "full.stall_s")
"""What a reader asks about when it did not change."""


def beside(cause: Cause, quantities: Sequence[Evidence]) -> list[Statement]:
    """Clauses for what changed as well, one of a part; then for what did not."""
    first: dict[Part, Statement] = {}
    carrying = "_clock" if cause is Cause.CLOCKS else None
    changed = [
        evidence
        for evidence in quantities
        if evidence.state is State.CHANGED and not (carrying and carrying in evidence.name)
    ]
    for part, word in _FIRST:
        for evidence in changed:
            if evidence.part is part and word in evidence.name:
                first.setdefault(part, evidence.says)
    same = {
        evidence.name: evidence.says for evidence in quantities if evidence.state is State.UNCHANGED
    }
    clauses = [*first.values(), *(same[name] for name in _REASSURING if name in same)]
    return clauses[:MOST]
