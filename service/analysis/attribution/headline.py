"""Says what moved, how far and since when: the sentence up to its colon."""

from __future__ import annotations

from service.analysis.attribution import factors
from service.analysis.attribution.factors import ANY, AxisRule, Condition
from service.analysis.attribution.types import Evidence, Part, Question, State, Strength
from service.analysis.statement import Statement, state

CELLS = "cells"
"""What a rule is about that names no workload."""


def headline(question: Question, rule: AxisRule | None) -> Statement:
    """``unet with compile=default (4 of 4 cells) is 3.1 % slower since r12 (last good r11)``."""
    same_way = [each.effect for each in question.moved if each.effect * question.effect > 0
                and each.case != question.case]  # fmt: skip
    effects = sorted((question.effect, *same_way), key=abs)
    return state(
        "improvement" if question.improvement else "regression",
        cells=where(question, rule),
        metric=question.metric,
        unit=question.unit,
        least=effects[0],
        most=effects[-1],
        first_bad=question.first_bad,
        last_good=question.last_good,
    )


def evidence(question: Question, rule: AxisRule | None) -> Evidence | None:
    """Return the evidence of the cells that moved together; None if no other cell is known."""
    moved, still = factors.cells(question)
    if len(moved) + len(still) == 1:
        return None
    known = State.UNCLEAR if rule is None else State.CHANGED
    count = len(moved) + len(still)
    says = state("cells_moved", moved=len(moved), count=count, cells=where(question, rule))
    name = question.case.key if rule is None else _named(rule)
    return Evidence(Part.FACTORS, name, known, Strength.WEAK, says)


def not_told_apart(rule: AxisRule | None) -> tuple[Statement, ...]:
    """Other conditions that cover the same cells as the rule's."""
    if rule is None or len(rule.moved) < 2:
        return ()
    return tuple(state("same_cells", one=str(one), other=str(other)) for one, other in rule.alike)


def where(question: Question, rule: AxisRule | None) -> Statement:
    """Name the cells that moved, as briefly as is true."""
    moved, still = factors.cells(question)
    count = len(moved) + len(still)
    if len(moved) == 1:
        return state("one_cell", case=question.case.key, count=count)
    if rule is None:
        return state("some_cells", case=question.case.key, others=len(moved) - 1, count=count)
    kind = "cells_of_rule" if _named(rule).startswith(CELLS) else "workload_of_rule"
    moved_of = {"moved": len(rule.moved), "covered": len(rule.covered)}
    return state(kind, named=_named(rule), **moved_of, others=len(rule.others))


def _named(rule: AxisRule) -> str:
    workloads = {case.workload for case in rule.covered}
    if not rule.conditions:
        return workloads.pop() if len(workloads) == 1 else CELLS
    words = [_condition(each, rule) for each in rule.conditions if each.dimension != "workload"]
    named = [str(each) for each in rule.conditions if each.dimension == "workload"]
    subject = named[0] if named else workloads.pop() if len(workloads) == 1 else CELLS
    return f"{subject} with {' and '.join(words)}" if words else subject


def _condition(condition: Condition, rule: AxisRule) -> str:
    if condition.dimension == "preset":
        return f"preset {condition.value}"
    if condition.value != ANY:
        return str(condition)
    values = sorted({case.axes[condition.axis] for case in rule.moved})
    return f"{condition.axis}={' or '.join(values)}"
