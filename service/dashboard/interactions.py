"""Finds settings that act on each other: pairs of a suite's design, by newest values. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.catalog import catalog, suites
from benchmarks.catalog.factorial import Design
from service.analysis.factorial import estimate
from service.dashboard.cases import CaseGroup
from service.schemas.reports import Term


@dataclass(frozen=True, slots=True)
class Interaction:
    """Two settings together, over what both bring alone."""

    settings: tuple[str, str]
    """Such as ``precision=bf16``."""
    alone: tuple[float, float]
    """Throughput with each over without it, where the other is at its low level."""
    together: float
    """With both, over with neither."""
    term: Term
    """Whose ratio is ``together`` over what both bring alone, multiplied."""
    start: float
    end: float
    """Begin and end of its bar in thousandths of the width; 1x is in the middle."""
    low: float
    high: float
    """Those of its interval."""


@dataclass(frozen=True, slots=True)
class Designed:
    """A suite's design in one workload, as far as it has been measured."""

    suite: str
    runs: int
    missing: int
    interactions: tuple[Interaction, ...]
    """Empty as long as a run is missing; else what is sure first, then the largest."""
    limits: tuple[str, ...]
    """Pairs of settings that its runs cannot tell apart."""


def designed(group: CaseGroup) -> list[Designed]:
    """The designs of a group's workload of which at least one run was measured."""
    found = (
        _designed(name, design, group)
        for name, suite in sorted(suites.suites().items())
        for design in suite.designs
        if design.workload == group.workload
    )
    return [one for one in found if one.missing < one.runs]


def _designed(suite: str, design: Design, group: CaseGroup) -> Designed:
    rates = {
        row.series.case.model_copy(update={"preset": "auto"}).key: row.latest.value
        for row in group.rows
        if row.latest.value > 0
    }
    keys = {levels: catalog.normalise(design.case(levels)).key for levels in design.runs()}
    known = estimate(design, {at: rates[key] for at, key in keys.items() if key in rates})
    effects = {term.name: term.ratio for term in known.terms}
    pairs = [term for term in known.terms if " x " in term.name and term.low > 0]
    pairs.sort(key=lambda term: (not term.clear, -abs(math.log(term.ratio))))
    return Designed(
        suite, known.runs, len(known.missing), tuple(_drawn(pairs, effects, design)), known.limits
    )


def _drawn(
    pairs: Sequence[Term], effects: Mapping[str, float], design: Design
) -> Iterator[Interaction]:
    """Yield pairs with their bars, all on one logarithmic scale."""
    high = {factor.axis: factor.high for factor in design.factors}
    ends = [[math.log(end) for end in (term.ratio, term.low, term.high)] for term in pairs]
    most = max((abs(end) for three in ends for end in three), default=0.0) or 1.0
    for term, three in zip(pairs, ends, strict=True):
        one, other = term.name.split(" x ")
        # A main effect is the mean over both levels of the other setting.
        alone = effects[one] / math.sqrt(term.ratio), effects[other] / math.sqrt(term.ratio)
        at, *reach = (round(500 + 500 * end / most, 1) for end in three)
        yield Interaction(
            (f"{one}={high[one]}", f"{other}={high[other]}"),
            alone,
            alone[0] * alone[1] * term.ratio,
            term,
            *(min(at, 500.0), max(at, 500.0)),
            *reach,
        )
