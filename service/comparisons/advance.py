"""Moves comparisons on: notes what was measured, then the next pairs or the decision."""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, Select, select, update
from sqlalchemy.orm import Session

from benchmarks.contracts import FINAL_STATES
from service.analysis import gate
from service.analysis.statement import Statement
from service.comparisons import case_workers, comparison_jobs, forecasts, worker_choice
from service.comparisons.start import tell
from service.database.prepared import session_on
from service.database.session import Database, found, now_of, rows
from service.jobs import expiry
from service.models import ComparisonJob, ComparisonRow, ComparisonState, EventKind, Job
from service.schemas.comparisons import ComparisonRequest
from service.schemas.gate import GOOD, Outcome
from service.wording.statements import say

log = logging.getLogger(__name__)
Advance = Callable[[Session, str, datetime], bool]
"""Moves one on as far as it goes now; returns whether that ended it."""


def advance_after(database: Database, after: str) -> Iterator[tuple[str, bool]]:
    """Move running comparisons on, those behind ``after`` first; yield each, and if it ended."""
    running = select(ComparisonRow.id).where(ComparisonRow.state == ComparisonState.RUNNING)
    return advance_each(database, running.order_by(ComparisonRow.id), after, advance, "comparison")


def move_on_after(connection: Connection, comparison_id: str, now: datetime) -> None:
    """Move a comparison on after a result of one of its jobs; a fault in it harms no result."""
    try:
        with session_on(connection) as session, session.begin_nested():
            advance(session, comparison_id, now)
    except Exception:
        log.exception("comparison %s could not be moved on; trying again", comparison_id)


def advance(session: Session, comparison_id: str, now: datetime) -> bool:
    """Move one comparison on as far as it goes now; say whether this decided it.

    Raises:
        NotFound: there is no such comparison.
    """
    row = _load(session, comparison_id)
    if row.state != ComparisonState.RUNNING:
        return False
    made = comparison_jobs.of(session, comparison_id)
    under_way = comparison_jobs.take_note(session, made)
    spent = now >= row.ends_at
    request = row.parsed_request
    over = spent or (request.probe is not None and bool(made))
    made = comparison_jobs.of(session, comparison_id)
    free, begun = case_workers.free(session, row, request, made, now)
    if under_way and not (spent or free):
        return False
    records = comparison_jobs.records(row, made)
    cases = gate.decide_cases(records, request.policy)
    unsettled = [place for place, case in enumerate(cases) if not case.settled]
    if over or not (unsettled or under_way):  # half a pair settles nothing
        revisions = (row.baseline, row.contender)
        decision = gate.decide(records, request.policy, revisions, last=over)
        used = comparison_jobs.used(records, made, request.policy.max_pairs)
        cut = spent and any(decision.cases[place].verdict not in GOOD for place in unsettled)
        shown = decision.model_copy(update={"used": used})
        if decision.outcome is Outcome.INCONCLUSIVE:
            lacked = (*decision.warnings, *_lacked(session, row, request, now, cut=cut))
            shown = shown.model_copy(update={"warnings": lacked})
        return _decide(session, row, shown, now)
    if row.worker is None:
        if not _pin(session, row, request, now):
            return False
        row = _load(session, comparison_id)
        free, begun = case_workers.free(session, row, request, made, now)
    left_s = (row.ends_at - now).total_seconds()
    times_s = forecasts.pair_times_s(session, row, request)
    affordable = [left_s / later_s for _, later_s in times_s]
    pairs = case_workers.next_pairs(free, begun, cases, records, request, affordable)
    first = {} if row.rounds else {"noise": forecasts.known_noise(session, row, request)}
    same_round = ComparisonRow.rounds == row.rounds
    if pairs and _change(session, row, same_round, rounds=row.rounds + 1, **first):
        _leave(session, made, pairs, now)
        comparison_jobs.submit(session, row, made, pairs, now)
    return False


def _leave(
    session: Session, made: Sequence[ComparisonJob], pairs: Collection[int], now: datetime
) -> None:
    """Cancel what waits of the cases that another worker takes now: theirs is gone."""
    for job_id in {one.job_id for one in made if one.measured is None and one.case_place in pairs}:
        expiry.cancel(session, job_id, now)


def cancel(session: Session, comparison_id: str, now: datetime) -> None:
    """Stop a comparison and its jobs; one that has ended stays as it is.

    It gives its key up: nothing was decided, and who asks again with the key wants a decision.

    Raises:
        NotFound: there is no such comparison.
    """
    row = _load(session, comparison_id)
    ended = {"state": ComparisonState.CANCELLED, "decided_at": now, "reason": "Cancelled."}
    if _change(session, row, **ended, key=None, key_digest=None):
        _cancel_jobs(session, comparison_id, now)
        if row.request.get("pull_request"):
            tell(session, row, EventKind.COMPARISON_CANCELLED, "cancelled", "Cancelled.", now)


def _load(session: Session, comparison_id: str) -> ComparisonRow:
    return found(session, ComparisonRow, comparison_id, populate_existing=True)


def _decide(session: Session, row: ComparisonRow, decision: gate.Decision, now: datetime) -> bool:
    ended = {"state": ComparisonState.DECIDED, "decided_at": now, "reason": ""}
    if not _change(session, row, **ended, decision=decision.model_dump(mode="json")):
        return False
    _cancel_jobs(session, row.id, now)
    log.info("comparison %s: %s", row.id, decision.outcome.value)
    if not row.is_step:
        sentence = say(decision.sentence)
        tell(session, row, EventKind.COMPARISON_DECIDED, decision.outcome.value, sentence, now)
    return True


def _pin(session: Session, row: ComparisonRow, request: ComparisonRequest, now: datetime) -> bool:
    chosen = worker_choice.choose(session, request, now)
    if chosen is not None:
        return _change(session, row, ComparisonRow.worker.is_(None), worker=chosen, reason="")
    without = worker_choice.lacking(session, request, now)
    drained = worker_choice.drained(session, request, now)
    waits = without or f"Waits for a {_worker(request)}: {drained or 'none was heard of lately'}."
    if row.reason != waits:
        _change(session, row, reason=waits[:500])
    return False


def _worker(request: ComparisonRequest) -> str:
    needs = worker_choice.required(request)
    labels = " ".join(f"{name}={value}" for name, value in sorted(needs.items()))
    return f"worker with {labels}" if labels else "worker"


def _lacked(
    session: Session, row: ComparisonRow, request: ComparisonRequest, now: datetime, *, cut: bool
) -> Iterator[Statement]:
    """Yield what an inconclusive comparison lacked: time if it was ``cut``, or a worker."""
    if cut:
        yield Statement.of("budget_ended", budget_s=request.budget_s)
    if row.worker is None:
        why = worker_choice.lacking(session, request, now)
        drained = worker_choice.drained(session, request, now)
        nobody = f"could be used: {drained}" if drained else "was heard of"
        yield Statement.of("remark", text=why or f"No {_worker(request)} {nobody}.")
        return
    workers = case_workers.waited_for(row, comparison_jobs.of(session, row.id))
    lost_workers = [worker_choice.lost(session, name, now) for name in workers]
    reasons = comparison_jobs.last_loss(session, row.id), *lost_workers
    yield from (Statement.of("remark", text=text) for text in reasons if text)


def _cancel_jobs(session: Session, comparison_id: str, now: datetime) -> None:
    open_ = (
        select(ComparisonJob.job_id)
        .join(Job, Job.id == ComparisonJob.job_id)
        .where(ComparisonJob.comparison_id == comparison_id, Job.state.not_in(FINAL_STATES))
    )
    for job_id in session.scalars(open_).all():
        expiry.cancel(session, job_id, now)


def _change(
    session: Session, row: ComparisonRow, *seen: ColumnElement[bool], **values: object
) -> bool:
    """Change a comparison if it still runs and is as seen; say whether it was."""
    same = ComparisonRow.id == row.id, ComparisonRow.state == ComparisonState.RUNNING
    return rows(session, update(ComparisonRow).where(*same, *seen).values(**values)) == 1


def advance_each(
    database: Database, running: Select[str], after: str, advance: Advance, noun: str
) -> Iterator[tuple[str, bool]]:
    """Move each of those that ``running`` selects on, in a transaction of its own.

    Their ids ascend; those behind ``after`` come first, so that whoever stops early goes on there.
    Yields each id, and whether that ended it; ``noun`` names the kind in the log.
    """
    with database.reading() as session:
        ids = session.scalars(running).all()
    first = bisect_right(ids, after)
    for one in (*ids[first:], *ids[:first]):
        ended = False
        try:
            with database.writing() as session:
                ended = advance(session, one, now_of(session))
        except Exception:
            # One that cannot be moved on must not hold the others up.
            log.exception("%s %s could not be moved on; trying again", noun, one)
        yield one, ended
