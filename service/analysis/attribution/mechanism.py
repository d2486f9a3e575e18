"""Two ways to become slower that are measured by themselves: through the input, through the clock.

Both multiply into the time of a step, so logarithms tell which share of the change is theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.catalog.metrics import metric
from service.analysis.attribution.difference import difference
from service.analysis.attribution.fingerprint import Mechanism
from service.analysis.attribution.quantities import Differences, says_of
from service.analysis.attribution.quantities_of import QuantityKind, Reading
from service.analysis.attribution.types import Evidence, Question
from service.analysis.statement import Statement, state
from service.schemas.findings import Part, State, Strength

HALF = 0.5
"""Share of the change from which a mechanism accounts for it rather than adds to it."""
MOST = 2.0
"""A clock that should have cost more than twice the change follows from it: an idle device slows
its clock down."""
_NO_STEADY_STATE = ("first_step", "compile", "build")
"""Times that a GPU's clock says little about: compilation is the host's work."""

Side = Mapping[str, Reading]


@dataclass(frozen=True, slots=True)
class Account:
    """The evidence of what a mechanism accounts for."""

    mechanism: Mechanism
    evidence: Evidence

    @property
    def carries(self) -> bool:
        """Return True if the mechanism accounts for the change."""
        return self.evidence.state is State.CHANGED and self.evidence.strength is Strength.STRONG


def accounts(
    question: Question, before: Side, after: Side, differences: Differences
) -> tuple[Account, ...]:
    """Of each mechanism that was measured and could act on this metric."""
    known = (_of_input(question, before, after, differences), _of_clocks(question, differences))
    return tuple(account for account in known if account is not None)


def _of_input(
    question: Question, before: Side, after: Side, differences: Differences
) -> Account | None:
    """Return what the loader accounts for: FULL over SYNTH, process by process."""
    if not metric(question.metric).with_loader:
        return None
    sides = _loader(before), _loader(after)
    whole = _slowdown(differences, "throughput")
    if sides[0] is None or sides[1] is None:
        return None
    loader = difference(sides[0], sides[1], question.effect)
    if loader is None or loader.log is None:
        return None
    share = _share(loader.log, whole, question)
    carries = loader.state is State.CHANGED and share is not None and share >= HALF
    strong = carries or loader.state is State.UNCHANGED
    strength = Strength.STRONG if strong else Strength.WEAK
    says = _of_loader(loader.state, share)
    return Account(Mechanism.INPUT, _evidence(Part.INPUT, loader.state, says, share, strength))


def _of_loader(known: State, share: float | None) -> Statement:
    if known is not State.CHANGED or share is None:
        return state(f"loader_{known.value}")
    return state("loader_share", share=share) if share > 0 else state("loader_other_way")


def moved_by_clocks(question: Question) -> bool:
    """Return True if a GPU's clock can move the metric: a time or a rate of GPU work."""
    of_time = question.unit == "s" or question.unit.endswith("/s")
    return of_time and not any(word in question.metric for word in _NO_STEADY_STATE)


def _of_clocks(question: Question, differences: Differences) -> Account | None:
    """Return what the SM or the memory clock accounts for; None if neither clock says anything."""
    if not moved_by_clocks(question):
        return None
    synth = question.metric.endswith("_synth")
    names = ("synth.sm_clock_hz" if synth else "sm_clock",
             "synth.memory_clock_hz" if synth else "full.memory_clock_hz")  # fmt: skip
    known = [name for name in names if name in differences]
    if not known:
        return None
    whole = _slowdown(differences, question.metric)
    clocks = [_of_clock(question, name, differences, whole) for name in known]
    order = [State.CHANGED, State.UNCLEAR, State.UNCHANGED]
    return min(
        clocks, key=lambda account: (not account.carries, order.index(account.evidence.state))
    )


def _of_clock(
    question: Question, name: str, differences: Differences, whole: float | None
) -> Account:
    clock = differences[name]
    share = None if clock.log is None else _share(-clock.log, whole, question)
    says = says_of(name, clock)
    if clock.state is State.CHANGED and share is not None and HALF <= share <= MOST:
        says = state("clock_share", clock=says, share=share)
        return Account(Mechanism.CLOCKS, _evidence(Part.CLOCKS, State.CHANGED, says, share))
    return Account(
        Mechanism.CLOCKS, _evidence(Part.CLOCKS, clock.state, says, share, Strength.WEAK)
    )


def _loader(side: Side) -> Reading | None:
    """Step with the loader over step without it, for each process."""
    full, synth = side.get("throughput"), side.get("throughput_synth")
    if full is None or synth is None or len(full.by_measurement) != len(synth.by_measurement):
        return None
    ratios = Reading("1", QuantityKind.AMOUNT)
    for rates in zip(full.by_measurement, synth.by_measurement, strict=True):
        if len(rates[0]) != len(rates[1]) or min(*rates[0], *rates[1]) <= 0:
            return None
        ratios.by_measurement.append(tuple(s / f for f, s in zip(*rates, strict=True)))
    return ratios


def _slowdown(differences: Differences, metric: str) -> float | None:
    whole = differences.get(metric)
    if whole is None or whole.log is None or whole.state is not State.CHANGED:
        return None
    return -whole.log if whole.unit.endswith("/s") else whole.log


def _share(part: float, whole: float | None, question: Question) -> float | None:
    if whole is None or (whole > 0) == question.improvement:
        return None
    return part / whole


def _evidence(
    part: Part,
    known: State,
    says: Statement,
    share: float | None,
    strength: Strength = Strength.STRONG,
) -> Evidence:
    name = "share of the input" if part is Part.INPUT else "share of the clock"
    return Evidence(part, name, known, strength, says, unit="1", change=share)
