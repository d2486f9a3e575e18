"""Every number that Results carry, before against after: metrics, phases, telemetry, flags."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from scipy.special import stdtrit

from benchmarks.catalog.metrics import metric
from benchmarks.contracts import Bottleneck
from service.analysis.attribution.quantities_of import QuantityKind, Reading
from service.analysis.attribution.types import Evidence, Measurement, Question
from service.analysis.statement import Statement
from service.schemas.findings import Part, State, Strength

CONFIDENCE = 0.99
"""Some forty quantities are looked at: at 95 % two of them would change on every quiet night."""
ENOUGH_MEASUREMENTS = 3
"""On each side, from which measurements are the unit of replication; below it processes are, which
do not hold what differs between nights."""
LEAST, MOST = 0.002, 0.01
"""What is less than a third of the effect cannot carry it; nothing under 0.2 % is worth a word, and
nothing over 1 % is called unchanged."""
_BANDS = {QuantityKind.SHARE: 0.01, QuantityKind.COUNT: 0.5, QuantityKind.LEVEL: 2.0}
"""A percentage point; half a graph break; two degrees, to which warm-up waits for steadiness."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference of a quantity between two sides."""

    kind: QuantityKind
    unit: str
    state: State
    before: float
    after: float
    """Means."""
    change: float | None
    """Relative for amounts and parts (None from zero), else the plain difference."""
    low: float | None
    high: float | None
    log: float | None
    """ln(after / before) of amounts: what adds up over factors."""


def difference(before: Reading, after: Reading, effect: float) -> Difference | None:
    """Hold two sides of one quantity against each other; None if they are not comparable.

    Args:
        before: of the old level.
        after: of the new level.
        effect: of the change that is to be explained, which sets what is worth a word.
    """
    kind = _common(before.kind, after.kind)
    if before.unit != after.unit or kind is None:
        return None
    old, new = _independent(before, after)
    if kind is QuantityKind.AMOUNT and min(*old, *new) > 0:
        return _of_ratio(old, new, before.unit, band(effect))
    scale = _scale(kind, before, after)
    if scale is None:
        return None
    return _of_difference(old, new, kind, before.unit, _BANDS.get(kind, band(effect)) * scale)


def band(effect: float) -> float:
    """Within this an amount is unchanged, beyond it changed, as a share."""
    return min(MOST, max(LEAST, abs(effect) / 3))


def _common(one: QuantityKind, other: QuantityKind) -> QuantityKind | None:
    """Whole numbers on one side may be shares or amounts on the other."""
    if one is other:
        return one
    kinds = {one, other} - {QuantityKind.COUNT}
    if len(kinds) == 1:
        return kinds.pop()
    return QuantityKind.AMOUNT if QuantityKind.AMOUNT in kinds else None


def _independent(before: Reading, after: Reading) -> tuple[list[float], list[float]]:
    sides = [sorted(before.by_measurement), sorted(after.by_measurement)]
    if min(len(side) for side in sides) >= ENOUGH_MEASUREMENTS:
        old, new = ([_mean(values) for values in side] for side in sides)
    else:
        old, new = ([value for values in side for value in values] for side in sides)
    return sorted(old), sorted(new)


def _scale(kind: QuantityKind, before: Reading, after: Reading) -> float | None:
    """Return the size that a band is a share of."""
    if kind is QuantityKind.PART:
        steps = [*before.steps_s, *after.steps_s]
        return _mean(steps) if steps else None
    if kind is QuantityKind.AMOUNT:  # zeros or both signs: no ratio, so a share of the size
        every = (*before.by_measurement, *after.by_measurement)
        return _mean([abs(value) for values in every for value in values])
    return 1.0


def _of_ratio(old: list[float], new: list[float], unit: str, within: float) -> Difference:
    logs = [math.log(value) for value in old], [math.log(value) for value in new]
    shift, *bounds = _interval(*logs)
    low, high = (None if bound is None else _grown(bound) for bound in bounds)
    change = _grown(shift)
    known = _state(change, low, high, within)
    means = math.exp(_mean(logs[0])), math.exp(_mean(logs[1]))
    return Difference(QuantityKind.AMOUNT, unit, known, *means, change, low, high, shift)


def _of_difference(
    old: list[float], new: list[float], kind: QuantityKind, unit: str, within: float
) -> Difference:
    shift, low, high = _interval(old, new)
    known = _state(shift, low, high, within)
    mean_old, mean_new = _mean(old), _mean(new)
    if kind in (QuantityKind.PART, QuantityKind.AMOUNT):
        if mean_old <= 0 or not math.isfinite(shift / mean_old):  # from nothing: no ratio
            return Difference(kind, unit, known, mean_old, mean_new, None, None, None, None)
        low, high = (None if bound is None else bound / mean_old for bound in (low, high))
        shift /= mean_old
    return Difference(kind, unit, known, mean_old, mean_new, shift, low, high, None)


def _state(change: float, low: float | None, high: float | None, within: float) -> State:
    if low is None or high is None:
        return State.UNCLEAR
    if abs(change) >= within and (low > 0 or high < 0):
        return State.CHANGED
    return State.UNCHANGED if -within <= low and high <= within else State.UNCLEAR


def _interval(
    old: Sequence[float], new: Sequence[float]
) -> tuple[float, float | None, float | None]:
    """Difference of means with Student's interval, both sides' spread taken as one.

    One value on each side has no spread, and so no interval.
    """
    shift = _mean(new) - _mean(old)
    freedom = len(old) + len(new) - 2
    if freedom < 1:
        return shift, None, None
    spread = math.hypot(*(v - _mean(side) for side in (old, new) for v in side))
    error = spread / math.sqrt(freedom) * math.sqrt(1 / len(old) + 1 / len(new))
    half = float(stdtrit(freedom, (1 + CONFIDENCE) / 2)) * error
    return shift, shift - half, shift + half


def _grown(log: float) -> float:
    return math.expm1(min(log, 700.0))


def _mean(values: Sequence[float]) -> float:
    try:
        return math.fsum(values) / len(values)
    except OverflowError:
        return math.fsum(value / len(values) for value in values)


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
"""For these and for times, evidence also says that they did not change; for others what did."""


def differences(
    before: Mapping[str, Reading], after: Mapping[str, Reading], effect: float
) -> dict[str, Difference]:
    """Each quantity that both sides have, by name."""
    shared = sorted(before.keys() & after.keys())
    by_name = ((name, difference(before[name], after[name], effect)) for name in shared)
    return {name: change for name, change in by_name if change is not None}


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
    return Statement.of(
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
    sides = difference.before, difference.after, difference.unit
    change = difference.change, difference.low, difference.high
    says = says_of(name, difference)
    return Evidence(part_of(name), name, difference.state, Strength.WEAK, says, *sides, *change)


def _bottleneck(before: Sequence[Measurement], after: Sequence[Measurement]) -> Iterator[Evidence]:
    """Yield the limits before and after, if each side has a single one and the two differ."""
    sides = [{_limit(measurement) for measurement in side} for side in (before, after)]
    if len(sides[0]) == len(sides[1]) == 1 and sides[0] != sides[1]:
        old, new = sides[0].pop(), sides[1].pop()
        if old and new and not _same_but_finer(old, new):
            says = Statement.of("limit_changed", before=old, after=new)
            weak = State.CHANGED, Strength.WEAK
            yield Evidence(Part.PHASES, "bottleneck", *weak, says, old, new)


def _same_but_finer(old: str, new: str) -> bool:
    finer = {Bottleneck.COMPUTE, Bottleneck.MEMORY, Bottleneck.MIXED, Bottleneck.LATENCY}
    return Bottleneck.DEVICE.value in (old, new) and not finer.isdisjoint((old, new))


def _limit(measurement: Measurement) -> str | None:
    verdict = measurement.result.verdict
    return verdict.bottleneck.value if verdict and verdict.confidence == "high" else None


def _flagged(before: Sequence[Measurement], after: Sequence[Measurement]) -> Iterator[Evidence]:
    """Flags that every measurement of one side has, and none of the other."""
    if not before or not after:
        return
    for kind, side, other in (("flag_came", after, before), ("flag_went", before, after)):
        always = frozenset.intersection(*map(flags, side)) - frozenset.union(*map(flags, other))
        was = 1.0 if kind == "flag_went" else 0.0
        for name in sorted(always):
            says = Statement.of(kind, flag=name, with_it=len(side), without=len(other))
            changed = part_of(name), name, State.CHANGED, Strength.WEAK, says
            yield Evidence(*changed, was, 1.0 - was, unit="1", change=1.0 - 2.0 * was)


def flags(measurement: Measurement) -> frozenset[str]:
    """Return the flags of a measurement and of all its processes."""
    result = measurement.result
    return frozenset(result.flags).union(*(replicate.flags for replicate in result.replicates))
