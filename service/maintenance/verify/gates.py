"""Checks every comparison that passed: two codes, whole data, one sound device.

The gate is not asked again here. A pass is held against the stored results themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from benchmarks.contracts import Case, Status
from benchmarks.diagnosis import disturbances
from service.analysis.gate import Measured, Outcome
from service.history import queries
from service.history.types import StoredResult
from service.maintenance.verify.values import Breach
from service.models import ComparisonJob, ComparisonRow, ComparisonState

GATE = 10
BATCH = 16
"""Documents in memory at once: each may have many megabytes."""


def every_pass(session: Session) -> Iterator[list[Breach]]:
    """Yield the breaches of each comparison that passed, the oldest first."""
    decided = select(ComparisonRow).where(ComparisonRow.state == ComparisonState.DECIDED)
    for row in session.scalars(decided.order_by(ComparisonRow.id)):
        if row.decision is not None and row.decision.get("outcome") == Outcome.PASS:
            yield list(_breaches(session, row))


def _breaches(session: Session, row: ComparisonRow) -> Iterator[Breach]:
    query = (
        select(ComparisonJob)
        .where(ComparisonJob.comparison_id == row.id)
        .order_by(ComparisonJob.place)
    )
    tries = session.scalars(query).all()
    rested_on = _rested_on(row)
    subject = f"comparison {row.id}"
    if row.baseline == row.contender:
        yield Breach(GATE, subject, "it passed, and both of its sides are one revision")
    if not rested_on:
        yield Breach(GATE, subject, "it passed, and rests on no attempt at all")
    for place, case in enumerate(row.cases):
        of_place = [one for one in tries if one.case_place == place]
        name = Case.model_validate(case).key
        for sentence in _faults(session, of_place, rested_on):
            yield Breach(GATE, subject, f"it passed, and {sentence} for {name}")


def _rested_on(row: ComparisonRow) -> frozenset[str]:
    used = (row.decision or {}).get("used", [])
    return frozenset(one["job_id"] for one in used if one.get("compared"))


def _faults(
    session: Session, tries: Sequence[ComparisonJob], rested_on: frozenset[str]
) -> Iterator[str]:
    """Yield each reason why one case's attempts do not carry a pass."""
    stored = _results(session, [one.job_id for one in tries])
    if tries and all(_unsupported(stored.get(one.job_id)) for one in tries):
        return  # the device cannot do this case at either revision: there is nothing to compare
    compared = [one for one in tries if one.job_id in rested_on]
    sides: dict[int, set[str]] = {}
    for one in compared:
        sides.setdefault(one.pair, set()).add(one.side)
        result = stored.get(one.job_id)
        if result is None:
            yield f"the result of job {one.job_id} is missing"
        elif result.result.status is not Status.OK:
            yield f"job {one.job_id} ended {result.result.status.value}"
        elif disturbances.disturbances(result.result):
            names = ", ".join(disturbances.disturbances(result.result))
            yield f"job {one.job_id} was measured on a disturbed device ({names})"
        elif Measured.of(result.result).model_dump(mode="json") != one.measured:
            yield f"what was compared of job {one.job_id} is not what its result says"
    if not any(len(pair) == 2 for pair in sides.values()):
        yield "no pair of both revisions was compared"
    elif any(len(pair) != 2 for pair in sides.values()):
        yield "one revision was measured in a pair that lacks the other"
    devices = {(one.measured or {}).get("device") for one in compared}
    if len(devices) > 1 or len({one.worker for one in compared}) > 1:
        yield "the two revisions were measured on different devices"
    yield from _code(compared, stored)


def _code(compared: Sequence[ComparisonJob], stored: Mapping[str, StoredResult]) -> Iterator[str]:
    """Yield the reason, if any, why the two sides are not known to have run different code."""
    ran: dict[str, set[str]] = {}
    for one in compared:
        if one.job_id in stored:
            software = Measured.of(stored[one.job_id].result).software
            ran.setdefault(one.side, set()).add(software)
    sides = list(ran.values())
    if any("" in side for side in sides):
        yield "nobody knows which code ran"
    elif len(sides) == 2 and sides[0] & sides[1]:
        yield "both revisions ran the same code"


def _unsupported(stored: StoredResult | None) -> bool:
    return stored is not None and stored.result.status is Status.UNSUPPORTED


def _results(session: Session, job_ids: Sequence[str]) -> dict[str, StoredResult]:
    by_job: dict[str, StoredResult] = {}
    for start in range(0, len(job_ids), BATCH):
        by_job |= queries.counted_results(session, job_ids[start : start + BATCH])
    return by_job
