"""Lists the explanations that stay open beside the named cause, and what would settle each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from service.analysis.attribution import factors, node
from service.analysis.attribution.fingerprint import DIGESTS, Mechanism
from service.analysis.attribution.mechanism import moved_by_clocks
from service.analysis.attribution.observed import Observed
from service.analysis.attribution.types import Evidence, Question
from service.analysis.statement import Statement, state
from service.schemas.findings import Cause, Part, State

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
_REASSURING = ("sm_clock", "synth.sm_clock_hz", "full.work_s", "full.stall_s")
"""Quantities to name even when they did not change, because readers ask about them."""


def beside(cause: Cause, quantities: Sequence[Evidence]) -> list[Statement]:
    """Clauses for what changed as well, one of a part; then for what did not."""
    first: dict[Part, Statement] = {}
    carrying = "_clock" if cause is Cause.CLOCKS else None
    changed = [
        evidence
        for evidence in quantities
        if evidence.state is State.CHANGED and not (carrying and carrying in evidence.name)
    ]
    for part, word in _FIRST:
        for evidence in changed:
            if evidence.part is part and word in evidence.name:
                first.setdefault(part, evidence.says)
    same = {
        evidence.name: evidence.says for evidence in quantities if evidence.state is State.UNCHANGED
    }
    clauses = [*first.values(), *(same[name] for name in _REASSURING if name in same)]
    return clauses[:MOST]


def not_excluded(question: Question, seen: Observed, cause: Cause) -> tuple[Statement, ...]:
    """Other explanations, each one sentence; the most likely first."""
    if seen.revision is None:
        return ()
    sentences = (
        *_code(question, seen, cause),
        *_environment(seen, cause),
        *_node(question, seen, cause),
        *_clocks(question, seen, cause),
        *_input(seen, cause),
        *factors.not_told_apart(seen.rule),
    )
    return tuple(one for place, one in enumerate(sentences) if one not in sentences[:place])


def _code(question: Question, seen: Observed, cause: Cause) -> Iterator[Statement]:
    if cause is Cause.CODE or seen.revision is None or seen.revision.state is State.UNCHANGED:
        return
    good = question.last_good
    if cause is Cause.ENVIRONMENT:
        yield state("code_untried_in_environment", revision=good)
    elif seen.same_machine:
        yield state("code_untried", revision=good)
    else:
        yield state("code_untried_on", revision=good, workers=node.workers(question.after))


def _environment(seen: Observed, cause: Cause) -> Iterator[Statement]:
    if not seen.environment:
        yield state("environment_unknown")
    if cause is not Cause.ENVIRONMENT:
        for evidence in seen.changed_facts:
            yield state("also_different", fact=evidence.says)
    elif len(seen.changed_facts) > 1:
        yield state("facts_together", count=len(seen.changed_facts))
    for evidence in seen.environment:
        if evidence.name in DIGESTS and evidence.state is State.CHANGED:
            yield state("digest_also_different", fact=evidence.name)


def _node(question: Question, seen: Observed, cause: Cause) -> Iterator[Statement]:
    workers = {measurement.worker for measurement in question.after}
    if cause is Cause.NODE or len(workers) != 1:
        return
    worker = workers.pop()
    apart = [evidence for evidence in seen.node if evidence.state is State.CHANGED]
    for evidence in apart:
        yield state("also_true", fact=evidence.says)
    if any(evidence.state is State.UNCHANGED for evidence in seen.node):
        yield state("only_worker", worker=worker)
    elif all(evidence.says.kind == node.SHARED_DEVICE for evidence in apart):
        yield state("only_worker_tried", worker=worker)


def _clocks(question: Question, seen: Observed, cause: Cause) -> Iterator[Statement]:
    if cause is Cause.CLOCKS:
        if _changed(seen, "power_cap") or not _changed(seen, "thermal", "hw_", "power_brake"):
            yield state("power_of_code")
        return
    if cause not in (Cause.CODE, Cause.UNKNOWN) or not moved_by_clocks(question):
        return
    known = [account for account in seen.accounts if account.mechanism is Mechanism.CLOCKS]
    if not known:
        yield state("clocks_unknown")
    elif known[0].evidence.state is State.UNCLEAR:
        yield state("clocks_unclear")


def _input(seen: Observed, cause: Cause) -> Iterator[Statement]:
    if cause not in (Cause.CODE, Cause.UNKNOWN):
        return
    known = [account for account in seen.accounts if account.mechanism is Mechanism.INPUT]
    if known and known[0].evidence.state is State.UNCLEAR:
        yield state("input_unclear")


def _changed(seen: Observed, *words: str) -> bool:
    return any(
        evidence.part is Part.CLOCKS
        and "reason." in evidence.name
        and evidence.state is State.CHANGED
        for evidence in seen.quantities
        if any(word in evidence.name for word in words)
    )
