"""Puts the replicates of a case together: each is a process, with a job and a result of its own.

A history has nothing of a case before its last replicate is in, and no part of one of which a
replicate failed. A point of fewer processes is noisier than its neighbours: it would be suspected
and be measured again at night, while the rest waits in the queue, and all of that anew with each
replicate. So a case is analysed once, as what it is when it is whole.

Results of one worker, environment and preset are one point. Where a worker went away or a driver
was replaced in between, each part is a point of its own, with as many processes as it has: like a
case that somebody measured once more by hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session, aliased

from benchmarks.contracts import Result, Status
from benchmarks.contracts.bounds import without_traces
from benchmarks.diagnosis.disturbances import every
from benchmarks.diagnosis.merge import merge, samples_of
from service.database.session import alone
from service.history import queries
from service.history.types import StoredResult
from service.models import Job, ResultRow

_GOOD = (ResultRow.counted, ResultRow.status == Status.OK)


def whole(session: Session, group_id: str, replicates: int) -> list[StoredResult]:
    """The parts of a case whose last replicate has just come; none if it is not whole.

    Two that come at once are looked at one after the other, so that the second sees both.
    """
    alone(session, f"group {group_id}")
    return parts_of_whole(session, group_id, replicates)


def parts_of_whole(session: Session, group_id: str, replicates: int) -> list[StoredResult]:
    """The parts of a case whose replicates are all in and good; none before, and none else."""
    good = select(ResultRow.job_id).join(Job, Job.id == ResultRow.job_id)
    job_ids = session.scalars(good.where(Job.group_id == group_id, *_GOOD)).all()
    if len(job_ids) != replicates:
        return []
    return together(list(queries.counted_results(session, job_ids, traces=True).values()))


def with_others(session: Session, stored: StoredResult) -> StoredResult:
    """Give a result together with the other replicates of its case, as its point has them.

    One that failed, that came too late, or whose case has one replicate stands alone.
    """
    parts = part_of(session, stored.id)
    if len(parts) == 1:
        return stored
    return together([queries.load_result(session, name) for name in parts])[0]


def of_cases(session: Session, groups: Mapping[str, Sequence[str]]) -> dict[str, StoredResult]:
    """The result of each case that has one, by its group, without its traces.

    It is the first that failed; else, once the case is whole, the largest of its parts.

    Args:
        session: to read in; the documents of few cases are in memory at a time.
        groups: the jobs of each case.
    """
    by_group = {}
    for some in _batches(groups):
        job_ids = [job_id for _, of_case in some for job_id in of_case]
        by_job = queries.counted_results(session, job_ids, traces=True)
        for group_id, of_case in some:
            results = [by_job[job_id] for job_id in of_case if job_id in by_job]
            if case := _case(results, len(of_case)):
                by_group[group_id] = replace(case, result=without_traces(case.result))
    return by_group


def _batches(groups: Mapping[str, Sequence[str]]) -> Iterator[list[tuple[str, Sequence[str]]]]:
    """Give the cases in lists of at most `queries.BATCH` jobs, but at least one case each."""
    batch: list[tuple[str, Sequence[str]]] = []
    jobs = 0
    for group_id, job_ids in groups.items():
        if batch and jobs + len(job_ids) > queries.BATCH:
            yield batch
            batch, jobs = [], 0
        batch.append((group_id, job_ids))
        jobs += len(job_ids)
    if batch:
        yield batch


def _case(results: Sequence[StoredResult], replicates: int) -> StoredResult | None:
    if failed := [one for one in results if one.result.status is not Status.OK]:
        return min(failed, key=lambda one: one.replicate)
    if not results or len(results) != replicates:
        return None
    return max(together(results), key=lambda part: len(part.parts))


def part_of(session: Session, result_id: str) -> list[str]:
    """The results that are one point with this one, itself among them, in their order.

    A result that can be no point is its own part.
    """
    names = (Job.group_id, ResultRow.worker, ResultRow.environment, ResultRow.case_key)
    joined = (ResultRow, Job, Job.id == ResultRow.job_id)
    query = select(*names).join_from(*joined).where(ResultRow.id == result_id, *_GOOD)
    row = session.execute(query).first()
    if row is None:
        return [result_id]
    same = (name == value for name, value in zip(names, row, strict=True))
    ids = select(ResultRow.id).join_from(*joined).where(*same, *_GOOD)
    return list(session.scalars(ids.order_by(ResultRow.replicate)))


def received_after(session: Session, result_ids: Sequence[str], at: datetime) -> frozenset[str]:
    """Those of points' results whose point came after a time: with the last of its replicates."""
    first, last = aliased(Job), aliased(ResultRow)
    came = (
        select(last.id)
        .join(Job, Job.id == last.job_id)
        .join(first, first.group_id == Job.group_id)
        .where(first.id == ResultRow.job_id, last.received_at > at)
        .where(last.counted | (last.id == ResultRow.id))
    )
    late = select(ResultRow.id).where(ResultRow.id.in_(result_ids), came.exists())
    return frozenset(session.scalars(late))


def together(results: Sequence[StoredResult]) -> list[StoredResult]:
    """One result of each part of a case, out of good results of its replicates.

    It has the id and the place of the part's first replicate; ``parts`` names all of them.
    """
    parts: dict[tuple[str, str, str], list[StoredResult]] = {}
    for one in sorted(results, key=lambda one: one.replicate):
        parts.setdefault((one.worker, one.environment, one.result.case.key), []).append(one)
    return [
        replace(
            part[0],
            result=_merged([one.result for one in part], cold=part[0].replicate == 1),
            parts=tuple(one.id for one in part),
        )
        for part in parts.values()
    ]


def _merged(results: Sequence[Result], *, cold: bool) -> Result:
    try:
        return merge(results, cold=cold)
    except (ValueError, ArithmeticError):  # numbers out of which no verdict can be made
        joined = {"samples": samples_of(results, cold=cold), "flags": every(*results)}
        return results[0].model_copy(update=joined)
