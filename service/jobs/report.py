"""Reports a submission: one row per case, and the comparison with another revision."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from sqlalchemy.orm import Session

from benchmarks import contracts
from benchmarks.catalog import catalog, suites
from benchmarks.catalog.factorial import Design, Levels
from benchmarks.diagnosis import disturbances
from service.analysis.factorial import estimate
from service.analysis.summary import summarise
from service.history import compare, queries, record, replicates
from service.history.run_noise import spreads_of
from service.history.types import StoredResult
from service.jobs import compile_cost, suggestions
from service.jobs.submissions import load_submission
from service.schemas.errors import UnknownChoice
from service.schemas.jobs import JobView
from service.schemas.reports import CompileCost, Effects, Report, Row, Summary
from service.schemas.series import Ratio, RevisionChange, Series, SeriesPoint
from service.wording import formats

METRIC = "throughput"


def load(session: Session, submission_id: str, against: str | None = None) -> Report:
    """Put the report of a submission together.

    Raises:
        NotFound: there is no such submission.
    """
    submission = load_submission(session, submission_id)
    cases: dict[str, list[JobView]] = {}
    for job in submission.jobs:
        cases.setdefault(job.group_id, []).append(job)
    jobs = {name: [job.id for job in of_case] for name, of_case in cases.items()}
    stored = replicates.of_cases(session, jobs)
    out = queries.taken_out(session, [part for one in stored.values() for part in one.parts])
    compared = _compared(stored, out)
    changes: list[RevisionChange] = []
    if against is not None:
        asked = [_case(jobs[0], stored.get(name)) for name, jobs in cases.items()]
        both = (against, submission.revision)
        changes = changes_between(session, *both, METRIC, asked, submission.project)
    return Report(
        submission_id=submission.id,
        suite=submission.suite,
        revision=submission.revision,
        finished=submission.finished,
        rows=tuple(rows(cases, stored, out)),
        against=against,
        changes=tuple(changes),
        effects=effects_of(submission.suite, compared),
        advice=suggestions.at_the_fastest(session, submission, compared),
    )


def effects_of(suite: str | None, stored: Sequence[StoredResult]) -> tuple[Effects, ...]:
    """Estimate the effects of each of the suite's designs that has any result.

    A design's runs must come from one kind of hardware and data: that of its first result. What
    was measured elsewhere does not count.
    """
    known = suites.suites().get(suite) if suite is not None else None
    designs = known.designs if known is not None else ()
    rates = [(design, _rates(design, stored)) for design in designs]
    return tuple(estimate(design, known) for design, known in rates if known)


def _rates(design: Design, stored: Sequence[StoredResult]) -> dict[Levels, float]:
    """Throughput of each of the design's runs that has one."""
    levels_of = {catalog.normalise(design.case(levels)).key: levels for levels in design.runs()}
    rates: dict[Levels, float] = {}
    here: dict[str, str] | None = None
    for result in stored:
        rate = _summary(result.result, METRIC)
        levels = levels_of.get(result.result.case.model_copy(update={"preset": "auto"}).key)
        if rate is None or levels is None or rate[0].value <= 0:
            continue
        where = result.result.environment.comparability()
        here = where if here is None else here
        if where == here:
            rates[levels] = rate[0].value
    return rates


def changes_between(
    session: Session,
    baseline: str,
    contender: str,
    metric: str,
    cases: Sequence[contracts.Case] | None = None,
    project: str | None = None,
) -> list[RevisionChange]:
    """Compare two revisions in every series, or in those of some cases or a project."""
    both = [baseline, contender]
    histories = queries.points_of_revisions(session, metric, both)
    failures = queries.failures_of_revisions(session, both)
    if project is not None:
        histories = [series for series in histories if series.project == project]
        failures = [failure for failure in failures if failure.project == project]
    known = _known(session, histories)
    return compare.compare_all(histories, baseline, contender, metric, cases, failures, known)


def _known(session: Session, histories: Sequence[Series]) -> compare.Known:
    environments = {point.environment for series in histories for point in series.points}
    return compare.Known(
        spreads=spreads_of(session, [series.id for series in histories]),
        code=queries.code_of(session, sorted(environments)),
    )


def cases_of(suite: str) -> list[contracts.Case]:
    """The cases of a suite as they are submitted and measured.

    Raises:
        UnknownChoice: there is no such suite.
    """
    try:
        return [catalog.normalise(case) for case in suites.suite(suite).cases]
    except catalog.UnknownName as error:
        raise UnknownChoice(str(error)) from error


def rows(
    cases: Mapping[str, Sequence[JobView]],
    stored: Mapping[str, StoredResult],
    out: Mapping[str, str],
) -> list[Row]:
    """One row per case, in the order of the submission.

    Args:
        cases: the jobs of each case of the submission, by group.
        stored: the result of each case that has one, by group.
        out: the results that somebody took out, with the reasons: shown, and compared with nothing.
    """
    compared = _compared(stored, out)
    counted = {one.id for one in compared}
    table = []
    for group_id, jobs in cases.items():
        result = stored.get(group_id)
        parts = result.parts if result is not None else ()
        excluded = [out[part] for part in parts if part in out]
        if excluded:
            row = replace(_row(jobs, result, ()), reason=f"Excluded: {excluded[0]}")
        else:
            counts = result is not None and result.id in counted
            row = _row(jobs, result, compared if counts else ())
        table.append(row)
    return table


def _compared(stored: Mapping[str, StoredResult], out: Mapping[str, str]) -> list[StoredResult]:
    return [
        one
        for one in stored.values()
        if not out.keys() & set(one.parts) and not record.disturbed(one.result)
    ]


def _row(
    jobs: Sequence[JobView], stored: StoredResult | None, among: Sequence[StoredResult]
) -> Row:
    state = contracts.leading(job.state for job in jobs)
    job = next(job for job in jobs if job.state is state)
    result = stored.result if stored else None
    throughput = _shown(result, METRIC)
    memory = _shown(result, "peak_memory")
    compared = (result.parity, result.long_parity) if result else ()
    verdict = result.verdict if result else None
    return Row(
        job_id=jobs[0].id,
        result_id=stored.id if stored else None,
        case=_case(job, stored),
        state=job.state,
        status=result.status.value if result else None,
        reason=(result.reason if result else "") or job.reason,
        throughput=throughput[0] if throughput else None,
        unit=throughput[1] if throughput else "",
        speedup=_speedup(stored, among) if stored else None,
        bottleneck=verdict.bottleneck.value if verdict else None,
        verdict=verdict.sentence if verdict else "",
        peak_memory_b=memory[0].value if memory else None,
        parity=_parity(result),
        parity_reason=" ".join(one.reason for one in compared if one and one.reason),
        mfu=formats.mfu(result.efficiency) if result else None,
        compile_cost=_compile_cost(stored, among) if stored else None,
        flags=disturbances.every(result) if result else (),
        disturbed=record.disturbed(result) if result else "",
    )


def _compile_cost(stored: StoredResult, among: Iterable[StoredResult]) -> CompileCost | None:
    eager_case = compile_cost.eager_of(stored.result.case)
    if eager_case is None or stored.result.status is not contracts.Status.OK:
        return None
    eager = _beside(stored, eager_case, among)
    return compile_cost.cost(stored.result, eager.result) if eager else None


def _parity(result: contracts.Result | None) -> str | None:
    if result is None:
        return None
    if result.status is contracts.Status.PARITY_FAIL:  # for NaN, or a loss that ends higher, too
        return contracts.ParityStatus.FAIL.value
    return result.parity.status.value if result.parity else None


def _shown(result: contracts.Result | None, metric: str) -> tuple[Summary, str] | None:
    if result is not None and result.status is contracts.Status.PARITY_FAIL:
        result = (
            result.model_copy(update={"status": contracts.Status.OK}) if result.samples else None
        )
    return _summary(result, metric)


def _case(job: JobView, stored: StoredResult | None) -> contracts.Case:
    return stored.result.case if stored else job.case


def _summary(result: contracts.Result | None, metric: str) -> tuple[Summary, str] | None:
    if result is None or result.status is not contracts.Status.OK:
        return None
    samples = [sample for sample in result.samples if sample.metric == metric]
    return (summarise(samples[0]), samples[0].unit) if samples else None


def _speedup(stored: StoredResult, among: Iterable[StoredResult]) -> Ratio | None:
    baseline = _beside(stored, catalog.baseline(stored.result.case), among)
    if baseline is None or baseline.id == stored.id:
        return None
    contender, base = _point(stored), _point(baseline)
    return compare.ratio(contender, base) if contender and base else None


def _beside(
    stored: StoredResult, case: contracts.Case, among: Iterable[StoredResult]
) -> StoredResult | None:
    """The result of another case on comparable hardware."""
    here = stored.result.environment.comparability()
    for other in among:
        same = other.result.case == case and other.result.status is contracts.Status.OK
        if same and other.result.environment.comparability() == here:
            return other
    return None


def _point(stored: StoredResult) -> SeriesPoint | None:
    measured = _summary(stored.result, METRIC)
    if measured is None:
        return None
    summary = measured[0]
    return SeriesPoint(
        result_id=stored.id,
        revision=stored.revision,
        revision_at=stored.received_at,
        measured_at=stored.result.measured_at,
        value=summary.value,
        low=summary.low,
        high=summary.high,
        interval=summary.interval,
        replicates=summary.replicates,
        environment=stored.environment,
        worker=stored.worker,
    )
