"""Forecasts a comparison: from earlier ones on such a device, else from its histories."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from statistics import median
from typing import Any

from sqlalchemy import and_, select
from sqlalchemy.orm import Session

from benchmarks import contracts
from benchmarks.catalog import catalog, duration
from service import models
from service.analysis.gate import forecast, noise
from service.comparisons import case_workers, worker_choice
from service.history.run_noise import spreads_of
from service.schemas import gate as schemas
from service.schemas.comparisons import ComparisonRequest
from service.wording.statements import worded

Noises = Mapping[str, list[schemas.MetricFinding]]
"""By key of a case: what each gate found on the metric that decides."""
GATES = 20
"""Newest comparisons that tell of today's drivers and machines."""
LEAST_S = 1.0
"""No pair of fresh processes is shorter."""


def of(
    session: Session,
    row: models.ComparisonRow,
    request: ComparisonRequest,
    made: Sequence[models.ComparisonJob],
) -> tuple[schemas.CaseForecast[str], ...]:
    """Forecast each case of a comparison that runs; of one that is over, nothing."""
    if row.state != models.ComparisonState.RUNNING:
        return ()
    alike, cases = _setting(session, row)
    known = _known(session, row, request, cases, alike)
    expected = []
    pairs_s = _times_s(session, row, request, cases, alike)
    for case, before, times_s in zip(cases, known, pairs_s, strict=True):
        spread = before.noise
        if spread is None and alike:
            spread = _of_series(session, case, request, alike)
        expected.append(forecast.Expected(case.key, spread, *times_s))
    workers = len(set(case_workers.of(row, made).values())) or 1
    told = forecast.forecast(expected, request.policy, request.budget_s, workers)
    return tuple(
        schemas.CaseForecast[str].model_validate(worded(one.model_dump(mode="json")))
        for one in told
    )


def pair_times_s(
    session: Session, row: models.ComparisonRow, request: ComparisonRequest
) -> list[tuple[float, float]]:
    """Seconds of the first and of each later pair of every case."""
    alike, cases = _setting(session, row)
    return _times_s(session, row, request, cases, alike)


def known_noise(
    session: Session, row: models.ComparisonRow, request: ComparisonRequest
) -> list[dict[str, Any]]:
    """Read the noise of each case from earlier comparisons, as JSON to store with this one."""
    alike, cases = _setting(session, row)
    known = _known(session, row, request, cases, alike)
    return list(noise.STORED.dump_python(known, mode="json"))


def _known(
    session: Session,
    row: models.ComparisonRow,
    request: ComparisonRequest,
    cases: Sequence[contracts.Case],
    alike: Collection[str],
) -> list[noise.KnownNoise]:
    """By the place of a case: what was stored when the first pairs were submitted, else what is
    known now."""
    if row.noise is not None:
        return noise.STORED.validate_python(row.noise)
    earlier = _earlier(session, row, request, alike)
    metrics = (request.policy.rule_of(case.key).limits[0].metric for case in cases)
    return [
        noise.KnownNoise.of_gates(metric, earlier.get(case.key, []))
        for metric, case in zip(metrics, cases, strict=True)
    ]


def _setting(
    session: Session, row: models.ComparisonRow
) -> tuple[dict[str, str], list[contracts.Case]]:
    """Find the workers with such a device, and the cases as they run on it."""
    alike = worker_choice.alike(session, row.worker)
    return alike, _as_they_run(row, alike.get(row.worker or ""))


def _as_they_run(row: models.ComparisonRow, device: str | None) -> list[contracts.Case]:
    """The cases with the preset that ``device`` gives them, by which a policy's rules go; as they
    were submitted where no device is chosen."""
    cases = [contracts.Case.model_validate(document) for document in row.cases]
    return [_normalised(case, device) or case for case in cases]


def _normalised(case: contracts.Case, device: str | None) -> contracts.Case | None:
    try:
        return catalog.normalise(case, device) if device else None
    except ValueError:  # an earlier version's case, or one that no such device can do
        return None


def _earlier(
    session: Session, row: models.ComparisonRow, request: ComparisonRequest, alike: Collection[str]
) -> Noises:
    """Read what the newest comparisons before this one found, measured as this one will be."""
    query = (
        select(models.ComparisonRow.request, models.ComparisonRow.decision["cases"])
        .where(
            models.ComparisonRow.state == models.ComparisonState.DECIDED,
            models.ComparisonRow.id < row.id,
            ~models.ComparisonRow.source.startswith(models.PROBES),  # one pair tells no noise
        )
        .where(models.ComparisonRow.worker.in_(alike))
        .order_by(models.ComparisonRow.id.desc())
        .limit(GATES)
    )
    found: dict[str, list[schemas.MetricFinding]] = {}
    for asked, decided in session.execute(query):
        if asked.get("duet", False) != request.duet:
            continue
        for case in decided:
            key = case["case_key"]
            metric = request.policy.rule_of(key).limits[0].metric
            found.setdefault(key, []).extend(
                schemas.MetricFinding.model_validate(one)
                for one in case["metrics"]
                if one["metric"] == metric and one.get("noise") is not None
            )
    return found


def _of_series(
    session: Session, case: contracts.Case, request: ComparisonRequest, alike: Mapping[str, str]
) -> noise.PairNoise | None:
    """Take two processes of one night to differ as those of the case's history do.

    A history of one process a night tells only what process and night make together, which is more.
    """
    known_as = (_normalised(case, device) for device in set(alike.values()))
    keys = {one.key for one in known_as if one is not None}
    metric = request.policy.rule_of(case.key).limits[0].metric
    measured = select(models.Point.result_id).where(
        models.Point.series_id == models.SeriesRow.id, models.Point.worker.in_(alike)
    )
    query = select(models.SeriesRow.id).where(
        models.SeriesRow.case_key.in_(keys), models.SeriesRow.metric == metric
    )
    series = session.scalars(query.where(measured.exists()).order_by(models.SeriesRow.id)).all()
    known = [
        noise.PairNoise(
            deviation=math.sqrt(2 * square.value * spread.processes),
            freedom=square.freedom,
            known_by=schemas.NoiseSource.SERIES,
        )
        for spread in spreads_of(session, series).values()
        if (square := spread.process or spread.night)
    ]
    return max(known, key=lambda one: one.freedom, default=None)


def _times_s(
    session: Session,
    row: models.ComparisonRow,
    request: ComparisonRequest,
    cases: Sequence[contracts.Case],
    alike: Collection[str],
) -> list[tuple[float, float]]:
    """Seconds of the first and of each later pair of every case of a comparison.

    ``cases`` are its cases as they run on its device, ``alike`` the workers with such a device.
    """
    assert request.protocol is not None
    taken = _taken_s(session, row, alike) if request.duet else {}
    times_s = []
    for asked, case in zip(row.cases, cases, strict=True):
        if request.duet and request.policy.in_turn(case.key):
            first, later = taken.get(contracts.Case.model_validate(asked).key, ([], []))
            told = duration.pair_s(case)
            times_s.append((_median_s(first, told[0]), _median_s(later, told[1])))
        else:
            later_s = duration.expected_s(case, request.protocol.timing_only())
            times_s.append((2 * duration.expected_s(case, request.protocol), 2 * later_s))
    return times_s


def _median_s(taken_s: Sequence[float], told_s: float) -> float:
    return max(LEAST_S, median(taken_s)) if taken_s else told_s


def _taken_s(
    session: Session, row: models.ComparisonRow, alike: Collection[str]
) -> dict[str, tuple[list[float], list[float]]]:
    """Seconds of first and of later pairs, by key of the case as asked, in the newest
    comparisons."""
    newest = (
        select(models.ComparisonRow.id)
        .where(models.ComparisonRow.worker.in_(alike), models.ComparisonRow.id <= row.id)
        .order_by(models.ComparisonRow.id.desc())
        .limit(GATES)
    )
    case = models.ComparisonJob.comparison_id, models.ComparisonJob.case_place
    query = (
        select(
            *case,
            models.Job.case_key,
            models.Job.spec["duet"],
            models.Attempt.started_at,
            models.Attempt.ended_at,
        )
        .join(models.Job, models.Job.id == models.ComparisonJob.job_id)
        .join(
            models.Attempt,
            and_(
                models.Attempt.job_id == models.Job.id, models.Attempt.number == models.Job.attempt
            ),
        )
        .where(models.ComparisonJob.comparison_id.in_(list(session.scalars(newest))))
        .where(
            models.ComparisonJob.side == schemas.Side.CONTENDER,
            models.Job.state == contracts.JobState.SUCCEEDED,
        )
        .order_by(*case, models.ComparisonJob.place)
    )
    measured = [one for one in session.execute(query) if one[3] and one.started_at and one.ended_at]
    taken: dict[str, tuple[list[float], list[float]]] = {}
    for _, jobs in groupby(measured, lambda one: one[:2]):
        for place, job in enumerate(jobs):
            of_case = taken.setdefault(job.case_key, ([], []))
            of_case[place > 0].append((job.ended_at - job.started_at).total_seconds())
    return taken
