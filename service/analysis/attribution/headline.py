"""Writes the sentence up to its colon: what moved, how far and since when."""

from __future__ import annotations

from service import formats
from service.analysis.attribution import factors, wording
from service.analysis.attribution.factors import ANY, AxisRule, Condition
from service.analysis.attribution.types import Evidence, Part, Question, State, Strength

CELLS = "cells"
"""What a rule is about that names no workload."""


def headline(question: Question, rule: AxisRule | None) -> str:
    """``unet with compile=default (4 of 4 cells) is 3.1 % slower since r12 (last good r11)``."""
    last = "last before" if question.improvement else "last good"
    since = formats.revision(question.first_bad)
    until = formats.revision(question.last_good)
    return f"{_moved(question, rule)} since {since} ({last} {until})"


def evidence(question: Question, rule: AxisRule | None) -> Evidence | None:
    """Return the evidence of the cells that moved together; None if no other cell is known."""
    moved, still = factors.cells(question)
    if len(moved) + len(still) == 1:
        return None
    state = State.UNCLEAR if rule is None else State.CHANGED
    says = (
        f"{len(moved)} of {len(moved) + len(still)} cells moved together: {where(question, rule)}"
    )
    return Evidence(Part.FACTORS, _name(question, rule), state, Strength.WEAK, says)


def not_told_apart(rule: AxisRule | None) -> tuple[str, ...]:
    """Other conditions that cover the same cells as the rule's."""
    if rule is None or len(rule.moved) < 2:
        return ()
    return tuple(
        f"{one} and {other} cover the same cells here: they cannot be told apart."
        for one, other in rule.alike
    )


def where(question: Question, rule: AxisRule | None) -> str:
    """Name the cells that moved, as briefly as is true."""
    return _where(question, rule)[0]


def _where(question: Question, rule: AxisRule | None) -> tuple[str, str]:
    """The cells that moved, and the verb that goes with them."""
    moved, still = factors.cells(question)
    count = len(moved) + len(still)
    if len(moved) == 1:
        alone = "" if count == 1 else f" (1 of {count} cells)"
        return f"{question.case.key}{alone}", "is"
    if rule is None:
        return f"{question.case.key} and {_others(len(moved) - 1)} of {count}", "are"
    named = _named(rule)
    unit = "" if named.startswith(CELLS) else " cells"
    covered = f"{named} ({len(rule.moved)} of {len(rule.covered)}{unit})"
    if rule.others:
        return f"{covered} and {_others(len(rule.others))}", "are"
    return covered, "are" if named.startswith(CELLS) else "is"


def _moved(question: Question, rule: AxisRule | None) -> str:
    better = question.improvement
    (cells, verb), extent = _where(question, rule), _extent(question)
    if question.metric == "throughput":
        return f"{cells} {verb} {extent} {'faster' if better else 'slower'}"
    metric = wording.title(question.metric)
    if question.unit == "s":
        return f"{metric} of {cells} is {extent} {'longer' if question.effect > 0 else 'shorter'}"
    return f"{metric} of {cells} is {extent} {'higher' if question.effect > 0 else 'lower'}"


def _extent(question: Question) -> str:
    same_way = [each for each in question.moved if each.effect * question.effect > 0]
    others = (each.effect for each in same_way if each.case != question.case)
    sizes = sorted((question.effect, *others), key=abs)
    least, most = formats.size(sizes[0]), formats.size(sizes[-1])
    return least if least == most else f"{least} to {most}"


def _name(question: Question, rule: AxisRule | None) -> str:
    return question.case.key if rule is None else _named(rule)


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


def _others(count: int) -> str:
    return f"{count} other {'cell' if count == 1 else 'cells'}"
