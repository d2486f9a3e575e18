"""The compiler's counters in one process."""

from __future__ import annotations

from pydantic import Field

from benchmarks.contracts.values import Contract, Count, Line


class Compilation(Contract):
    """Deterministic counters of `torch.compile`: they tell a change of code from a busy host."""

    graphs: Count
    """Graphs that were captured; 1 where nothing broke."""
    breaks: dict[Line, Count] = Field(default_factory=dict, max_length=100)
    """Graph breaks by their reason."""
    recompiles: dict[Line, Count] = Field(default_factory=dict, max_length=100)
    """Frames compiled again, by the guard that failed."""
