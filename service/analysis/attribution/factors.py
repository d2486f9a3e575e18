"""Finds the shortest rule on axis values that tells the cases that moved together from the rest.

A rule is a conjunction of up to three conditions, each true of the case in question. Chosen is the
one with the shortest description: bits to name its conditions plus bits to name its exceptions. All
of them are tried, so the outcome depends on nothing but the cases.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

from service.analysis.attribution.types import Cell, Evidence, Moved, Question
from service.analysis.statement import Statement
from service.schemas.findings import Part, State, Strength


def headline(question: Question, rule: AxisRule | None) -> Statement:
    """``unet with compile=default is 3.1 % slower since r12``."""
    itself = Moved(question.cell, question.effect, question.effect_low, question.effect_high)
    others = (other for other in question.moved if other.cell != question.cell)
    same_way = (other for other in others if other.effect * question.effect > 0)
    moved = sorted((itself, *same_way), key=lambda one: abs(one.effect))
    middle = median(one.effect for one in moved)
    return Statement.of(
        "improvement" if question.improvement else "regression",
        cells=where(question, rule),
        metric=question.metric,
        unit=question.unit,
        least=moved[0].effect,
        middle=middle,
        most=moved[-1].effect,
        alike=sum(one.is_alike(middle) for one in moved) >= ALIKE * len(moved),
        first_bad=question.first_bad,
        author="" if question.gradual else question.author,
        title="" if question.gradual else question.title,
        gradual=question.gradual,
    )


ALIKE = 0.8
"""Share of the intervals of 95 % which hold one size, from which the sizes are told as one."""


def evidence(question: Question, rule: AxisRule | None) -> Evidence | None:
    """Return the evidence of the cells that moved together; None if no other cell is known."""
    moved, still = cells(question)
    if len(moved) + len(still) == 1:
        return None
    known = State.UNCLEAR if rule is None else State.CHANGED
    counts = {"moved": _count_cases(moved), "count": _count_cases((*moved, *still))}
    says = Statement.of("cells_moved", **counts, cells=where(question, rule))
    named = "" if rule is None else " and ".join(map(str, rule.conditions))
    return Evidence(Part.FACTORS, named or question.case.key, known, Strength.WEAK, says)


def not_told_apart(rule: AxisRule | None) -> tuple[Statement, ...]:
    """Other conditions that cover the same cells as the rule's."""
    if rule is None or len(rule.moved) < 2:
        return ()
    return tuple(Statement.of("same_cells", one=str(a), other=str(b)) for a, b in rule.alike)


def where(question: Question, rule: AxisRule | None) -> Statement:
    """Name the cells that moved, as briefly as is true, and count the cases that did not.

    A case counts once, and moved if it did on some hardware; ``partly`` did not on all of it.
    """
    moved, still = cells(question)
    conditions: tuple[Statement, ...] = ()
    covered: tuple[Cell, ...] = (question.cell,)
    inside = covered
    if rule is not None and len(moved) > 1:
        covered, inside = rule.covered, rule.moved
    if rule is not None and (len(moved) > 1 or _count_cases(rule.covered) == 1):
        conditions = tuple(_condition(one, rule) for one in rule.conditions)
    workloads = {cell.case.workload for cell in covered}
    hardware = {cell.hardware for cell in (*moved, *still)}
    absent = _nowhere_on(moved, still)
    stood = {cell for cell in covered if cell not in inside and cell.hardware not in absent}
    held = rule.conditions if rule is not None and len(moved) > 1 else ()
    doubtful = (cell for cell in question.unclear if held and all(one.holds(cell) for one in held))
    untold = _cases(doubtful) - _cases((*moved, *covered))
    return Statement.of(
        "cells",
        conditions=conditions,
        workload=workloads.pop() if len(workloads) == 1 else "",
        source=question.source,
        case=question.case.key if _count_cases(covered) == 1 else "",
        moved=_count_cases(inside),
        partly=len(_cases(inside) & _cases(stood)),
        covered=_count_cases(covered),
        others=len(_cases(moved) - _cases(covered)),
        still=len(_cases(still) - _cases((*moved, *covered)) - untold),
        unclear=len(untold),
        hardware=tuple(sorted({cell.hardware for cell in moved})) if len(hardware) > 1 else (),
        absent=absent,
    )


def _nowhere_on(moved: Sequence[Cell], still: Sequence[Cell]) -> tuple[str, ...]:
    """Kinds of hardware on which all cases that moved elsewhere, and are known, stood still."""
    where_moved = {cell.hardware for cell in moved}
    cases = _cases(moved)
    stood = {cell.hardware for cell in still if cell.case.key in cases}
    return tuple(sorted(stood - where_moved))


def _cases(of: Iterable[Cell]) -> set[str]:
    return {cell.case.key for cell in of}


def _count_cases(of: Iterable[Cell]) -> int:
    return len(_cases(of))


def _condition(condition: Condition, rule: AxisRule) -> Statement:
    value = condition.value
    if value == ANY:
        values = sorted({cell.case.axes[condition.axis] for cell in rule.moved})
        value = values[0] if len(values) == 1 else ANY
    return Statement.of("condition", of=condition.axis or condition.dimension, value=value)


MOST_CONDITIONS = 3
"""Workload and two settings; more would describe the list, not a reason."""
LEAST_SHARE = 0.75
"""Three of four: of the cells that a rule covers, and of those that moved."""
EXCEPTION_BITS = 1.0
"""What an exception costs beyond its name: it makes a reader stop."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One thing that is true of a case."""

    dimension: str
    """``workload``, ``preset``, ``hardware``, or an axis after ``axis:``."""
    value: str | None
    """None: the axis has its default. ``*``: any other value than that."""

    def holds(self, cell: Cell) -> bool:
        """Say whether it is true of ``cell``."""
        match self.dimension:
            case "workload":
                return cell.case.workload == self.value
            case "preset":
                return cell.case.preset == self.value
            case "hardware":
                return cell.hardware == self.value
        value = cell.case.axes.get(self.axis)
        return value is not None if self.value == ANY else value == self.value

    @property
    def axis(self) -> str:
        """The axis that it is about, if it is."""
        return self.dimension.partition(":")[2]

    def __str__(self) -> str:
        match self.value:
            case None:
                return f"default {self.axis}"
            case "*":
                return f"{self.axis} set"
        return f"{self.axis}={self.value}" if self.axis else str(self.value)


ANY = "*"


@dataclass(frozen=True, slots=True)
class AxisRule:
    """The cells that a conjunction covers."""

    conditions: tuple[Condition, ...]
    covered: tuple[Cell, ...]
    moved: tuple[Cell, ...]
    """Those of ``covered`` that moved."""
    others: tuple[Cell, ...]
    """Those that moved and are not covered."""
    alike: tuple[tuple[Condition, Condition], ...]
    """Conditions of the rule, each with one on another dimension that covers the same cells."""


def rule(question: Question) -> AxisRule | None:
    """The rule that best tells the cells that moved as the question's did from those that did not.

    A case that moved the other way did not move with it. None if the question's cell is the only
    one that is known, or if no rule holds three of four.
    """
    moved, still = cells(question)
    if not still and len(moved) == 1:
        return None
    everyone = [*moved, *still]
    target = (1 << len(moved)) - 1
    coverings = [(one, _cover(one, everyone)) for one in _conditions(question.cell, everyone)]
    candidates = _different(coverings, len(everyone))
    best = min(_scored(candidates, target, len(everyone)), default=None)
    if best is None:
        return None
    *_, chosen, covered = best
    return AxisRule(
        tuple(candidates[at][0] for at in chosen),
        tuple(cell for at, cell in enumerate(everyone) if covered >> at & 1),
        tuple(cell for at, cell in enumerate(moved) if covered >> at & 1),
        tuple(cell for at, cell in enumerate(moved) if not covered >> at & 1),
        tuple(pair for at in chosen for pair in _alike(candidates[at], coverings)),
    )


def cells(question: Question) -> tuple[list[Cell], list[Cell]]:
    """The cells that moved the same way, and those that did not, each once, by name."""
    same_way = [other.cell for other in question.moved if other.effect * question.effect > 0]
    moved = {cell.key: cell for cell in (question.cell, *same_way)}
    rest = (*(other.cell for other in question.moved), *question.unmoved)
    still = {cell.key: cell for cell in rest if cell.key not in moved}
    return [moved[key] for key in sorted(moved)], [still[key] for key in sorted(still)]


Covering = tuple[Condition, int]
"""A condition with the cells that it covers, as bits."""


def _cover(condition: Condition, everyone: Sequence[Cell]) -> int:
    return sum(condition.holds(cell) << at for at, cell in enumerate(everyone))


def _different(coverings: Sequence[Covering], count: int) -> list[Covering]:
    by_cover: dict[int, Condition] = {}
    for condition, cover in coverings:
        by_cover.setdefault(cover, condition)
    whole = (1 << count) - 1
    return [(condition, cover) for cover, condition in by_cover.items() if cover != whole]


def _alike(
    chosen: Covering, coverings: Sequence[Covering]
) -> Iterator[tuple[Condition, Condition]]:
    """Other dimensions on which a condition covers the same cells, each with its plainest one."""
    seen = {chosen[0].dimension}
    for condition, cover in coverings:
        if cover == chosen[1] and condition.dimension not in seen:
            seen.add(condition.dimension)
            yield chosen[0], condition


CHOOSE_KERNELS = frozenset({"precision", "compile", "layout", "attention"})
"""Axes that decide which kernels run: where others cover the same cells, these are told."""


def _conditions(cell: Cell, everyone: Sequence[Cell]) -> Iterator[Condition]:
    """In the order in which people would say them: a value before "set" before "default"."""
    case = cell.case
    yield Condition("workload", case.workload)
    axes = sorted({axis for one in everyone for axis in one.case.axes})
    given = sorted(case.axes, key=lambda axis: (axis not in CHOOSE_KERNELS, axis))
    yield from (Condition(f"axis:{axis}", case.axes[axis]) for axis in given)
    yield from (Condition(f"axis:{axis}", ANY) for axis in given)
    yield Condition("preset", case.preset)
    yield Condition("hardware", cell.hardware)
    yield from (Condition(f"axis:{axis}", None) for axis in axes if axis not in case.axes)


Score = tuple[float, int, int, tuple[int, ...], int]


def _scored(candidates: Sequence[Covering], target: int, count: int) -> Iterator[Score]:
    """Every rule that holds three of four: bits, exceptions, conditions, which, what it covers."""
    name_bits = math.log2(len(candidates) + 1)
    exception_bits = math.log2(count) + EXCEPTION_BITS
    for size in range(MOST_CONDITIONS + 1):
        for chosen in combinations(range(len(candidates)), size):
            covered = (1 << count) - 1
            for at in chosen:
                covered &= candidates[at][1]
            hits = (covered & target).bit_count()
            if hits < LEAST_SHARE * max(covered.bit_count(), target.bit_count()):
                continue
            exceptions = (covered ^ target).bit_count()
            bits = size * name_bits + exceptions * exception_bits
            yield round(bits, 9), exceptions, size, chosen, covered
