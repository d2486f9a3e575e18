"""All evidence together: one cause and one sentence.

The order of causes, and why:

1. **environment**, if it changed on a machine that measured both sides: a change that is known, at
   the very point, on the same machine. A revision changes at every point, so its change says less.
2. **node**: one machine slow in everything. Facts that differ between *different* machines come
   after it, for some differ always.
3. **environment** otherwise.
4. **input**, **clocks**: measured, and they account for half of the change or more. The input comes
   first: a device that waits lowers its own clock. Where they account for it, an environment comes
   before them only if what changed can act through them.
5. **code**: the revision differs, the environment was looked at and does not, and some machine
   measured both sides: another machine may be slower for ever, with the same facts.
6. **unknown**: nothing of this, or too little to look at. Never "code" for lack of data.
"""

from __future__ import annotations

from service.analysis.attribution import alternatives, factors, fingerprint, node
from service.analysis.attribution.alternatives import not_excluded
from service.analysis.attribution.fingerprint import Mechanism
from service.analysis.attribution.observed import Observed, observe
from service.analysis.attribution.types import Attribution, Evidence, Question
from service.analysis.statement import Statement, state
from service.schemas.findings import Cause, State

MOST_FACTS = 2
"""Of an environment that changed; a person looks at the rest in the evidence."""


def attribute(question: Question) -> Attribution:
    """Say what a change is put down to, with all that was looked at and all that stays open."""
    seen = observe(question)
    cause = _cause(seen)
    clauses = _reasons(question, seen, cause)
    clauses += alternatives.beside(cause, seen.quantities)
    head = factors.headline(question, seen.rule)
    return Attribution(
        cause=cause,
        says=state("change", headline=head, reasons=tuple(clauses)),
        evidence=seen.everything(),
        not_excluded=not_excluded(question, seen, cause),
    )


def _cause(seen: Observed) -> Cause:
    """The first that holds, in the order that is argued above."""
    if seen.revision is None:
        return Cause.UNKNOWN
    another_revision = seen.revision.state is State.CHANGED
    order = (
        (Cause.ENVIRONMENT, seen.acting_facts and seen.same_machine),
        (Cause.NODE, seen.bad_node),
        (Cause.ENVIRONMENT, seen.acting_facts),
        (Cause.INPUT, seen.account(Mechanism.INPUT)),
        (Cause.CLOCKS, seen.account(Mechanism.CLOCKS)),
        (Cause.CODE, seen.environment and another_revision and seen.same_machine),
    )
    return next((cause for cause, holds in order if holds), Cause.UNKNOWN)


def _reasons(question: Question, seen: Observed, cause: Cause) -> list[Statement]:
    """List what carries the cause, then what clears the other causes."""
    reasons: list[Statement | None]
    match cause:
        case Cause.ENVIRONMENT:
            reasons = [_environment(question, seen), _cleared_code(seen), _mechanism(seen)]
        case Cause.NODE:
            reasons = [_says(seen.bad_node), _cleared_code(seen)]
        case Cause.INPUT | Cause.CLOCKS:
            reasons = [_mechanism(seen), _cleared_code(seen)]
        case Cause.CODE:
            reasons = [_says(seen.revision), _says(seen.environment[0]), _on_several(seen)]
        case Cause.UNKNOWN:
            reasons = [_too_little(question, seen), _cleared_code(seen)]
    return [reason for reason in reasons if reason]


def _environment(question: Question, seen: Observed) -> Statement:
    """The facts, one of a group, and in which way they differ."""
    by_group: dict[fingerprint.FactGroup, Evidence] = {}
    for evidence in seen.acting_facts:
        by_group.setdefault(fingerprint.group(evidence.name), evidence)
    named = list(by_group.values())[:MOST_FACTS]
    facts, rest = tuple(evidence.says for evidence in named), len(seen.changed_facts) - len(named)
    adjacent = any(run.revision == question.last_good for run in question.before) and any(
        run.revision == question.first_bad for run in question.after
    )
    kind = "facts_changed_here" if adjacent else "facts_changed_between"
    if not seen.same_machine:
        kind = "facts_differ_by_machine"
    return state(kind, changed=facts, rest=rest)


def _mechanism(seen: Observed) -> Statement | None:
    return next((_says(account.evidence) for account in seen.accounts if account.carries), None)


def _cleared_code(seen: Observed) -> Statement | None:
    cleared = seen.revision is not None and seen.revision.state is State.UNCHANGED
    return _says(seen.revision) if cleared else None


def _on_several(seen: Observed) -> Statement | None:
    return next((one.says for one in seen.node if one.state is State.UNCHANGED), None)


def _too_little(question: Question, seen: Observed) -> Statement:
    if not question.before or not question.after:
        return state("no_measurement_after" if question.before else "no_measurement_before")
    if not seen.environment:
        return state("environments_unknown")
    if seen.revision is not None and seen.revision.state is State.CHANGED and not seen.same_machine:
        before, after = node.workers(question.before), node.workers(question.after)
        return state("revision_and_machine", before=before, after=after)
    return state("unexplained")


def _says(evidence: Evidence | None) -> Statement | None:
    return None if evidence is None else evidence.says
