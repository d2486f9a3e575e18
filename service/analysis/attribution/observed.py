"""All that was found around one change, part by part, before anything is concluded from it.

Two ways to become slower are measured by themselves: through the input, and through the clock. Both
multiply into the time of a step, so logarithms tell which share of the change is theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.catalog.metrics import metric
from service.analysis.attribution import environment, factors, node, quantities, quantities_of
from service.analysis.attribution.types import Evidence, Question
from service.analysis.statement import Statement
from service.schemas.findings import Part, State, Strength

HALF = 0.5
"""Share of the change from which a mechanism accounts for it rather than adds to it."""
MOST = 2.0
"""A clock that should have cost more than twice the change follows from it: an idle device slows
its clock down."""
_NO_STEADY_STATE = ("first_step", "compile", "build")
"""Times that a GPU's clock says little about: compilation is the host's work."""

Side = Mapping[str, quantities_of.Reading]


def accounts(
    question: Question, before: Side, after: Side, differences: quantities.Differences
) -> tuple[Evidence, ...]:
    """Of each mechanism that was measured and could act on this metric."""
    known = (_of_input(question, before, after, differences), _of_clocks(question, differences))
    return tuple(account for account in known if account is not None)


def _of_input(
    question: Question, before: Side, after: Side, differences: quantities.Differences
) -> Evidence | None:
    """Return what the loader accounts for: FULL over SYNTH, process by process."""
    if not metric(question.metric).with_loader:
        return None
    sides = _loader(before), _loader(after)
    whole = _slowdown(differences, "throughput")
    if sides[0] is None or sides[1] is None:
        return None
    loader = quantities.difference(sides[0], sides[1], question.effect)
    if loader is None or loader.log is None:
        return None
    share = _share(loader.log, whole, question)
    carries = loader.state is State.CHANGED and share is not None and share >= HALF
    strong = carries or loader.state is State.UNCHANGED
    strength = Strength.STRONG if strong else Strength.WEAK
    says = _of_loader(loader.state, share)
    return _evidence(Part.INPUT, loader.state, says, share, strength)


def _of_loader(known: State, share: float | None) -> Statement:
    if known is not State.CHANGED or share is None:
        return Statement.of(f"loader_{known.value}")
    return (
        Statement.of("loader_share", share=share) if share > 0 else Statement.of("loader_other_way")
    )


def moved_by_clocks(question: Question) -> bool:
    """Return True if a GPU's clock can move the metric: a time or a rate of GPU work."""
    of_time = question.unit == "s" or question.unit.endswith("/s")
    return of_time and not any(word in question.metric for word in _NO_STEADY_STATE)


def _of_clocks(question: Question, differences: quantities.Differences) -> Evidence | None:
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
    return min(clocks, key=lambda clock: (not clock.carries, order.index(clock.state)))


def _of_clock(
    question: Question, name: str, differences: quantities.Differences, whole: float | None
) -> Evidence:
    clock = differences[name]
    share = None if clock.log is None else _share(-clock.log, whole, question)
    says = quantities.says_of(name, clock)
    if clock.state is State.CHANGED and share is not None and HALF <= share <= MOST:
        says = Statement.of("clock_share", clock=says, share=share)
        return _evidence(Part.CLOCKS, State.CHANGED, says, share)
    return _evidence(Part.CLOCKS, clock.state, says, share, Strength.WEAK)


def _loader(side: Side) -> quantities_of.Reading | None:
    """Step with the loader over step without it, for each process."""
    full, synth = side.get("throughput"), side.get("throughput_synth")
    if full is None or synth is None or len(full.by_measurement) != len(synth.by_measurement):
        return None
    ratios = quantities_of.Reading("1", quantities_of.QuantityKind.AMOUNT)
    for rates in zip(full.by_measurement, synth.by_measurement, strict=True):
        if len(rates[0]) != len(rates[1]) or min(*rates[0], *rates[1]) <= 0:
            return None
        ratios.by_measurement.append(tuple(s / f for f, s in zip(*rates, strict=True)))
    return ratios


def _slowdown(differences: quantities.Differences, metric: str) -> float | None:
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


@dataclass(frozen=True, slots=True)
class Observed:
    """All evidence about one change, by part."""

    environment: tuple[Evidence, ...]
    node: tuple[Evidence, ...]
    accounts: tuple[Evidence, ...]
    revision: Evidence | None
    """None if one side has no measurement."""
    quantities: tuple[Evidence, ...]
    rule: factors.AxisRule | None
    cells: Evidence | None
    same_machine: bool
    """Whether some worker measured both sides."""

    @property
    def changed_facts(self) -> tuple[Evidence, ...]:
        """Facts of the environment that changed and may carry a cause."""
        return tuple(evidence for evidence in self.environment if evidence.carries)

    @property
    def differing_facts(self) -> tuple[Evidence, ...]:
        """Facts that differ between the machines of the two sides, perhaps for ever."""
        return tuple(
            evidence
            for evidence in self.environment
            if evidence.state is State.UNCLEAR and evidence.strength is Strength.STRONG
        )

    @property
    def acting_facts(self) -> tuple[Evidence, ...]:
        """Those of them that can act through what was measured; all, where nothing was."""
        through = [account.part for account in self.accounts if account.carries]
        return tuple(
            evidence
            for evidence in self.changed_facts
            if not through or any(environment.acts_on(evidence.name, way) for way in through)
        )

    @property
    def bad_node(self) -> Evidence | None:
        """The evidence that the cause is one machine; None if there is none."""
        return next((evidence for evidence in self.node if evidence.carries), None)

    def account(self, mechanism: Part) -> Evidence | None:
        """Return the evidence that ``mechanism`` accounts for the change; None if there is none."""
        return next((a for a in self.accounts if a.part is mechanism and a.carries), None)

    def everything(self) -> tuple[Evidence, ...]:
        """All evidence, in the order of its parts."""
        single = (evidence for evidence in (self.revision, self.cells) if evidence is not None)
        every = (*self.environment, *self.node, *self.accounts, *self.quantities, *single)
        parts = list(Part)
        return tuple(sorted(every, key=lambda one: (_rank(one), parts.index(one.part))))


def observe(question: Question) -> Observed:
    """Look at everything that the question brings."""
    before, after = quantities_of.side(question.before), quantities_of.side(question.after)
    differences = quantities.differences(before, after, question.effect)
    rule = factors.rule(question)
    workers = [{run.worker for run in part} for part in (question.before, question.after)]
    return Observed(
        environment=environment.evidence(question.before, question.after),
        node=node.evidence(question),
        accounts=accounts(question, before, after, differences),
        revision=_revision(question),
        quantities=quantities.evidence(question, differences),
        rule=rule,
        cells=factors.evidence(question, rule),
        same_machine=bool(workers[0] & workers[1]),
    )


def _revision(question: Question) -> Evidence | None:
    """Say whether the sides share a revision; None if a side has no measurement."""
    old = {measurement.revision for measurement in question.before}
    new = {measurement.revision for measurement in question.after}
    if not old or not new:
        return None
    if shared := sorted(old & new):
        says = Statement.of("at_both_levels", revision=shared[0])
        return Evidence(Part.REVISION, shared[0], State.UNCHANGED, Strength.STRONG, says)
    name = f"{question.last_good}..{question.first_bad}"
    says = Statement.of("revision_changed")
    return Evidence(Part.REVISION, name, State.CHANGED, Strength.WEAK, says)


def _rank(evidence: Evidence) -> int:
    return -1 if evidence.carries else list(State).index(evidence.state)
