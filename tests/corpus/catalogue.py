"""Every case that is a request to the application; those of HTTP's framing are in `framing`."""

from __future__ import annotations

from functools import cache

from corpus import address, meaning, numbers, results, structure, syntax, text, traces
from corpus.case import Case

MODULES = {
    "syntax": syntax,
    "text": text,
    "numbers": numbers,
    "structure": structure,
    "meaning": meaning,
    "address": address,
    "results": results,
    "traces": traces,
}
"""By family, what makes its cases: seconds of work, so not as tests are collected."""


@cache
def families() -> dict[str, tuple[Case, ...]]:
    """The cases by family, each request once, in an order that never changes."""
    seen: set[object] = set()
    found: dict[str, tuple[Case, ...]] = {}
    for name, module in MODULES.items():
        listed = {case.request: case for case in reversed(list(module.cases()))}
        found[name] = tuple(case for case in reversed(listed.values()) if case.request not in seen)
        seen.update(listed)
    return found
