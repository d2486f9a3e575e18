"""Lists the explanations that stay open beside the named cause, and what would settle each."""

from __future__ import annotations

from collections.abc import Iterator

from service import formats
from service.analysis.attribution import headline, node
from service.analysis.attribution.fingerprint import DIGESTS, Mechanism, title
from service.analysis.attribution.mechanism import moved_by_clocks
from service.analysis.attribution.observed import Observed
from service.analysis.attribution.types import Cause, Part, Question, State


def not_excluded(question: Question, seen: Observed, cause: Cause) -> tuple[str, ...]:
    """Other explanations, each one sentence; the most likely first."""
    if seen.revision is None:
        return ()
    sentences = (
        *_code(question, seen, cause),
        *_environment(seen, cause),
        *_node(question, seen, cause),
        *_clocks(question, seen, cause),
        *_input(seen, cause),
        *headline.not_told_apart(seen.rule),
    )
    return tuple(dict.fromkeys(sentences))


def _code(question: Question, seen: Observed, cause: Cause) -> Iterator[str]:
    if cause is Cause.CODE or seen.revision is None or seen.revision.state is State.UNCHANGED:
        return
    good = formats.revision(question.last_good)
    where = "again" if seen.same_machine else f"on {node.workers(question.after)}"
    if cause is Cause.ENVIRONMENT:
        where = "in the environment of now"
    yield f"The code changed as well: measuring {good} {where} would tell."


def _environment(seen: Observed, cause: Cause) -> Iterator[str]:
    if not seen.environment:
        yield "The environment is not known on both sides."
    if cause is not Cause.ENVIRONMENT:
        for each in seen.changed_facts:
            yield f"Also different: {each.says}."
    elif len(seen.changed_facts) > 1:
        yield f"{len(seen.changed_facts)} facts changed together and cannot be told apart."
    for each in seen.environment:
        if each.name in DIGESTS and each.state is State.CHANGED:
            yield f"Also different, and the fingerprint does not say in what: {title(each.name)}."


def _node(question: Question, seen: Observed, cause: Cause) -> Iterator[str]:
    workers = {each.worker for each in question.after}
    if cause is Cause.NODE or len(workers) != 1:
        return
    worker = workers.pop()
    apart = [each for each in seen.node if each.state is State.CHANGED]
    for each in apart:
        yield f"Also true: {each.says}."
    if any(each.state is State.UNCHANGED for each in seen.node):
        yield f"Only {worker} shows the new level: a fault of it that touches only this remains."
    elif not any(worker in each.says for each in apart):  # a shared device names no node
        yield f"Only {worker} shows the new level: a run on another would tell if it is the node."


def _clocks(question: Question, seen: Observed, cause: Cause) -> Iterator[str]:
    if cause is Cause.CLOCKS:
        if _changed(seen, "power_cap") or not _changed(seen, "thermal", "hw_", "power_brake"):
            yield "Code that draws more power lowers the clock as well."
        return
    if cause not in (Cause.CODE, Cause.UNKNOWN) or not moved_by_clocks(question):
        return
    known = [each for each in seen.accounts if each.mechanism is Mechanism.CLOCKS]
    if not known:
        yield "Clocks were not recorded on both sides: heat and power are not excluded."
    elif known[0].evidence.state is State.UNCLEAR:
        yield "Clocks vary too much, or too little was measured, to exclude heat and power."


def _input(seen: Observed, cause: Cause) -> Iterator[str]:
    if cause not in (Cause.CODE, Cause.UNKNOWN):
        return
    known = [each for each in seen.accounts if each.mechanism is Mechanism.INPUT]
    if known and known[0].evidence.state is State.UNCLEAR:
        yield "Whether the data pipeline has a part in it is not clear from these measurements."


def _changed(seen: Observed, *words: str) -> bool:
    return any(
        each.part is Part.CLOCKS and "reason." in each.name and each.state is State.CHANGED
        for each in seen.quantities
        if any(word in each.name for word in words)
    )
