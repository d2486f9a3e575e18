"""The jobs of a comparison: what they measured, and the next ones to submit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from benchmarks import contracts
from service.analysis import gate
from service.database.session import pairs
from service.history import queries
from service.history.types import StoredResult
from service.jobs import leases
from service.models import Attempt, ComparisonJob, ComparisonRow, Job
from service.schemas.gate import Side, Used


def of(session: Session, comparison_id: str) -> list[ComparisonJob]:
    """Every job of a comparison, in the order of submission."""
    query = select(ComparisonJob).where(ComparisonJob.comparison_id == comparison_id)
    query = query.order_by(ComparisonJob.place).execution_options(populate_existing=True)
    return list(session.scalars(query))


def take_note(session: Session, tries: Sequence[ComparisonJob]) -> int:
    """Keep a few numbers of each side whose job has ended; return how many sides still wait."""
    waiting = [one for one in tries if one.measured is None]
    done = select(Job.id, Job.reason).where(
        Job.id.in_({one.job_id for one in waiting}), Job.state.in_(contracts.FINAL_STATES)
    )
    ended = pairs(session, done)
    counted = queries.counted_results(session, list(ended))
    noted = [one for one in waiting if one.job_id in ended]
    for one in noted:
        _keep(session, one, counted.get(one.job_id), ended[one.job_id])
    session.flush()
    return len(waiting) - len(noted)


def _keep(session: Session, row: ComparisonJob, stored: StoredResult | None, reason: str) -> None:
    measured = (
        gate.Measured.missing(reason[:500])
        if stored is None
        else gate.Measured.of(gate.side_of(stored.result, Side(row.side)))
    )
    same = ComparisonJob.comparison_id == row.comparison_id, ComparisonJob.place == row.place
    session.execute(
        update(ComparisonJob)
        .where(*same, ComparisonJob.measured.is_(None))
        .values(
            measured=measured.model_dump(mode="json"),
            attempt=stored and stored.attempt,
            worker=stored.worker if stored else row.worker,
            result_id=stored and stored.id,
        )
    )


def of_own_workers(tries: Sequence[ComparisonJob]) -> list[ComparisonJob]:
    """Leave out what was asked of a case's earlier workers: they went and measured nothing."""
    last = {one.case_place: one.worker for one in tries}
    return [one for one in tries if one.worker == last[one.case_place]]


def records(row: ComparisonRow, tries: Sequence[ComparisonJob]) -> list[gate.CaseRecord]:
    """Give the record of each case's pairs, in the order of the cases."""
    case_records, own = [], of_own_workers(tries)
    noises = row.noise or [{}] * len(row.cases)
    for place, (case, noise) in enumerate(zip(row.cases, noises, strict=True)):
        jobs = [one for one in own if one.case_place == place]
        sides: dict[int, dict[str, gate.Measured]] = {}
        for one in jobs:
            pair = sides.setdefault(one.pair, {})
            if one.measured is not None:
                pair[one.side] = gate.Measured.model_validate(one.measured)
        keys = (one_side.case_key for pair in sides.values() for one_side in pair.values())
        key = next(filter(None, keys), contracts.Case.model_validate(case).key)
        pairs = tuple(gate.Pair(**sides[number]) for number in sorted(sides))
        record = {
            "case_key": key,
            "pairs": pairs,
            "one_revision": row.baseline == row.contender,
            "known": noise,
            "is_step": row.is_step,
        }
        case_records.append(gate.CaseRecord.model_validate(record))
    return case_records


def used(
    records_: Sequence[gate.CaseRecord], tries: Sequence[ComparisonJob], max_pairs: int
) -> tuple[Used, ...]:
    """Every attempt, and whether its pair was compared."""
    compared, own = set(), of_own_workers(tries)
    for place, record in enumerate(records_):
        whole = [number for number, pair in enumerate(record.pairs) if pair.whole]
        compared |= {(place, number) for number in whole[:max_pairs]}
    return tuple(
        Used(
            case_key=records_[one.case_place].case_key,
            pair=one.pair,
            side=Side(one.side),
            job_id=one.job_id,
            attempt=one.attempt,
            worker=one.worker,
            device=(one.measured or {}).get("device", ""),
            result_id=one.result_id,
            compared=one in own and (one.case_place, one.pair) in compared,
        )
        for one in tries
    )


def last_loss(session: Session, comparison_id: str) -> str:
    """Say which attempt of a job that has not ended was lost last; empty if none was."""
    of_it = ComparisonJob.comparison_id == comparison_id, Job.state.not_in(contracts.FINAL_STATES)
    lost = (
        select(Attempt.worker, Attempt.number, Attempt.job_id, Attempt.reason)
        .join(ComparisonJob, ComparisonJob.job_id == Attempt.job_id)
        .join(Job, Job.id == Attempt.job_id)
        .where(*of_it, Attempt.state == contracts.AttemptState.LOST)
        .order_by(Attempt.ended_at.desc(), Attempt.job_id.desc(), Attempt.number.desc())
    )
    attempt = session.execute(lost.limit(1)).first()
    if attempt is None:
        return ""
    worker, number, job_id, reason = attempt
    return f"Worker {worker} lost attempt {number} of job {job_id}: {reason}"


def submit(
    session: Session,
    row: ComparisonRow,
    tries: Sequence[ComparisonJob],
    workers: Mapping[int, str],
    now: datetime,
) -> None:
    """Queue one pair of each case for the worker that its place has: A B, then B A, then A B again.

    Turning every other pair around keeps a drift of the machine from favouring one side. A job
    that measures both sides stands at the place of the first.
    """
    request = row.parsed_request
    known = records(row, tries)
    place = len(tries)
    for case_place, worker in workers.items():
        asked = sum((one.case_place, one.worker) == (case_place, worker) for one in tries)
        pair = asked // 2
        turned = (pair + (request.probe or 0)) % 2
        sides = (*Side,)[::-1] if turned else (*Side,)
        specs = _specs(row, case_place, worker, known[case_place], sides[0])
        jobs = {}
        for offset, (side, spec) in enumerate(specs.items()):
            at = row.baseline_submission if side is Side.BASELINE else row.contender_submission
            [jobs[side]] = leases.submit(session, [spec], at, now, first=place + offset)
        for side in sides:
            session.add(
                ComparisonJob(
                    comparison_id=row.id,
                    place=place,
                    case_place=case_place,
                    pair=pair,
                    side=side.value,
                    job_id=jobs.get(side, jobs[Side.CONTENDER]),
                    worker=worker,
                )
            )
            place += 1
    session.flush()


def _specs(
    row: ComparisonRow,
    case_place: int,
    worker: str,
    record: gate.CaseRecord,
    first: Side,
) -> dict[Side, contracts.JobSpec]:
    """The jobs of a pair in their order, by side; one that measures both is the contender's.

    The passes beside timing, parity among them, are asked for until a case has a whole pair: a
    process that ended in an accident has told nothing of them, and the pair in its place must.
    """
    request = row.parsed_request
    assert request.protocol is not None
    asked = request.protocol.model_copy(update={"long_parity": False})  # old revisions have none
    timing = record.whole or request.probe is not None
    protocol = asked.timing_only() if timing else asked
    contender = contracts.JobSpec(
        case=contracts.Case.model_validate(row.cases[case_place]),
        revision=row.contender,
        protocol=protocol,
        purpose=contracts.Purpose.COMPARISON,
        requires=request.requires | {"worker": worker},
        priority=request.priority,
        timeout_s=request.timeout_s,
    )
    if request.duet and gate.may_be_in_turn(record, request.policy):
        only_parity = protocol.timing_only().model_copy(update={"parity": protocol.parity})
        duet = contracts.Duet(baseline=row.baseline, baseline_first=first is Side.BASELINE)
        both = contender.model_copy(update={"protocol": only_parity, "duet": duet})
        return {Side.CONTENDER: both}
    baseline = contender.model_copy(update={"revision": row.baseline})
    specs = {Side.BASELINE: baseline, Side.CONTENDER: contender}
    return {first: specs.pop(first), **specs}
