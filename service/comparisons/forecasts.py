"""Forecasts a comparison: from earlier ones on such a device, else from its histories."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from benchmarks import contracts
from benchmarks.catalog import catalog
from service import models
from service.analysis.gate.forecast import Expected, forecast
from service.analysis.gate.noise import STORED, KnownNoise, PairNoise
from service.comparisons import case_workers, pair_times, worker_choice
from service.history.run_noise import spreads_of
from service.models.bisections import PROBES
from service.schemas import gate as schemas
from service.schemas.comparisons import ComparisonRequest
from service.wording.statements import worded

Noises = Mapping[str, list[schemas.MetricFinding]]
"""By key of a case: what each gate found on the metric that decides."""


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
    pairs_s = pair_times.of(session, row, request, cases, alike)
    for case, before, times_s in zip(cases, known, pairs_s, strict=True):
        noise = before.noise
        if noise is None and alike:
            noise = _of_series(session, case, request, alike)
        expected.append(Expected(case.key, noise, *times_s))
    workers = len(set(case_workers.of(row, made).values())) or 1
    told = forecast(expected, request.policy, request.budget_s, workers)
    return tuple(
        schemas.CaseForecast[str].model_validate(worded(one.model_dump(mode="json")))
        for one in told
    )


def pair_times_s(
    session: Session, row: models.ComparisonRow, request: ComparisonRequest
) -> list[tuple[float, float]]:
    """Seconds of the first and of each later pair of every case."""
    alike, cases = _setting(session, row)
    return pair_times.of(session, row, request, cases, alike)


def known_noise(
    session: Session, row: models.ComparisonRow, request: ComparisonRequest
) -> list[dict[str, Any]]:
    """Read the noise of each case from earlier comparisons, as JSON to store with this one."""
    alike, cases = _setting(session, row)
    known = _known(session, row, request, cases, alike)
    return list(STORED.dump_python(known, mode="json"))


def _known(
    session: Session,
    row: models.ComparisonRow,
    request: ComparisonRequest,
    cases: Sequence[contracts.Case],
    alike: Collection[str],
) -> list[KnownNoise]:
    """By the place of a case: what was stored when the first pairs were submitted, else what is
    known now."""
    if row.noise is not None:
        return STORED.validate_python(row.noise)
    earlier = _earlier(session, row, request, alike)
    metrics = (request.policy.rule_of(case.key).limits[0].metric for case in cases)
    return [
        KnownNoise.of_gates(metric, earlier.get(case.key, []))
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
            ~models.ComparisonRow.source.startswith(PROBES),  # one pair tells no noise
        )
        .where(models.ComparisonRow.worker.in_(alike))
        .order_by(models.ComparisonRow.id.desc())
        .limit(pair_times.GATES)
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
) -> PairNoise | None:
    """Take two processes of one night to differ as those of the case's history do."""
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
        PairNoise(
            deviation=math.sqrt(2 * spread.process.value * spread.processes),
            freedom=spread.process.freedom,
            known_by=schemas.NoiseSource.SERIES,
        )
        for spread in spreads_of(session, series).values()
        if spread.process
    ]
    return max(known, key=lambda noise: noise.freedom, default=None)
