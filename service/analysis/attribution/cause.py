"""All evidence together: one cause and one sentence.

The order of causes, and why:

1. **environment**, if it changed on a machine that measured both sides: a change that is known, at
   the very point, on the same machine. A revision changes at every point, so its change says less.
2. **node**: one machine slow in everything.
3. **input**, **clocks**: measured, and they account for half of the change or more. The input comes
   first: a device that waits lowers its own clock. Where they account for it, an environment comes
   before them only if what changed can act through them.
4. **code**: the revision differs, the environment was looked at and does not, and some machine
   measured both sides: another machine may be slower for ever, with the same facts.
5. **unknown**: nothing of this, or too little to look at. Never "code" for lack of data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from service.analysis.attribution import environment, factors, node, observed
from service.analysis.attribution.types import Attribution, Evidence, Question
from service.analysis.statement import Statement
from service.schemas.findings import Cause, Part, State

MOST_FACTS = 2
"""Of an environment that changed; a person looks at the rest in the evidence."""


def attribute(question: Question) -> Attribution:
    """Say what a change is put down to, with all that was looked at and all that stays open."""
    seen = observed.observe(question)
    cause = _cause(seen)
    also = beside(question, cause, seen.quantities)
    reasons = _reasons(question, seen, cause)
    if not also and (unchanged := _unchanged(question, seen.quantities)):
        reasons.append(unchanged)
    return Attribution(
        cause=cause,
        says=Statement.of(
            "change",
            headline=factors.headline(question, seen.rule),
            confirmed=question.confirmed,
            compared=question.compared,
            workers=question.seen_on,
            cause=cause.value,
            reasons=tuple(reasons),
            also=tuple(also),
        ),
        evidence=seen.everything(),
        not_excluded=not_excluded(question, seen, cause),
    )


def _cause(seen: observed.Observed) -> Cause:
    """The first that holds, in the order that is argued above."""
    if seen.revision is None:
        return Cause.UNKNOWN
    another_revision = seen.revision.state is State.CHANGED
    order = (
        (Cause.ENVIRONMENT, seen.acting_facts),
        (Cause.NODE, seen.bad_node),
        (Cause.INPUT, seen.account(Part.INPUT)),
        (Cause.CLOCKS, seen.account(Part.CLOCKS)),
        (Cause.CODE, seen.environment and another_revision and seen.same_machine),
    )
    return next((cause for cause, holds in order if holds), Cause.UNKNOWN)


def _reasons(question: Question, seen: observed.Observed, cause: Cause) -> list[Statement]:
    """List what carries the cause, then what clears the other causes."""
    reasons: list[Statement | None]
    match cause:
        case Cause.ENVIRONMENT:
            reasons = [_environment(question, seen), _cleared_code(seen), _mechanism(seen)]
        case Cause.NODE:
            reasons = [_says(seen.bad_node), _cleared_code(seen)]
        case Cause.INPUT:
            reasons = [_loader_part(seen), _cleared_code(seen), _same_environment(seen)]
        case Cause.CLOCKS:
            is_open = _code_may_lower_clock(seen) and not question.compared
            both = Statement.of("clock_open") if is_open else None
            reasons = [_mechanism(seen), _cleared_code(seen) or both]
        case Cause.CODE:
            reasons = [seen.environment[0].says]
        case Cause.UNKNOWN:
            reasons = [_too_little(question, seen), _cleared_code(seen)]
    return [reason for reason in reasons if reason]


def _environment(question: Question, seen: observed.Observed) -> Statement:
    """The facts, one of a group, and in which way they differ."""
    by_group: dict[environment.FactGroup, Evidence] = {}
    for evidence in seen.acting_facts:
        by_group.setdefault(environment.group(evidence.name), evidence)
    named = list(by_group.values())[:MOST_FACTS]
    facts, rest = tuple(evidence.says for evidence in named), len(seen.changed_facts) - len(named)
    adjacent = any(run.revision == question.last_good for run in question.before) and any(
        run.revision == question.first_bad for run in question.after
    )
    kind = "facts_changed_here" if adjacent else "facts_changed_between"
    return Statement.of(kind, changed=facts, rest=rest)


def _mechanism(seen: observed.Observed) -> Statement | None:
    return next((account.says for account in seen.accounts if account.carries), None)


def _loader_part(seen: observed.Observed) -> Statement | None:
    """Say which part of the change the loader makes, after the words for its cause."""
    account = seen.account(Part.INPUT)
    return None if account is None else Statement.of("loader_part", share=account.change)


def _cleared_code(seen: observed.Observed) -> Statement | None:
    cleared = seen.revision is not None and seen.revision.state is State.UNCHANGED
    return _says(seen.revision) if cleared else None


def _same_environment(seen: observed.Observed) -> Statement | None:
    """Say that the environment did not change, where a change of the code is what is left."""
    changed = seen.revision is not None and seen.revision.state is State.CHANGED
    known = next(iter(seen.environment), None)
    return known.says if changed and known and known.state is State.UNCHANGED else None


def _too_little(question: Question, seen: observed.Observed) -> Statement:
    if question.source:
        return Statement.of("imported", source=question.source)
    if not question.before or not question.after:
        return Statement.of("no_measurement_after" if question.before else "no_measurement_before")
    if not seen.environment:
        return Statement.of("environments_unknown")
    if seen.revision is not None and seen.revision.state is State.CHANGED and not seen.same_machine:
        before, after = node.workers(question.before), node.workers(question.after)
        return Statement.of("revision_and_machine", before=before, after=after)
    return Statement.of("unexplained")


def _says(evidence: Evidence | None) -> Statement | None:
    return None if evidence is None else evidence.says


MOST = 2
_FIRST = (
    (Part.PARITY, ""),
    (Part.COMPILE, "graph"),
    (Part.COMPILE, "recompil"),
    (Part.INPUT, "full.stall_s"),
    (Part.INPUT, ""),
    (Part.PHASES, "bottleneck"),
    (Part.CLOCKS, "reason.hw"),
    (Part.CLOCKS, "reason.sw_thermal"),
    (Part.CLOCKS, "sm_clock"),
    (Part.PHASES, "forward"),
    (Part.PHASES, "backward"),
    (Part.PHASES, "optimizer"),
    (Part.PHASES, "full.work_s"),
    (Part.PHASES, "peak_memory"),
    (Part.CLOCKS, "reason."),
    (Part.COMPILE, ""),
)
"""Changed quantities to name, by part and a word of the name: a wrong result first, then those that
explain most. Other quantities stay in the evidence."""
_ASKED_ABOUT = ("sm_clock", "synth.sm_clock_hz", "full.work_s", "full.stall_s")
"""Quantities that readers ask about: the first that did not change is named."""


def beside(question: Question, cause: Cause, quantities: Sequence[Evidence]) -> list[Statement]:
    """Clauses for what changed as well, one of a part; none for what the metric says already."""
    first: dict[Part, Statement] = {}
    changed = [evidence for evidence in quantities if evidence.state is State.CHANGED]
    changed = [evidence for evidence in changed if not evidence.name.startswith(question.metric)]
    if cause is Cause.CLOCKS:  # the clock is named already
        changed = [evidence for evidence in changed if "_clock" not in evidence.name]
    for part, word in _FIRST:
        for evidence in changed:
            if evidence.part is part and word in evidence.name:
                first.setdefault(part, evidence.says)
    return list(first.values())[:MOST]


def _unchanged(question: Question, quantities: Sequence[Evidence]) -> Statement | None:
    """Clause for what did not change; None for a metric that no clock can move."""
    if not observed.moved_by_clocks(question):
        return None
    same = {other.name: other.says for other in quantities if other.state is State.UNCHANGED}
    return next((same[name] for name in _ASKED_ABOUT if name in same), None)


def not_excluded(
    question: Question, seen: observed.Observed, cause: Cause
) -> tuple[Statement, ...]:
    """Other explanations, each one sentence; the most likely first."""
    if seen.revision is None:
        return ()
    sentences = (
        *_other_code(question, seen, cause),
        *_other_environment(seen, cause),
        *_other_node(question, seen, cause),
        *_other_clocks(question, seen, cause),
        *_other_input(seen, cause),
        *factors.not_told_apart(seen.rule),
    )
    return tuple(one for place, one in enumerate(sentences) if one not in sentences[:place])


def _other_code(question: Question, seen: observed.Observed, cause: Cause) -> Iterator[Statement]:
    if cause is Cause.CODE or seen.revision is None or seen.revision.state is State.UNCHANGED:
        return
    good = question.last_good
    if cause is Cause.ENVIRONMENT:
        yield Statement.of("code_untried_in_environment", revision=good)
    elif seen.same_machine:
        yield Statement.of("code_untried", revision=good)
    else:
        yield Statement.of("code_untried_on", revision=good, workers=node.workers(question.after))


def _other_environment(seen: observed.Observed, cause: Cause) -> Iterator[Statement]:
    if not seen.environment:
        yield Statement.of("environment_unknown")
    if cause is not Cause.ENVIRONMENT:
        different = (*seen.changed_facts, *seen.differing_facts)
        for evidence in different:
            yield Statement.of("also_different", fact=evidence.says)
    elif len(seen.changed_facts) > 1:
        yield Statement.of("facts_together", count=len(seen.changed_facts))
    for evidence in seen.environment:
        if evidence.name in environment.DIGESTS and evidence.state is State.CHANGED:
            yield Statement.of("digest_also_different", fact=evidence.name)


def _other_node(question: Question, seen: observed.Observed, cause: Cause) -> Iterator[Statement]:
    if cause is Cause.NODE or len(question.seen_on) != 1:
        return
    (worker,) = question.seen_on
    apart = [evidence for evidence in seen.node if evidence.state is State.CHANGED]
    for evidence in apart:
        yield Statement.of("also_true", fact=evidence.says)
    if any(evidence.state is State.UNCHANGED for evidence in seen.node):
        yield Statement.of("only_worker", worker=worker)
    elif all(evidence.says.kind == node.SHARED_DEVICE for evidence in apart):
        yield Statement.of("only_worker_tried", worker=worker)


def _other_clocks(question: Question, seen: observed.Observed, cause: Cause) -> Iterator[Statement]:
    if cause is Cause.CLOCKS:
        if _code_may_lower_clock(seen):
            yield Statement.of("power_of_code")
        return
    if cause not in (Cause.CODE, Cause.UNKNOWN) or not observed.moved_by_clocks(question):
        return
    known = [account for account in seen.accounts if account.part is Part.CLOCKS]
    if not known:
        yield Statement.of("clocks_unknown")
    elif known[0].state is State.UNCLEAR:
        yield Statement.of("clocks_unclear")


def _other_input(seen: observed.Observed, cause: Cause) -> Iterator[Statement]:
    if cause not in (Cause.CODE, Cause.UNKNOWN):
        return
    known = [account for account in seen.accounts if account.part is Part.INPUT]
    if known and known[0].state is State.UNCLEAR:
        yield Statement.of("input_unclear")


def _code_may_lower_clock(seen: observed.Observed) -> bool:
    """Return True if the power cap held the clock down, or nothing says what did."""
    return _changed(seen, "power_cap") or not _changed(seen, "thermal", "hw_", "power_brake")


def _changed(seen: observed.Observed, *words: str) -> bool:
    return any(
        evidence.part is Part.CLOCKS
        and "reason." in evidence.name
        and evidence.state is State.CHANGED
        for evidence in seen.quantities
        if any(word in evidence.name for word in words)
    )
