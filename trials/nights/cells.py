"""The cells of the simulated matrix, and those that the sentence of a finding names. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from benchmarks.catalog import catalog
from benchmarks.catalog.suites import suite
from benchmarks.contracts import Case
from trials.nights.events import GPUS

Cells = Mapping[tuple[str, str], int]
"""Number of each case on each kind of hardware."""
WHOLE = re.compile(
    r"(?:.+ of )?(?P<subject>.+?)(?: without input)? is [\d.]+\s.*: all \d+ cases(?! and)"
)
"""A sentence that names all cases of a factor, and no others."""


def cases_of(count: int) -> list[Case]:
    """So many cases of the suite ``nightly``, spread over it."""
    every = suite("nightly").cases
    chosen = [every[place * len(every) // count] for place in range(count)]
    return [catalog.normalise(case, "cuda") for case in chosen]


def numbered(cases: Sequence[Case]) -> Cells:
    """Each case on each kind of hardware, by key and hardware."""
    cells = [(case.key, gpu) for case in cases for gpu in sorted(GPUS)]
    return {cell: place for place, cell in enumerate(cells)}


def named(sentence: str, cases: Sequence[Case]) -> frozenset[int]:
    """The cells of a factor all of whose cases a sentence says have moved, measured yet or not.

    Empty if it says that some did not, or that others did too, or names a single case.
    """
    found = WHOLE.match(sentence)
    if found is None or ":" in found["subject"]:
        return frozenset()
    factor, _, place = found["subject"].partition(" on ")
    factor, _, settings = factor.partition(" with ")
    *adjectives, workload = factor.split()
    conditions = [*adjectives, *filter(None, re.split(", | and ", settings))]
    chosen = {
        case.key
        for case in cases
        if workload in ("training", case.workload)
        and all(_holds(condition, case) for condition in conditions)
    }
    cells = numbered(cases).items()
    return frozenset(at for (key, gpu), at in cells if key in chosen and gpu.endswith(place))


def _holds(condition: str, case: Case) -> bool:
    """Say if a case has ``bf16``, ``compiled``, ``default decode``, ``graphs set``, ``gc=on``."""
    words = {"compiled": "compile set", "uncompiled": "default compile"}
    match words.get(condition, condition).split():
        case ["default", axis]:
            return axis not in case.axes
        case [axis, "set"]:
            return axis in case.axes
    axis, _, value = condition.rpartition("=")
    return case.axes.get(axis or "precision") == value
