"""Decided comparisons become outcomes, and outcomes findings."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from benchmarks.contracts import Direction
from service.analysis import gate
from service.analysis.detection.change import ChangePoint
from service.analysis.gate import Answer, Side
from service.comparisons import ComparisonView, load_comparison
from service.database.session import Database, alone, now_of, rows
from service.errors import ServiceError
from service.findings import Candidate, Certainty, Remeasured
from service.findings.bad_nodes import NodeChange, ill_nodes, open_bad_node
from service.findings.confirm.start import DOUBT, ask, value_of
from service.findings.confirm.suspicion import Suspicion, Where
from service.findings.confirm.verdict import ConfirmationVerdict, RemeasuredValue, verdict
from service.findings.gather_evidence import A_SIDE
from service.findings.opening import open_findings
from service.history import analysis, changes, revisions
from service.history.placed_changes import PlacedChange
from service.history.series_history import SeriesName, name_of
from service.models import (
    ChangeRow,
    ComparisonJob,
    ComparisonState,
    ConfirmationRow,
    ConfirmationState,
    EnvironmentRow,
    ResultRow,
    SeriesRow,
)

log = logging.getLogger(__name__)

PATIENT = timedelta(hours=12)
"""Longer than two comparisons with their budgets."""


def follow_all(database: Database) -> list[str]:
    """Take note of every comparison that was decided; the ids of findings that this opened."""
    with database.reading() as session:
        running = ConfirmationRow.state == ConfirmationState.RUNNING
        ids = session.scalars(select(ConfirmationRow.id).where(running)).all()
    opened: list[str] = []
    for confirmation_id in ids:
        try:
            with database.writing() as session:
                alone(session, "findings")
                opened += follow(session, confirmation_id, now_of(session))
        except Exception:
            # One that cannot be followed must not hold the others up.
            log.exception("confirmation %s failed; trying again", confirmation_id)
            with database.writing() as session:
                _give_up(session, confirmation_id, now_of(session))
    return opened


def _give_up(session: Session, confirmation_id: str, now: datetime) -> None:
    """End a confirmation that cannot be followed: while it runs it holds findings back."""
    row = session.get_one(ConfirmationRow, confirmation_id, populate_existing=True)
    if row.state == ConfirmationState.RUNNING and row.created_at < now - PATIENT:
        said = "What was measured again could not be read; the service's log says why."
        _end(session, row, ConfirmationVerdict(ConfirmationState.UNRESOLVED, said), now)


def follow(session: Session, confirmation_id: str, now: datetime) -> list[str]:
    """Move one confirmation on; the ids of findings that this opened."""
    row = session.get_one(ConfirmationRow, confirmation_id, populate_existing=True)
    if row.state != ConfirmationState.RUNNING:
        return []
    view = load_comparison(session, row.comparisons[-1], now)
    if view.state is ComparisonState.RUNNING:
        return []
    series = name_of(session.get_one(SeriesRow, row.series_id))
    if _one_code(view):
        _repeat(session, row, series, view, now)
        return []
    reading = reading_of(session, row, view, series.metric)
    if reading is None:
        told = ConfirmationVerdict(
            ConfirmationState.UNRESOLVED,
            f"Measuring again gave nothing: {view.so_far.sentence}",
        )
    else:
        elsewhere = None if row.reading is None else RemeasuredValue.model_validate(row.reading)
        told = verdict(Suspicion.of(row, series), reading, elsewhere, ill_nodes(session))
    if told.ask_suspect and reading is not None:
        _ask_suspect(session, row, series, reading, now)
        return []
    _end(session, row, told, now)
    return _findings(session, row, series, told, reading, now)


def _one_code(view: ComparisonView) -> bool:
    cases = (view.decision or view.so_far).cases
    return bool(cases) and cases[0].verdict is gate.CaseVerdict.SAME_CODE


def _repeat(
    session: Session,
    row: ConfirmationRow,
    series: SeriesName,
    view: ComparisonView,
    now: datetime,
) -> None:
    """Measure the newer revision again by itself, where the two cannot be told apart."""
    worker = view.worker or row.worker
    try:
        asked = ask(session, row, series, worker, now, apart=False)
    except ServiceError as error:
        _end(session, row, ConfirmationVerdict(ConfirmationState.UNRESOLVED, str(error)), now)
        return
    row.comparisons = [*row.comparisons, asked]
    row.sentence = f"{worker} has one code for both revisions; it is being measured again."
    session.flush()


def reading_of(
    session: Session, row: ConfirmationRow, view: ComparisonView, metric: str
) -> RemeasuredValue | None:
    """Give the result of a comparison of one case for one metric; None if it has no pair."""
    decision = view.decision or view.so_far
    case = decision.cases[0] if decision.cases else None
    found = next((each for each in case.metrics if each.metric == metric), None) if case else None
    if case is None or found is None or view.worker is None:
        return None
    low, high = found.low, found.high
    if found.direction is Direction.LOWER:
        low, high = -high, -low
    return RemeasuredValue(
        worker=view.worker,
        answer=case.answer,
        sentence=case.sentence,
        baseline=found.baseline,
        contender=found.contender,
        change_low=low,
        change_high=high,
        same_code=view.baseline == view.contender,
        other_code=_other_code(session, row, view.id),
        pairs=found.pairs,
    )


def _other_code(session: Session, row: ConfirmationRow, comparison_id: str) -> bool:
    """Return True if the newer revision was measured again with other code than at first."""
    first = (
        select(EnvironmentRow.facts)
        .join(ResultRow, ResultRow.environment == EnvironmentRow.digest)
        .where(ResultRow.id == row.first_bad_result)
    )
    again = select(ComparisonJob.measured).where(
        ComparisonJob.comparison_id == comparison_id, ComparisonJob.side == Side.CONTENDER
    )
    ran = {(measured or {}).get("software", "") for measured in session.scalars(again)} - {""}
    return not ran <= {gate.software_of(facts) for facts in session.scalars(first)}


def _ask_suspect(
    session: Session,
    row: ConfirmationRow,
    series: SeriesName,
    reading: RemeasuredValue,
    now: datetime,
) -> None:
    """Elsewhere all is well: ask the worker that measured the suspicious point itself."""
    try:
        asked = ask(session, row, series, row.worker, now)
    except ServiceError as error:
        _end(session, row, ConfirmationVerdict(ConfirmationState.UNRESOLVED, str(error)), now)
        return
    row.comparisons = [*row.comparisons, asked]
    row.reading = reading.model_dump(mode="json")
    row.sentence = f"{reading.worker} shows the old level; {row.worker} is being asked as well."
    session.flush()


def _end(session: Session, row: ConfirmationRow, told: ConfirmationVerdict, now: datetime) -> None:
    seen = ConfirmationRow.id == row.id, ConfirmationRow.state == ConfirmationState.RUNNING
    done = update(ConfirmationRow).where(*seen)
    values = {"state": told.state, "sentence": told.sentence, "decided_at": now}
    assert rows(session, done.values(**values)) == 1
    session.refresh(row)
    log.info("%s at %s: %s", row.case_key, row.first_bad, told.sentence)


def _findings(
    session: Session,
    row: ConfirmationRow,
    series: SeriesName,
    told: ConfirmationVerdict,
    reading: RemeasuredValue | None,
    now: datetime,
) -> list[str]:
    """Open what the outcome asks for, unless a finding covers it by now."""
    if told.state is ConfirmationState.BAD_NODE:
        node = NodeChange(
            worker=row.worker,
            last_good=row.last_good,
            first_bad=row.first_bad,
            share=abs(row.after / row.before - 1.0),
            sentence=f"Worker {row.worker} is at fault: {told.sentence}",
            certainty=Certainty.CONFIRMED,
            series=(row.series_id,),
        )
        return open_bad_node(session, node, series.comparability, now)
    if reading is None or told.state not in _REAL:
        return []
    candidate = _candidate(session, row, series, reading, now)
    measured = _measured(session, row, series, reading)
    return open_findings(session, [candidate], now, measured)


_REAL = (ConfirmationState.CONFIRMED, ConfirmationState.ENVIRONMENT)


def _candidate(
    session: Session,
    row: ConfirmationRow,
    series: SeriesName,
    reading: RemeasuredValue,
    now: datetime,
) -> Candidate:
    placed = _placed(session, row, series, reading, now)
    row.change_id = placed.id
    return Candidate(
        series=series,
        placed=placed,
        rank=revisions.rank(session, row.first_bad_at, series.project),
        doubt=DOUBT,
        certainty=Certainty.CONFIRMED,
    )


def _placed(
    session: Session,
    row: ConfirmationRow,
    series: SeriesName,
    reading: RemeasuredValue,
    now: datetime,
) -> PlacedChange:
    """The change as the history places it by now; before it does, as it was measured again."""
    shown = session.get(ChangeRow, row.change_id) if row.change_id else None
    if shown is not None and shown.present:
        return PlacedChange.of(shown)
    tail = analysis.load_recent_points(session, series.id)
    effect = row.after / row.before - 1.0
    different = reading.answer is Answer.DIFFERENT and not reading.same_code
    effect = reading.contender / reading.baseline - 1.0 if different else effect
    measured = PlacedChange(
        change=ChangePoint(
            index=tail.index_of(row.first_bad_at) or 0,
            effect=effect,
            effect_low=min(effect, reading.change_low) if different else effect,
            effect_high=max(effect, reading.change_high) if different else effect,
            before=row.before,
            after=row.before * (1.0 + effect),
            improvement=(effect > 0) == (series.direction is Direction.HIGHER),
            confidence=1.0 - DOUBT,
            evidence=0.0,
        ),
        last_good=row.last_good,
        first_bad=row.first_bad,
        first_bad_at=row.first_bad_at,
        first_bad_result=row.first_bad_result,
    )
    return changes.adopt(session, tail, measured, now)


def _measured(
    session: Session, row: ConfirmationRow, series: SeriesName, reading: RemeasuredValue
) -> Remeasured:
    """Give the results of measuring again, at the old level and at the new one.

    Where a worker has one code for all revisions, its baseline is none and says nothing.
    """
    told = Suspicion.of(row, series)
    wanted = (
        select(
            ComparisonJob.result_id,
            ComparisonJob.measured,
            ComparisonJob.side,
            ComparisonJob.worker,
        )
        .where(
            ComparisonJob.comparison_id.in_(row.comparisons), ComparisonJob.result_id.is_not(None)
        )
        .order_by(ComparisonJob.comparison_id, ComparisonJob.place)
    )
    sides: dict[Where, list[str]] = {where: [] for where in Where}
    for result_id, measured, side, worker in session.execute(wanted):
        value = value_of(measured, series.metric)
        if value > 0 and (side == Side.CONTENDER or not reading.same_code):
            sides[told.where(worker or "", value)].append(result_id)
    return Remeasured(tuple(sides[Where.OLD][:A_SIDE]), tuple(sides[Where.NEW][:A_SIDE]))
