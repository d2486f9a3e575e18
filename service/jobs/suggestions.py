"""Suggests what to try next, as the other results of the same revision bear it out.

A result is stored with what its own evidence speaks for, as nothing else may be measured yet. What
its neighbours in the matrix gave is looked up when it is read; what is stored stays as it came.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from sqlalchemy.orm import Session

from benchmarks.contracts import Result, Status
from benchmarks.diagnosis import conclude
from benchmarks.diagnosis.suggestions import rate_that_counts
from service.analysis.summary import summarise
from service.history import neighbours
from service.history.neighbours import MeasuredNeighbour
from service.history.types import StoredResult
from service.schemas.jobs import SubmissionSummary
from service.schemas.reports import Advice


def advised(session: Session, stored: StoredResult) -> StoredResult:
    """A result as it is shown."""
    if stored.result.verdict is None:
        return stored
    among = neighbours.measured_at(session, stored.project, stored.revision, [stored.result])
    return replace(stored, result=_advised(stored.result, among))


def at_the_fastest(
    session: Session, submission: SubmissionSummary, results: Sequence[StoredResult]
) -> tuple[Advice, ...]:
    """Advise on the fastest case of each workload, preset and hardware among ``results``.

    Args:
        session: to read in; three queries, however many results.
        submission: that all of them are of.
        results: whole ones. What they gave counts before what the revision gave otherwise: a
            reader has it before his eyes, and those for a comparison are in no history.
    """
    leading = [result for result in _fastest(results) if result.verdict is not None]
    measured = neighbours.measured_in(session, results)
    known = {beside.place for beside in measured}
    others = neighbours.measured_at(session, submission.project, submission.revision, leading)
    among = [*measured, *(beside for beside in others if beside.place not in known)]
    with_advice = [_advised(result, among) for result in leading]
    return tuple(
        Advice(one.case, one.verdict.suggestions)
        for one in with_advice
        if one.verdict is not None and one.verdict.suggestions
    )


def _advised(result: Result, among: Iterable[MeasuredNeighbour]) -> Result:
    if result.verdict is None:
        return result
    metric = rate_that_counts(result.verdict)
    return conclude.advised(result, neighbours.neighbours_of(result, metric, among))


def _fastest(results: Iterable[StoredResult]) -> list[Result]:
    """Of each workload, preset and hardware, in the order of the first of each."""
    best: dict[tuple[object, ...], Result] = {}
    for stored in results:
        result = stored.result
        if result.status is Status.OK and _rate(result) > 0:
            hardware = tuple(sorted(result.environment.comparability().items()))
            group = (result.case.workload, result.case.preset, hardware)
            if group not in best or _rate(result) > _rate(best[group]):
                best[group] = result
    return list(best.values())


def _rate(result: Result) -> float:
    rates = (summarise(sample).value for sample in result.samples if sample.metric == "throughput")
    return next(rates, 0.0)
