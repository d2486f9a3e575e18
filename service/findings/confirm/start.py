"""Suspicions become comparisons, within what a day allows."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from statistics import geometric_mean
from typing import Any

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from benchmarks.catalog.metrics import metric as metric_of
from benchmarks.catalog.metrics import reading_order
from service import comparisons, models
from service.analysis.statement import Statement
from service.comparisons import worker_choice
from service.database.session import new_id, pairs
from service.findings import rules
from service.findings.bad_nodes import ill_nodes
from service.findings.rules import Candidate
from service.findings.suspicion import Baseline, Suspicion, Where, points_before, where_lies
from service.findings.witnesses import is_explained
from service.history import revisions
from service.history.analysis import Histories
from service.history.changes import ALIKE
from service.history.queries import name_of
from service.history.series_history import SeriesHistory
from service.schemas.comparisons import ComparisonRequest
from service.schemas.errors import ServiceError
from service.schemas.findings import FindingKind
from service.schemas.gate import Side
from service.schemas.policy import Limit, Policy, Rule
from service.schemas.series import SeriesName

log = logging.getLogger(__name__)

DAY = timedelta(days=1)
BUDGET_S = 3_600.0
"""For one comparison, waiting for the worker included; an idle one needs some minutes."""
MOST_PAIRS = 10
DOUBT = 0.003
"""Probability that two equal revisions are called different, over all looks."""
SHARE_OF_EFFECT = 0.75
"""Revisions that surely differ by less than this part of what was suspected do not differ as it
did; the smaller the part, the more pairs every fluke costs."""
LEAST_MARGIN, LARGEST_MARGIN = 0.002, 0.2


def begin(
    session: Session, suspicions: Iterable[Suspicion], now: datetime, daily: int
) -> list[str]:
    """Measure again what is suspicious and not being looked at; at most ``daily`` times a day.

    One case at one place is measured again once, whichever of its metrics is suspicious. What moved
    one way on one worker at one place may have one cause: the clearest case stands for the others,
    which wait for its outcome. The metric that people read first comes first.
    """
    started: list[str] = []
    ill = ill_nodes(session)
    left = daily - _started_since(session, now - DAY)
    running = _running(session)
    for suspicion in sorted(suspicions, key=_by_clarity):
        if len(started) >= left:
            break
        if suspicion.last_good == suspicion.first_bad:
            continue  # a revision beside itself says nothing of the code
        rank = revisions.rank(session, suspicion.first_bad_at, suspicion.series.project)
        if _known(session, suspicion, rank) or is_explained(session, suspicion.series, rank):
            continue
        if any(abs(other - rank) <= rules.NEAR for other in running[_cause(suspicion)]):
            continue
        workers = _workers(session, suspicion, ill, now)
        if workers and (begun := _start(session, suspicion, workers, now)):
            started += begun
            running[_cause(suspicion)].append(rank)
    return started


def _by_clarity(suspicion: Suspicion) -> tuple[tuple[int, str], float, str]:
    return reading_order(suspicion.series.metric), -suspicion.clarity, suspicion.series.id


def _cause(suspicion: Suspicion) -> tuple[str, str, str, bool]:
    """Key of suspicions that have one cause, or one slow node, if they lie at one place."""
    series = suspicion.series
    return series.project, metric_of(series.metric).subject, suspicion.worker, suspicion.worse


def _running(session: Session) -> dict[tuple[str, str, str, bool], list[int]]:
    """The ranks of the revisions that are being measured again, by `_cause`."""
    state = models.ConfirmationRow.state == models.ConfirmationState.RUNNING
    ranks: dict[tuple[str, str, str, bool], list[int]] = defaultdict(list)
    for row in session.scalars(select(models.ConfirmationRow).where(state)):
        series = name_of(session.get_one(models.SeriesRow, row.series_id))
        rank = revisions.rank(session, row.first_bad_at, series.project)
        ranks[_cause(Suspicion.of(row, series))].append(rank)
    return ranks


def decided(session: Session, candidates: Iterable[Candidate]) -> list[Candidate]:
    """Leave out the changes that are being measured again, and those that others stand for.

    The outcome will decide, not the history.
    """
    places: dict[tuple[str, str, bool], list[int]] = defaultdict(list)
    for (project, subject, _, worse), ranks in _running(session).items():
        places[project, subject, worse] += ranks
    running = models.ConfirmationRow.state == models.ConfirmationState.RUNNING
    return [
        change
        for change in candidates
        if not _stands_for(places, change)
        and not _near(session, change.series, change.rank, running)
    ]


def _stands_for(
    places: Mapping[tuple[str, str, bool], Sequence[int]], candidate: Candidate
) -> bool:
    if candidate.series.source:
        return False
    series, worse = candidate.series, candidate.kind is FindingKind.REGRESSION
    key = series.project, metric_of(series.metric).subject, worse
    return any(abs(rank - candidate.rank) <= rules.NEAR for rank in places.get(key, ()))


def not_reproduced(histories: Histories, candidate: Candidate) -> bool:
    """Return True if a change was measured again, on its own hardware, and was not there.

    Measuring one metric again measures the others of its case too: they are cleared where they were
    at their old level as well, and by nothing else.
    """
    absent = models.ConfirmationRow.state == models.ConfirmationState.NOT_REPRODUCED
    return any(
        _covers(row, candidate.placed.change.effect)
        if row.series_id == candidate.series.id
        else _at_old_level(histories, row, candidate)
        for row in _near(histories.session, candidate.series, candidate.rank, absent)
    )


def ask(
    session: Session,
    row: models.ConfirmationRow,
    series: SeriesName,
    worker: str,
    now: datetime,
    *,
    apart: bool = True,
) -> str:
    """Start the comparison of a confirmation on ``worker``; its id.

    Where the worker has one code for both revisions, or they are not to be held ``apart``, the
    newer one is measured against itself: that says whether it is slow again, and no more.
    """
    has = {worker: session.get_one(models.WorkerRow, worker).revisions}
    apart = apart and bool(worker_choice.able(has, row.last_good, row.first_bad))
    effect = abs(row.after / row.before - 1.0)
    margin = min(LARGEST_MARGIN, max(LEAST_MARGIN, SHARE_OF_EFFECT * effect))
    rule = Rule(limits=(Limit(metric=series.metric, max_regression=0.0, margin=margin),))
    spec = session.scalars(
        select(models.Job.spec).join(models.ResultRow, models.ResultRow.job_id == models.Job.id)
        .where(models.ResultRow.id == row.first_bad_result)
    ).one()  # fmt: skip
    request = ComparisonRequest(
        baseline=row.last_good if apart else row.first_bad,
        contender=row.first_bad,
        case=series.case,
        policy=Policy(rules=(rule,), false_alarm=DOUBT, max_pairs=MOST_PAIRS),
        budget_s=BUDGET_S,
        worker=worker,
        protocol={**spec["protocol"], "trace": False},  # its own measurement's trace is enough
        timeout_s=spec["timeout_s"],
        duet=False,  # each side's result stands for itself beside those of the history
        source=f"{models.CONFIRMATIONS}{row.id}",
        project=series.project or None,
    )
    return comparisons.start(session, request, now).comparison_id


def _start(
    session: Session, suspicion: Suspicion, workers: Sequence[str], now: datetime
) -> list[str]:
    others = [worker for worker in workers if worker != suspicion.worker]
    row = models.ConfirmationRow(
        id=new_id(now),
        series_id=suspicion.series.id,
        case_key=suspicion.series.case.key,
        last_good=suspicion.last_good,
        first_bad=suspicion.first_bad,
        first_bad_at=suspicion.first_bad_at,
        first_bad_result=suspicion.first_bad_result,
        worker=suspicion.worker,
        before=suspicion.before,
        usual=dict(suspicion.usual.by_worker),
        change_id=suspicion.change_id,
        after=suspicion.after,
        state=models.ConfirmationState.RUNNING,
        comparisons=[],
        reading=None,
        says=Statement.of("being_measured").stored(),
        created_at=now,
        decided_at=None,
    )
    try:
        with session.begin_nested():
            session.add(row)
            session.flush()
            row.comparisons = [ask(session, row, suspicion.series, (others or workers)[0], now)]
            session.flush()
    except ServiceError as error:  # a case that this version cannot run any more, say
        log.warning("%s at %s is not measured again: %s", row.case_key, suspicion.first_bad, error)
        return []
    log.info("%s at %s is measured again", row.case_key, suspicion.first_bad)
    return [row.id]


def _at_old_level(histories: Histories, row: models.ConfirmationRow, candidate: Candidate) -> bool:
    """Return True if the new revision was at the old level of the candidate's metric."""
    change, metric = candidate.placed.change, candidate.series.metric
    rows = histories.session.execute(
        select(models.ComparisonJob.measured, models.ComparisonJob.worker).where(
            models.ComparisonJob.comparison_id == row.comparisons[0],
            models.ComparisonJob.side == Side.CONTENDER,
        )
    )
    values = [(worker or "", value_of(measured, metric)) for measured, worker in rows]
    above = [(worker, value) for worker, value in values if value > 0]
    usual = _usual(histories.of(candidate.series.id), candidate)
    sizes = (usual.level, change.before, change.after)
    if not above or min(sizes) <= 0 or change.before == change.after:
        return False
    alike = geometric_mean(usual.alike(worker, value) for worker, value in above)
    return where_lies(alike * change.before / usual.level, change.before, change.after) is Where.OLD


def value_of(measured: Mapping[str, Any] | None, metric: str) -> float:
    """Give the value that one process measured of a metric; zero if it has none."""
    return float((measured or {}).get("metrics", {}).get(metric, {}).get("value", 0.0))


def _usual(history: SeriesHistory, candidate: Candidate) -> Baseline:
    known = (change.change.index for change in history.analysis.changes)
    earlier = points_before(history.recent, candidate.placed.change.index, known)
    if not earlier:  # the newest windows do not reach there
        return Baseline(candidate.placed.change.before, {})
    return Baseline.of((point.worker, point.value) for point in earlier)


def _known(session: Session, suspicion: Suspicion, rank: int) -> bool:
    if _of_case(session, suspicion.series, models.ConfirmationRow.first_bad == suspicion.first_bad):
        return True
    looked_at = (models.ConfirmationState.RUNNING, models.ConfirmationState.NOT_REPRODUCED)
    near = _near(session, suspicion.series, rank, models.ConfirmationRow.state.in_(looked_at))
    return any(
        row.series_id != suspicion.series.id or _covers(row, suspicion.effect) for row in near
    )


def _covers(row: models.ConfirmationRow, effect: float) -> bool:
    """Return True if a change of the same series may be the one that was measured again.

    What goes the other way, or is more than twice as large, is another change.
    """
    return 0.0 <= effect / (row.after / row.before - 1.0) <= ALIKE


def _near(
    session: Session, series: SeriesName, rank: int, condition: ColumnElement[bool]
) -> list[models.ConfirmationRow]:
    """Confirmations of the series' case that began at most a few revisions from a place."""
    return [
        row
        for row in _of_case(session, series, condition)
        if abs(revisions.rank(session, row.first_bad_at, series.project) - rank) <= rules.NEAR
    ]


def _of_case(
    session: Session, series: SeriesName, condition: ColumnElement[bool]
) -> list[models.ConfirmationRow]:
    """Confirmations of the series' case on its hardware and data, whichever metric led to them.

    What was measured on another kind of GPU says nothing of this one.
    """
    query = (
        select(models.ConfirmationRow, models.SeriesRow.comparability)
        .join(models.SeriesRow, models.SeriesRow.id == models.ConfirmationRow.series_id)
        .where(models.SeriesRow.project == series.project)
        .where(models.ConfirmationRow.case_key == series.case.key, condition)
    )
    return [row for row, facts in session.execute(query) if facts == series.comparability]


def _workers(
    session: Session, suspicion: Suspicion, ill: Collection[str], now: datetime
) -> list[str]:
    """Workers that have measured this series and are there now; slow ones if there is no other.

    Those with the code of both revisions come first; then those that can only repeat the newer one.
    """
    has = select(models.Point.worker).where(models.Point.series_id == suspicion.series.id)
    query = select(models.WorkerRow.name, models.WorkerRow.revisions).where(
        models.WorkerRow.name.in_(has),
        models.WorkerRow.last_seen_at > now - worker_choice.LATELY,
        models.WorkerRow.drained_at.is_(None),
    )
    here = pairs(session, query.order_by(models.WorkerRow.name))
    apart = worker_choice.able(here, suspicion.last_good, suspicion.first_bad)
    there = apart or worker_choice.able(here, suspicion.first_bad, suspicion.first_bad)
    return [worker for worker in there if worker not in ill] or there


def _started_since(session: Session, since: datetime) -> int:
    lately = select(func.count()).select_from(models.ConfirmationRow)
    return session.execute(lately.where(models.ConfirmationRow.created_at > since)).scalar_one()
