"""Spreads the cases of a comparison over workers with equal GPUs: each case stays on one of them.

Both sides of a pair are always measured on one device, so cases do not care where others are.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy.orm import Session

from service.analysis import gate
from service.analysis.gate.decision import Case
from service.comparisons import worker_choice
from service.models import ComparisonJob, ComparisonRow
from service.schemas.comparisons import ComparisonRequest

Places = dict[int, str]
"""By the place of a case: its worker."""


def of(row: ComparisonRow, made: Sequence[ComparisonJob]) -> Places:
    """Give the worker of each case that has been begun."""
    return {one.case_place: one.worker or row.worker or "" for one in made}


def names(row: ComparisonRow, made: Sequence[ComparisonJob]) -> list[str]:
    """Name the comparison's workers, the one that was chosen first at the beginning."""
    return list(dict.fromkeys(filter(None, (row.worker, *of(row, made).values()))))


def waited_for(row: ComparisonRow, made: Sequence[ComparisonJob]) -> list[str]:
    """Name the workers that have something of the comparison to do."""
    workers = [one.worker or row.worker for one in made if one.measured is None]
    return list(dict.fromkeys(filter(None, workers)))


def free(
    session: Session,
    row: ComparisonRow,
    request: ComparisonRequest,
    made: Sequence[ComparisonJob],
    now: datetime,
) -> tuple[list[str], Places]:
    """Name the workers that may measure the next pair, and give the worker of each case.

    They are the comparison's own that have nothing of it to do, and idle ones with such a GPU while
    a case is nobody's: it has not been begun, or its worker is gone and has measured nothing of it.
    """
    begun, own, busy = of(row, made), names(row, made), waited_for(row, made)
    here = [name for name in own if name not in busy]
    if row.worker is None or request.worker or row.is_step:
        return here, begun
    gone = worker_choice.gone(session, own, now)
    stays = {one.case_place for one in made if one.result_id is not None}
    kept = {at: worker for at, worker in begun.items() if at in stays or worker not in gone}
    able = [name for name in here if name not in gone]
    if len(kept) < len(row.cases):
        others = worker_choice.idle_beside(session, row.worker, request, now)
        able += (name for name in others if name not in {*able, *busy})
    return (able, kept) if able or not gone else (here, begun)


def next_pairs(
    workers: Sequence[str],
    begun: Places,
    cases: Sequence[Case],
    records: Sequence[gate.CaseRecord],
    request: ComparisonRequest,
    affordable: Sequence[float],
) -> Places:
    """Choose a case for each free worker: one of its own, or one that nobody has begun."""
    chosen: Places = {}
    for worker in workers:
        may = [
            place
            for place in range(len(cases))
            if begun.get(place, worker) == worker and place not in chosen
        ]
        for place in gate.next_places(cases, records, request.policy, affordable, may):
            chosen[place] = worker
    return chosen
