"""Every number that Results carry, before against after: metrics, phases, telemetry, flags."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from benchmarks.catalog.metrics import metric
from benchmarks.contracts import Bottleneck
from service.analysis.attribution.difference import Difference, difference
from service.analysis.attribution.quantities_of import Reading
from service.analysis.attribution.types import Evidence, Measurement, Question
from service.analysis.statement import Statement, state
from service.schemas.findings import Part, State, Strength

Differences = Mapping[str, Difference]

_PARTS = (
    (Part.COMPILE, ("compile", "graph", "recompil", "first_step", "dynamo", "inductor")),
    (Part.PARITY, ("parity", "loss")),
    (Part.CLOCKS, ("clock", "power", "temperature", "thermal", "throttled", "slowdown", "reason.")),
    (Part.INPUT, ("input", "stall", "copy", "loader", "data")),
)
"""Words in a name that say what it is about, first match first; a metric that comes later is sorted
by its name."""

_ASKED_FOR = (Part.INPUT, Part.CLOCKS, Part.COMPILE, Part.PARITY)
"""Of these, and of times, it is told also that they did not change; of the rest only what did."""


def differences(
    before: Mapping[str, Reading], after: Mapping[str, Reading], effect: float
) -> dict[str, Difference]:
    """Each quantity that both sides have, by name."""
    by_name = {
        name: difference(before[name], after[name], effect)
        for name in sorted(before.keys() & after.keys())
    }
    return {name: change for name, change in by_name.items() if change is not None}


def evidence(question: Question, differences: Differences) -> tuple[Evidence, ...]:
    """Return what the differences say, apart from the metric that is to be explained."""
    # A rate and its time are one quantity: neither explains the other.
    itself = {question.metric, metric(question.metric).same_as}
    changes = [
        _evidence(name, change)
        for name, change in sorted(differences.items())
        if name not in itself and _worth_telling(name, change)
    ]
    limits = _bottleneck(question.before, question.after)
    return (*changes, *limits, *_flagged(question.before, question.after))


def says_of(name: str, difference: Difference) -> Statement:
    """Half a sentence: ``data wait +41.0 %``, ``graph breaks 0 -> 3``, ``SM clock unchanged``."""
    return state(
        f"quantity_{difference.state.value}",
        name=name,
        kind=difference.kind.value,
        unit=difference.unit,
        before=difference.before,
        after=difference.after,
        change=difference.change,
    )


def part_of(name: str) -> Part:
    """Return the part that a quantity or a flag belongs to."""
    for part, words in _PARTS:
        if any(word in name for word in words):
            return part
    return Part.NODE if name.endswith("other_processes") else Part.PHASES


def _worth_telling(name: str, difference: Difference) -> bool:
    if difference.state is State.CHANGED:
        return True
    quiet = difference.before == difference.after == 0
    asked_for = difference.unit == "s" or part_of(name) in _ASKED_FOR
    return difference.state is State.UNCHANGED and not quiet and asked_for


def _evidence(name: str, difference: Difference) -> Evidence:
    return Evidence(
        part=part_of(name),
        name=name,
        state=difference.state,
        strength=Strength.WEAK,
        says=says_of(name, difference),
        before=difference.before,
        after=difference.after,
        unit=difference.unit,
        change=difference.change,
        low=difference.low,
        high=difference.high,
    )


def _bottleneck(before: Sequence[Measurement], after: Sequence[Measurement]) -> Iterator[Evidence]:
    """Yield the limits before and after, if each side has a single one and the two differ."""
    sides = [{_limit(measurement) for measurement in side} for side in (before, after)]
    if len(sides[0]) == len(sides[1]) == 1 and sides[0] != sides[1]:
        old, new = sides[0].pop(), sides[1].pop()
        if old and new and not _same_but_finer(old, new):
            says = state("limit_changed", before=old, after=new)
            strength = Strength.WEAK
            yield Evidence(Part.PHASES, "bottleneck", State.CHANGED, strength, says, old, new)


def _same_but_finer(old: str, new: str) -> bool:
    finer = {Bottleneck.COMPUTE.value, Bottleneck.MEMORY.value, Bottleneck.MIXED.value}
    return Bottleneck.DEVICE.value in (old, new) and bool(finer & {old, new})


def _limit(measurement: Measurement) -> str | None:
    verdict = measurement.result.verdict
    return verdict.bottleneck.value if verdict and verdict.confidence == "high" else None


def _flagged(before: Sequence[Measurement], after: Sequence[Measurement]) -> Iterator[Evidence]:
    """Flags that every measurement of one side has, and none of the other."""
    for came, one, other in ((True, after, before), (False, before, after)):
        if not one or not other:
            continue
        these, theirs = [flags(run) for run in one], [flags(run) for run in other]
        for name in sorted(frozenset.intersection(*these) - frozenset.union(*theirs)):
            yield _flag(name, came=came, these=len(these), theirs=len(theirs))


def flags(measurement: Measurement) -> frozenset[str]:
    """Return the flags of a measurement and of all its processes."""
    result = measurement.result
    return frozenset(result.flags).union(*(replicate.flags for replicate in result.replicates))


def _flag(name: str, *, came: bool, these: int, theirs: int) -> Evidence:
    return Evidence(
        part=part_of(name),
        name=name,
        state=State.CHANGED,
        strength=Strength.WEAK,
        says=state("flag_came" if came else "flag_went", flag=name, with_it=these, without=theirs),
        before=0.0 if came else 1.0,
        after=1.0 if came else 0.0,
        unit="1",
        change=1.0 if came else -1.0,
    )
