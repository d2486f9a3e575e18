"""Decided comparisons become outcomes, and outcomes findings."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from benchmarks.contracts import Direction
from service import models
from service.analysis.detection.change import ChangePoint
from service.analysis.gate.pairs import software_of
from service.analysis.statement import Statement
from service.comparisons import load_comparison
from service.database.session import Database, alone, now_of, rows
from service.findings.bad_node_statistics import NodeChange
from service.findings.bad_nodes import ill_nodes, open_bad_node
from service.findings.confirm.start import DOUBT, ask, value_of
from service.findings.confirm.verdict import ConfirmationVerdict, RemeasuredValue, level_of, verdict
from service.findings.gather_evidence import A_SIDE, neighbours, where_of
from service.findings.opening import open_findings
from service.findings.queries import is_drifting
from service.findings.rules import Candidate, Remeasured, misplaced_by
from service.findings.suspicion import LEVEL_POINTS, Suspicion, Where
from service.findings.threshold_table import load_threshold
from service.findings.thresholds import NEVER, least_effect
from service.findings.witnesses import is_reported, shifts, witnesses
from service.history import changes, pending
from service.history.analysis import Histories
from service.history.queries import name_of
from service.history.series_history import PlacedChange, RecentPoint, SeriesHistory
from service.history.slow_workers import by_ill, slow_periods
from service.schemas.comparisons import ComparisonView
from service.schemas.errors import ServiceError
from service.schemas.findings import Certainty
from service.schemas.gate import Answer, CaseVerdict, Side
from service.wording.statements import say

log = logging.getLogger(__name__)

PATIENT = timedelta(hours=12)
"""Longer than two comparisons with their budgets."""
SLIGHT, MANY = 0.01, 6
"""An environment that moved fewer than so many series by less than this share is left to the
history. Where both revisions are at the new level, all rests on how well the old one was known: of
some 55 findings of five simulated histories, the four that told of nothing were such."""


def follow_all(database: Database) -> list[str]:
    """Take note of every comparison that was decided; the ids of findings that this opened."""
    with database.reading() as session:
        running = models.ConfirmationRow.state == models.ConfirmationState.RUNNING
        ids = session.scalars(select(models.ConfirmationRow.id).where(running)).all()
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
    row = session.get_one(models.ConfirmationRow, confirmation_id, populate_existing=True)
    if row.state == models.ConfirmationState.RUNNING and row.created_at < now - PATIENT:
        _end(session, row, _unresolved("unreadable"), now)


def follow(session: Session, confirmation_id: str, now: datetime) -> list[str]:
    """Move one confirmation on; the ids of findings that this opened."""
    row = session.get_one(models.ConfirmationRow, confirmation_id, populate_existing=True)
    if row.state != models.ConfirmationState.RUNNING:
        return []
    view = load_comparison(session, row.comparisons[-1], now)
    if view.state is models.ComparisonState.RUNNING:
        return []
    return _Confirmation(session, row, now).move_on(view)


class _Confirmation:
    """A confirmation whose newest comparison has ended."""

    def __init__(self, session: Session, row: models.ConfirmationRow, now: datetime) -> None:
        self.session, self.row, self.now = session, row, now
        self.series = name_of(session.get_one(models.SeriesRow, row.series_id))
        self.suspicion = Suspicion.of(row, self.series)
        self.histories = Histories(session)

    def move_on(self, view: ComparisonView) -> list[str]:
        """Ask again or end it; the ids of findings that this opened."""
        if _one_code(view):
            worker = view.worker or self.row.worker
            self._ask(worker, Statement.of("one_code", worker=worker), apart=False)
            return []
        reading = reading_of(self.session, self.row, view, self.series.metric)
        if reading is None:
            self._end(_unresolved("again_nothing", sentence=view.so_far.sentence))
            return []
        earlier = self.row.reading
        elsewhere = None if earlier is None else RemeasuredValue.model_validate(earlier)
        outcome = verdict(
            self.suspicion,
            reading,
            elsewhere,
            ill_nodes(self.session),
            drifts=is_drifting(self.session, self.series.id),
        )
        if outcome.ask_suspect:
            suspect = self.row.worker
            says = Statement.of("asked_as_well", worker=reading.worker, suspect=suspect)
            if self._ask(suspect, says):
                self.row.reading = reading.model_dump(mode="json")
                self.session.flush()
            return []
        self._end(outcome)
        opened = self._open_findings(outcome, reading)
        if outcome.state is not models.ConfirmationState.UNRESOLVED:
            self._look_again()
        return opened

    def _others(self) -> list[SeriesHistory]:
        around = neighbours(self.histories, self.series)
        return [one for one in around if one.series.id != self.series.id]

    def _look_again(self) -> None:
        """Have the series analysed that waited for this outcome, and that it does not explain."""
        for point in self._moved_alike():
            since = point.revision_at
            pending.mark_pending(self.session, self.now, point.revision, since, point.result_id)

    def _ask(self, worker: str, says: Statement, *, apart: bool = True) -> bool:
        """Start one more comparison, or end where there can be none."""
        try:
            asked = ask(self.session, self.row, self.series, worker, self.now, apart=apart)
        except ServiceError as error:
            self._end(_unresolved("refused", reason=str(error)))
            return False
        self.row.comparisons = [*self.row.comparisons, asked]
        self.row.says = says.stored()
        self.session.flush()
        return True

    def _end(self, outcome: ConfirmationVerdict) -> None:
        _end(self.session, self.row, outcome, self.now)
        if outcome.state is models.ConfirmationState.CONFIRMED:  # binds the history from there on
            row = self.row
            begins = row.first_bad, row.first_bad_at, row.first_bad_result
            pending.mark_pending(self.session, self.now, *begins)

    def _open_findings(self, outcome: ConfirmationVerdict, reading: RemeasuredValue) -> list[str]:
        """Open what the outcome asks for, unless a finding covers it by now."""
        row = self.row
        if outcome.state is models.ConfirmationState.BAD_NODE:
            node = NodeChange(
                worker=row.worker,
                last_good=row.last_good,
                first_bad=row.first_bad,
                share=abs(self.suspicion.effect),
                says=Statement.of(
                    "worker_at_fault",
                    worker=row.worker,
                    share=abs(self.suspicion.effect),
                    first_bad=row.first_bad,
                    why=outcome.says,
                ),
                certainty=Certainty.CONFIRMED,
                series=(row.series_id,),
            )
            return open_bad_node(self.session, node, self.series.comparability, self.now)
        if outcome.state not in (
            models.ConfirmationState.CONFIRMED,
            models.ConfirmationState.ENVIRONMENT,
        ):
            return []
        history = self.histories.of(self.series.id)
        beside = outcome.state is models.ConfirmationState.CONFIRMED
        if is_reported(self.session, history, self.suspicion, beside=beside):
            return []  # another case of the same cause was measured again and stands for this one
        least = least_effect(load_threshold(self.session, self.series))
        if least == NEVER:  # chosen while it was measured again
            return []
        if not beside and self._is_slight():
            return []
        placed = self._placed(reading)
        row.change_id = placed.id
        # Beside each other the revisions show the place; what is around them, the history shows.
        # If the last good one is at the new level by now, the change may begin there.
        blur = 0 if beside else max(1, misplaced_by(placed.change.effect, history.analysis.noise))
        candidate = Candidate(
            series=self.series,
            placed=placed,
            **where_of(self.session, placed, self.series.project, blur),
            doubt=DOUBT,
            certainty=Certainty.CONFIRMED,
            not_by_code=not beside,
            least=least,
        )
        witnessed = witnesses(self.session, candidate, self._others(), self.now)
        again = self._remeasured(reading)
        return open_findings(self.histories, [candidate, *witnessed], self.now, again)

    def _is_slight(self) -> bool:
        """Return True if this series moved little, and hardly another one with it."""
        if abs(self.suspicion.effect) >= SLIGHT:
            return False
        return sum(1 for _ in self._moved_alike()) < MANY - 1

    def _moved_alike(self) -> Iterator[RecentPoint]:
        """Yield where other series of the metric clearly moved as this one did."""
        for history, shift in shifts(self.session, self._others(), self.row.first_bad_at):
            if shift.is_clear and (shift.log > 0) == (self.suspicion.effect > 0):
                yield history.recent.points[shift.at - history.recent.first]

    def _placed(self, reading: RemeasuredValue) -> PlacedChange:
        """The change as the history places it by now; before it does, as it was measured again.

        The history mixes it with what a slow worker measured, which a suspicion leaves out.
        """
        row, suspicion = self.row, self.suspicion
        shown = self.session.get(models.ChangeRow, row.change_id) if row.change_id else None
        tail, ill = self.histories.of(self.series.id).recent, slow_periods(self.session)
        mixed = any(by_ill(point, ill) for point in tail.points[-LEVEL_POINTS:])
        if shown is not None and shown.present and not mixed:
            return PlacedChange.of(shown)
        different = reading.answer is Answer.DIFFERENT and not reading.same_code
        effect = reading.contender / reading.baseline - 1.0 if different else suspicion.effect
        point = ChangePoint(
            index=tail.index_of(row.first_bad_at) or 0,
            effect=effect,
            effect_low=min(effect, reading.change_low) if different else effect,
            effect_high=max(effect, reading.change_high) if different else effect,
            before=row.before,
            after=row.before * (1.0 + effect),
            improvement=(effect > 0) == (self.series.direction is Direction.HIGHER),
            confidence=1.0 - DOUBT,
            evidence=0.0,
        )
        measured = PlacedChange(
            point, row.last_good, row.first_bad, row.first_bad_at, row.first_bad_result
        )
        adopted = changes.adopt(self.session, tail, measured, self.now)
        return replace(measured, id=adopted.id) if mixed else adopted

    def _remeasured(self, reading: RemeasuredValue) -> Remeasured:
        """Give the results of measuring again, at the old level and at the new one.

        Where a worker has one code for all revisions, its baseline is none and says nothing.
        """
        job = models.ComparisonJob
        query = (
            select(job.result_id, job.measured, job.side, job.worker, job.comparison_id)
            .where(job.comparison_id.in_(self.row.comparisons), job.result_id.is_not(None))
            .order_by(job.comparison_id, job.place)
        )
        sides: dict[Where, list[str]] = {where: [] for where in Where}
        for result_id, measured, side, worker, comparison_id in self.session.execute(query):
            value, newer = value_of(measured, self.series.metric), side == Side.CONTENDER
            if value <= 0 or (reading.same_code and not newer):
                continue
            if comparison_id == self.row.comparisons[-1]:
                where = level_of(self.suspicion, reading, value, newer=newer)
            else:
                where = self.suspicion.where(worker or "", value)
            sides[where].append(result_id)
        return Remeasured(tuple(sides[Where.OLD][:A_SIDE]), tuple(sides[Where.NEW][:A_SIDE]))


def _one_code(view: ComparisonView) -> bool:
    cases = (view.decision or view.so_far).cases
    return bool(cases) and cases[0].verdict is CaseVerdict.SAME_CODE


def reading_of(
    session: Session, row: models.ConfirmationRow, view: ComparisonView, metric: str
) -> RemeasuredValue | None:
    """Give the result of a comparison of one case for one metric; None if it has no pair."""
    decision = view.decision or view.so_far
    case = decision.cases[0] if decision.cases else None
    metric_finding = (
        next((one for one in case.metrics if one.metric == metric), None) if case else None
    )
    if case is None or metric_finding is None or view.worker is None:
        return None
    low, high = metric_finding.low, metric_finding.high
    if metric_finding.direction is Direction.LOWER:
        low, high = -high, -low
    return RemeasuredValue(
        worker=view.worker,
        answer=case.answer,
        sentence=case.sentence,
        baseline=metric_finding.baseline,
        contender=metric_finding.contender,
        change_low=low,
        change_high=high,
        same_code=view.baseline == view.contender,
        other_code=_other_code(session, row, view.id),
        pairs=metric_finding.pairs,
    )


def _other_code(session: Session, row: models.ConfirmationRow, comparison_id: str) -> bool:
    """Return True if the newer revision was measured again with other code than at first."""
    first = (
        select(models.EnvironmentRow.facts)
        .join(models.ResultRow, models.ResultRow.environment == models.EnvironmentRow.digest)
        .where(models.ResultRow.id == row.first_bad_result)
    )
    again = select(models.ComparisonJob.measured).where(
        models.ComparisonJob.comparison_id == comparison_id,
        models.ComparisonJob.side == Side.CONTENDER,
    )
    ran = {(measured or {}).get("software", "") for measured in session.scalars(again)} - {""}
    return not ran <= {software_of(facts) for facts in session.scalars(first)}


def _unresolved(kind: str, **facts: object) -> ConfirmationVerdict:
    return ConfirmationVerdict(models.ConfirmationState.UNRESOLVED, Statement.of(kind, **facts))


def _end(
    session: Session, row: models.ConfirmationRow, outcome: ConfirmationVerdict, now: datetime
) -> None:
    seen = (
        models.ConfirmationRow.id == row.id,
        models.ConfirmationRow.state == models.ConfirmationState.RUNNING,
    )
    done = update(models.ConfirmationRow).where(*seen)
    values = {"state": outcome.state, "says": outcome.says.stored(), "decided_at": now}
    assert rows(session, done.values(**values)) == 1
    session.refresh(row)
    log.info("%s at %s: %s", row.case_key, row.first_bad, say(outcome.says))
