"""The cells of the simulated matrix, and those that the sentence of a finding names. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from benchmarks.catalog import catalog
from benchmarks.catalog.suites import suite
from benchmarks.contracts import Case
from trials.nights.events import GPUS

Cells = Mapping[tuple[str, str], int]
"""Number of each case on each kind of hardware."""
WHOLE = re.compile(
    r"(?:.+ of )?(?P<subject>.+?) is [\d.]+\s.*: "
    r"(?:all \d+ cases(?! \()|\d+ of \d+ cases \(\d+ unclear\))(?! and)(?P<rest>.*)"
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


HEADLINE = re.compile(
    r"(?:.+ of )?(?:the )?(?P<subject>\S.*?) "
    r"(?:[\d.]+\s|runs out|fails|ends|crashes|times)"
)


def named_alone(headline: str, cases: Sequence[Case]) -> str:
    """Key of the only case that has all settings which a headline names; empty if several have."""
    found = HEADLINE.match(headline)
    if found is None or ":" in found["subject"]:
        return ""
    keys = {case.key for case in _chosen(found["subject"].partition(" on ")[0], cases)}
    return keys.pop() if len(keys) == 1 else ""


def named(sentence: str, cases: Sequence[Case]) -> frozenset[int]:
    """The cells of a factor all of whose cases a sentence says have moved, measured yet or not.

    Empty if it says that some did not, or that others did too, or names a single case.
    """
    found = WHOLE.match(sentence)
    if found is None or ":" in found["subject"]:
        return frozenset()
    factor, _, place = found["subject"].partition(" on ")
    chosen = {case.key for case in _chosen(factor, cases)}
    absent = re.search(r", not on ([^,.]+)", found["rest"])
    without = absent[1].split(" and ") if absent else []
    return frozenset(
        at
        for (key, gpu), at in numbered(cases).items()
        if key in chosen and place in gpu and not any(name in gpu for name in without)
    )


def _chosen(factor: str, cases: Sequence[Case]) -> Iterator[Case]:
    """Yield the cases of a subject such as ``compiled unet with workers=4``."""
    factor, _, settings = factor.partition(" with ")
    *adjectives, workload = factor.removesuffix(" case").split()
    conditions = [*adjectives, *filter(None, re.split(", | and ", settings))]
    for case in cases:
        if workload in ("training", case.workload) and all(_holds(c, case) for c in conditions):
            yield case


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
