"""Suggests axes that may lift the limit, from measured neighbours or from the evidence. Pure.

A move is one value on one axis. Moves that the catalog refuses for this case and device, or that a
measured neighbour showed to be no faster, are never suggested.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.catalog import catalog
from benchmarks.contracts import Bottleneck, Case, Suggestion, Verdict
from benchmarks.diagnosis.reasons import FEWER, INPUT, LIFTS, MORE, MOVES, Evidence

MOST = 3
"""Suggestions a verdict carries: a longer list is no advice."""
LEAST = 0.005
"""Least gain worth mentioning, as for `throughline compare`. A climb keeps each measured gain,
because four of a per cent each are four per cent."""
MOST_GAIN = 1e6
"""Largest plausible factor between two cases; beyond it one of the rates is wrong."""
SLOW = frozenset({("compile", "max-autotune")})
"""Moves that compile for minutes: tried last."""
_NOT_BACK = {
    ("precision", "tf32"): ("bf16", "fp16", "fp8"),
    ("precision", "bf16"): ("fp8",),
    ("compile", "default"): ("reduce-overhead", "max-autotune"),
    ("bucket_mb", "100"): ("400",),
    ("bucket_mb", "5"): ("1",),
    ("microbatches", "8"): ("16", "32"),
    ("microbatches", "16"): ("32",),
}
"""Moves that would go back from these values of their axis."""
_ONLY_COMPILED = frozenset({("precision", "fp8")})
"""Moves that lose until a compiler fuses what they add: scaling to 8 bits took nanoGPT on an H200
to 0.59 of bf16 eager, and to 0.99 of it compiled."""
_SECOND = {("attention", "efficient"): "flash"}
"""Second choices, tried where the first cannot run. On an H200 `efficient` reached 0.86 of flash's
rate on nanoGPT. Only a try shows that flash has no kernel for the shapes."""
_IN_FORCE = 0.5
"""Share of attention's time from which its kernel is taken to be in use."""


@dataclass(frozen=True)
class Move:
    """One value on one axis, and the evidence for it."""

    axis: str
    value: str
    reason: str


@dataclass(frozen=True)
class Place:
    """The place where a case runs. It decides which values the case can have."""

    device: str | None = None
    """``cuda`` or ``cpu``; None leaves open what depends on it."""
    cpus: int | None = None
    capability: tuple[int, int] | None = None
    """Compute capability of its GPU; None where there is none, or it is not known."""
    refused: frozenset[tuple[str, str]] = frozenset()
    """Values, with their axes, that turned out not to run there."""
    declared: Mapping[str, str] = field(default_factory=dict)
    """The ``FACTS`` of a user's own workload."""
    loaders: int | None = None
    """Loader processes from which on more bring nothing, by the model; None: not known."""


@dataclass(frozen=True)
class Neighbour:
    """A case of the matrix that was measured, and its rate in items per second."""

    case: Case
    rate: float


def suggest(
    case: Case, verdict: Verdict, place: Place, neighbours: Sequence[Neighbour] = ()
) -> tuple[Suggestion, ...]:
    """At most three suggestions for a normalised ``case``, each with its reason: changes of the
    code that the verdict found, then moves, measured ones first.

    ``neighbours`` are other cases of its workload on the same device.
    """
    suggestions = []
    for move in moves(case, verdict, place):
        gain = measured(case, move, neighbours)
        if gain is None:
            sentence = f"{move.axis}={move.value}: {move.reason}."
            suggestions.append(Suggestion(axis=move.axis, value=move.value, sentence=sentence))
        elif gain[0] > 1.0 + LEAST:
            sentence = f"{move.axis}={move.value} measured {gain[0] - 1:+.0%} on {gain[1].key}."
            suggestions.append(
                Suggestion(
                    axis=move.axis, value=move.value, sentence=sentence[:500], speedup=gain[0]
                )
            )
    # Sorting is stable: what was not measured keeps its order.
    ranked = sorted(suggestions, key=lambda s: -(s.speedup or 0.0))
    best_by_axis: dict[str | None, Suggestion] = {}
    for suggestion in ranked:
        best_by_axis.setdefault(suggestion.axis, suggestion)
    changes = (one for one in verdict.suggestions if one.axis is None)
    return (*changes, *best_by_axis.values())[:MOST]


def moves(case: Case, verdict: Verdict, place: Place) -> list[Move]:
    """Every possible move against the verdict's limit, the most promising first.

    Moves of the input come in the order of their share of the step.
    """
    order = LIFTS.get(verdict.bottleneck, ())
    weighted = []
    for axis, value, reasons in MOVES:
        reasons_met = [reason for why in reasons if (reason := why(verdict.evidence))]
        if axis in order and reasons_met:
            share = sum(part for part, _ in reasons_met)
            weight = -share if axis in INPUT else order.index(axis)
            weighted += [
                (weight, Move(axis, concrete, max(reasons_met)[1]))
                for concrete in _choices(case, axis, value, verdict.evidence, place)
            ]
    # Sorting is stable: what weighs the same keeps the table's order.
    return [move for _, move in sorted(weighted, key=lambda pair: (is_slow(pair[1]), pair[0]))]


def other_moves(case: Case, verdict: Verdict, place: Place) -> Iterator[Move]:
    """Every other move of the step; of the input only if the verdict is unknown."""
    unknown = verdict.bottleneck is Bottleneck.UNKNOWN
    for axis, value, _ in sorted(MOVES, key=lambda row: row[:2] in SLOW):
        if value == FEWER or (axis in INPUT and not unknown):
            continue
        for concrete in _choices(case, axis, value, verdict.evidence, place):
            yield Move(axis, concrete, "nothing against the limit itself is left to try")


def is_slow(move: Move) -> bool:
    """Return True if it takes minutes to try the move."""
    return (move.axis, move.value) in SLOW


def with_move(case: Case, move: Move) -> Case:
    """``case`` with the move made."""
    return catalog.normalise(
        case.model_copy(update={"axes": {**case.axes, move.axis: move.value}}), None
    )


def measured(case: Case, move: Move, neighbours: Sequence[Neighbour]) -> tuple[float, Case] | None:
    """Return the factor that the move gave at ``case`` or the most similar case, and that case.

    None if no two neighbours differ by just this move.
    """
    rates = {neighbour.case.key: neighbour for neighbour in neighbours}
    pairs = []
    for base in neighbours:
        alike = base.case.workload == case.workload and base.case.preset == case.preset
        if alike and base.case.axes.get(move.axis) == case.axes.get(move.axis):
            axes = dict(sorted({**base.case.axes, move.axis: move.value}.items()))
            moved = rates.get(base.case.model_copy(update={"axes": axes}).key)
            if moved is not None and 0 < base.rate >= moved.rate / MOST_GAIN:
                pairs.append((distance(base.case, case), moved.rate / base.rate, base.case))
    if not pairs:
        return None
    _, gain, where = min(pairs, key=lambda pair: (pair[0], pair[2].key))
    return gain, where


def rate_that_counts(verdict: Verdict) -> str:
    """The rate that ranks neighbours: without the loader unless the loader is the limit."""
    limited = verdict.bottleneck is Bottleneck.INPUT
    return "throughput" if limited else "throughput_synth"


def distance(one: Case, other: Case) -> int:
    """On how many axes the two differ."""
    return len(set(one.axes.items()) ^ set(other.axes.items()))


def _choices(case: Case, axis: str, value: str, evidence: Evidence, place: Place) -> Iterator[str]:
    for concrete in _values(case, axis, value, place):
        used = evidence.get(f"{axis}_{concrete}", 0.0) if axis == "attention" else 0.0
        premature = _premature(case, axis, concrete, place)
        if used < _IN_FORCE and not premature and possible(case, axis, concrete, place):
            yield concrete


def _premature(case: Case, axis: str, value: str, place: Place) -> bool:
    """Return True if compiling, or a better value that can run there, should be tried first."""
    if (axis, value) in _ONLY_COMPILED:
        return not case.is_compiled
    better = _SECOND.get((axis, value))
    return better is not None and (
        case.axes.get(axis) == better or possible(case, axis, better, place)
    )


def _values(case: Case, axis: str, value: str, place: Place) -> Iterator[str]:
    entry = catalog.axes().get(axis)
    if entry is None:
        return
    now = case.axes.get(axis, entry.default)
    if value in (MORE, FEWER):
        counts = sorted((int(v) for v in entry.values), reverse=True)
        most = place.cpus or max(counts)
        if place.loaders is not None:  # the model knows the processors
            most = min((count for count in counts if count >= place.loaders), default=max(counts))
        if value == MORE:
            yield from (str(count) for count in counts if int(now) < count <= most)
        else:
            yield from [str(count) for count in counts if 0 < count < int(now)][:1]
    elif now not in _NOT_BACK.get((axis, value), ()):
        yield value


def possible(case: Case, axis: str, value: str, place: Place) -> bool:
    """Return True if ``case`` can have another value on that axis at ``place``."""
    entry = catalog.axes()[axis]
    if not entry.accepts(value) or case.axes.get(axis, entry.default) == value:
        return False
    if (axis, value) in place.refused:
        return False
    try:
        moved = case.model_copy(update={"axes": {**case.axes, axis: value}})
        catalog.normalise(moved, place.device, catalog.user_model_entry(case, place.declared))
        if place.capability is not None:
            catalog.refuse_older(moved, place.capability)
    except (catalog.Refused, catalog.UnknownName):
        return False
    return True
