"""All that was found around one change, part by part, before anything is concluded from it."""

from __future__ import annotations

from dataclasses import dataclass

from service.analysis.attribution import (
    environment,
    factors,
    fingerprint,
    node,
    quantities,
)
from service.analysis.attribution.factors import AxisRule
from service.analysis.attribution.fingerprint import Mechanism
from service.analysis.attribution.mechanism import Account, accounts
from service.analysis.attribution.quantities_of import side
from service.analysis.attribution.types import Evidence, Question
from service.analysis.statement import state
from service.schemas.findings import Part, State, Strength


@dataclass(frozen=True, slots=True)
class Observed:
    """The evidence from each part."""

    environment: tuple[Evidence, ...]
    node: tuple[Evidence, ...]
    accounts: tuple[Account, ...]
    revision: Evidence | None
    """None if one side has no measurement."""
    quantities: tuple[Evidence, ...]
    rule: AxisRule | None
    cells: Evidence | None
    same_machine: bool
    """Whether some worker measured both sides."""

    @property
    def changed_facts(self) -> tuple[Evidence, ...]:
        """Facts of the environment that changed and may carry a cause."""
        return tuple(evidence for evidence in self.environment if _carries(evidence))

    @property
    def acting_facts(self) -> tuple[Evidence, ...]:
        """Those of them that can act through what was measured; all, where nothing was."""
        through = [account.mechanism for account in self.accounts if account.carries]
        return tuple(
            evidence
            for evidence in self.changed_facts
            if not through or any(fingerprint.acts_on(evidence.name, way) for way in through)
        )

    @property
    def bad_node(self) -> Evidence | None:
        """The evidence that the cause is one machine; None if there is none."""
        return next((evidence for evidence in self.node if _carries(evidence)), None)

    def account(self, mechanism: Mechanism) -> Evidence | None:
        """Return the evidence that ``mechanism`` accounts for the change; None if there is none."""
        carrying = (a.evidence for a in self.accounts if a.mechanism is mechanism and a.carries)
        return next(carrying, None)

    def everything(self) -> tuple[Evidence, ...]:
        """All evidence, in the order of its parts."""
        single = (evidence for evidence in (self.revision, self.cells) if evidence is not None)
        of_mechanisms = (account.evidence for account in self.accounts)
        every = (*self.environment, *self.node, *of_mechanisms, *self.quantities, *single)
        parts = list(Part)
        return tuple(sorted(every, key=lambda one: (_rank(one), parts.index(one.part))))


def observe(question: Question) -> Observed:
    """Look at everything that the question brings."""
    before, after = side(question.before), side(question.after)
    differences = quantities.differences(before, after, question.effect)
    rule = factors.rule(question)
    workers = [{run.worker for run in part} for part in (question.before, question.after)]
    return Observed(
        environment=environment.evidence(question),
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
        says = state("at_both_levels", revision=shared[0])
        return Evidence(Part.REVISION, shared[0], State.UNCHANGED, Strength.STRONG, says)
    name = f"{question.last_good}..{question.first_bad}"
    says = state("revision_changed")
    return Evidence(Part.REVISION, name, State.CHANGED, Strength.WEAK, says)


def _carries(evidence: Evidence) -> bool:
    return evidence.state is State.CHANGED and evidence.strength is Strength.STRONG


def _rank(evidence: Evidence) -> int:
    return -1 if _carries(evidence) else list(State).index(evidence.state)
