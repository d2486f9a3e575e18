"""Keeps which worker may do which jobs, so that a claim compares no labels.

Each pair of a worker and a requirement set that its labels meet has a row. The row's ``rank`` and
``place`` are a lower bound: no job of the set that this worker may begin stands before them in the
queue. Without a rank no job of the set waits. So the job that a worker does next is found at the
first rows of an index, however many sets wait and however many of them the worker meets. A drained
worker has no row, so a claim looks for nothing more to give it nothing.

Whoever puts jobs into the queue lowers the bounds (`wake`). Claims raise them, and only where rows
that were overtaken hide what a claim looks for; no claim writes here otherwise.

On PostgreSQL a bound is raised under a lock of its requirement set. Whoever queues a job of that
set holds a lock that excludes it, so no bound passes a job that is being committed.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, cast

from sqlalchemy import (
    Row,
    Select,
    Table,
    bindparam,
    delete,
    func,
    insert,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.orm import Session

from benchmarks.contracts import JobState, meets
from service.database.paging import batched
from service.database.prepared import Prepared, Runner, session_on
from service.database.session import alone
from service.models import Eligibility, Job, LabelSet, WorkerRow

Place = tuple[int, str]
"""Where a job stands in the queue: rank and id."""
FIRST: Place = (-(2**31), "")
"""Before every job: the bound of a pair whose jobs nobody has looked at yet."""
FEW, MANY = 32, 1_000
"""Rows that a claim looks at first, and at a time after that. A worker meets a handful of sets
in ordinary use; only where more were overtaken is there a second look."""
_PAIRS = "eligibility"
"""Named by whoever adds workers or sets, one at a time: else two would miss each other's."""
_ROWS, _JOBS = cast(Table, Eligibility.__table__), cast(Table, Job.__table__)
_SETS, _WORKERS = cast(Table, LabelSet.__table__), cast(Table, WorkerRow.__table__)
_BOUND = (_ROWS.c.rank, _ROWS.c.place)


def _with_heads(rows: Select[Any]) -> Select[Any]:
    """Beside each of a few rows where the first job of its set stands that its worker may begin.

    The rows are chosen first: PostgreSQL would else find the first job of every row, and then sort.
    """
    few, head = rows.subquery("few"), _JOBS.alias("head")
    first = (
        select(_JOBS.c.id)
        .where(_JOBS.c.state == JobState.QUEUED, _JOBS.c.requires == few.c.requires)
        .where(or_(_JOBS.c.kept_for.is_(None), _JOBS.c.kept_for == bindparam("of")))
        .order_by(_JOBS.c.rank, _JOBS.c.id)
        .limit(1)
        .scalar_subquery()
    )
    return (
        select(few, head.c.rank.label("head_rank"), head.c.id.label("head"))
        .select_from(few.outerjoin(head, head.c.id == first))
        .order_by(few.c.rank, few.c.place, few.c.requires)
    )


# Of tables, and made once: to build a statement takes several times as long as to run it.
_OF_WORKER = select(_ROWS.c.requires, *_BOUND).where(_ROWS.c.worker == bindparam("of"))
_PAGE = Prepared(
    _with_heads(
        _OF_WORKER.where(
            tuple_(*_BOUND, _ROWS.c.requires)
            > tuple_(bindparam("rank"), bindparam("place"), bindparam("requires"))
        )
        .order_by(*_BOUND, _ROWS.c.requires)
        .limit(bindparam("limit"))
    )
)
_OF_ALL = _with_heads(_OF_WORKER)
_OF_SETS = _with_heads(_OF_WORKER.where(_ROWS.c.requires.in_(bindparam("sets", expanding=True))))
_LOCKED = (
    select(_SETS.c.digest)
    .where(_SETS.c.digest.in_(bindparam("sets", expanding=True)))
    .order_by(_SETS.c.digest)
    .with_for_update(skip_locked=True)
)
_TRUE = _OF_SETS.order_by(None).subquery("true")
_CORRECT = (
    update(_ROWS)
    .where(_ROWS.c.worker == bindparam("of"), _ROWS.c.requires == _TRUE.c.requires)
    .values(rank=_TRUE.c.head_rank, place=func.coalesce(_TRUE.c.head, ""))
)
_QUEUEING = (
    select(_SETS.c.digest)
    .where(_SETS.c.digest == bindparam("set"))
    .with_for_update(read=True, key_share=True)
)
_BEHIND = or_(
    _ROWS.c.rank.is_(None), tuple_(*_BOUND) > tuple_(bindparam("to_rank"), bindparam("to_place"))
)
_LOWER = (
    update(_ROWS)
    .where(_ROWS.c.requires == bindparam("set"), _BEHIND)
    .values(rank=bindparam("to_rank"), place=bindparam("to_place"))
)
_LOWER_FOR_ONE = _LOWER.where(_ROWS.c.worker == bindparam("of"))
_OTHER = Prepared(
    select(_ROWS.c.worker)
    .join_from(_ROWS, _WORKERS, _WORKERS.c.name == _ROWS.c.worker)
    .where(_ROWS.c.requires == bindparam("set"), _ROWS.c.worker != bindparam("of"))
    .where(_WORKERS.c.last_seen_at > bindparam("since"))
    .limit(1)
)


class _Row(NamedTuple):
    """A set that a worker meets, its bound, and where its first job stands."""

    requires: str
    rank: int
    place: str
    head_rank: int
    head: str | None


def waiting(on: Runner, worker: str, *, correct: bool) -> Iterator[str]:
    """The sets that ``worker`` meets and of which a job waits for it, the most urgent job's first.

    Args:
        on: to read on; with ``correct`` to write on as well.
        worker: its name.
        correct: whether bounds that mislead are raised.
    """
    after: tuple[int, str, str] = (*FIRST, "")
    limit, heads_of_sets = FEW, list[tuple[Place, str]]()
    while True:
        rank, place, requires = after
        rows = _PAGE.run(on, of=worker, rank=rank, place=place, requires=requires, limit=limit)
        page = [_Row(*row) for row in rows]
        for row in page:
            if row.head is not None:
                heapq.heappush(heads_of_sets, ((row.head_rank, row.head), row.requires))
        misled = _before(page, heads_of_sets[0][0] if heads_of_sets else None)
        if correct and len(misled) >= FEW:
            with session_on(on) as session:
                _correct(session, worker, misled)
        if more := len(page) == limit:
            after = (page[-1].rank, page[-1].place, page[-1].requires)
        while heads_of_sets and (not more or heads_of_sets[0][0] <= after[:2]):
            yield heapq.heappop(heads_of_sets)[1]
        if not more:
            return
        limit = MANY


def _before(page: Sequence[_Row], best: Place | None) -> list[str]:
    return [row.requires for row in page if best is None or (row.rank, row.place) < best]


def _correct(session: Session, worker: str, sets: Sequence[str]) -> None:
    locked = session.execute(_LOCKED, {"sets": sets}).scalars().all()
    if locked:
        # A statement of its own: it sees what was committed before the locks were had.
        session.connection().execute(_CORRECT, {"of": worker, "sets": locked})


def heads(jobs: Iterable[tuple[str, int, str]]) -> dict[str, Place]:
    """By set, where the first of some jobs stands, each given by its set, rank and id."""
    first: dict[str, Place] = {}
    for requires, rank, place in jobs:
        first[requires] = min((rank, place), first.get(requires, (rank, place)))
    return first


def wake(session: Session, queued: Mapping[str, Place], worker: str | None = None) -> None:
    """Lower the bounds of sets of which jobs were queued, in this transaction and not before it.

    Args:
        session: to change them in.
        queued: by set, where the first of the queued jobs stands.
        worker: whom the jobs are kept for; without one they are everybody's.
    """
    for requires, (rank, place) in sorted(queued.items()):  # in one order: no two wait in a ring
        session.execute(_QUEUEING, {"set": requires})
        bound = {"set": requires, "to_rank": rank, "to_place": place}
        if worker is None:
            session.connection().execute(_LOWER, bound)
        else:
            session.connection().execute(_LOWER_FOR_ONE, bound | {"of": worker})


def add_set(session: Session, requires: str, labels: Mapping[str, str], first: Place) -> None:
    """Find the workers that meet a new requirement set, whose first job stands at ``first``."""
    alone(session, _PAIRS)
    undrained = select(_WORKERS.c.name, _WORKERS.c.labels).where(_WORKERS.c.drained_at.is_(None))
    known = session.execute(undrained).all()
    _insert(session, [(name, requires) for name, has in known if meets(has, labels)], first)


def lock_pairs(session: Session) -> None:
    """Let nobody else add a worker or a set until this transaction ends.

    Whoever changes a worker's labels, or drains it, calls this before it locks the worker.
    """
    alone(session, _PAIRS)


def set_worker(session: Session, worker: WorkerRow) -> None:
    """Find the requirement sets that a worker meets with its labels; none while it is drained."""
    sets = session.execute(select(_SETS.c.digest, _SETS.c.labels)).all()
    met = {digest for digest, required in sets if takes(worker, required)}
    had = set(session.scalars(select(_ROWS.c.requires).where(_ROWS.c.worker == worker.name)))
    if lost := sorted(had - met):
        gone = delete(_ROWS).where(
            _ROWS.c.worker == worker.name, _ROWS.c.requires == bindparam("set")
        )
        session.connection().execute(gone, [{"set": requires} for requires in lost])
    new = sorted(met - had)
    # A bound that holds whatever others are queueing at this moment; then what can be seen.
    _insert(session, [(worker.name, requires) for requires in new], FIRST)
    for some in batched(new, MANY):
        _correct(session, worker.name, some)


def takes(worker: WorkerRow, required: Mapping[str, str]) -> bool:
    """Return True if a worker may be given jobs that require these labels."""
    return worker.drained_at is None and meets(worker.labels, required)


def other_meets(on: Runner, requires: str, worker: str, since: datetime) -> bool:
    """Return True if a worker other than this one meets a set and was heard of after ``since``."""
    return bool(_OTHER.run(on, set=requires, of=worker, since=since))


def sets_of(session: Session, worker: str) -> Sequence[Row[Any]]:
    """Every row of a worker, and where the first job stands that it may begin: for `verify`."""
    return session.execute(_OF_ALL, {"of": worker}).all()


def hides(row: Row[Any]) -> bool:
    """Return True if a row of `sets_of` has a bound past the first job of its set."""
    if row.head is None:
        return False
    return row.rank is None or (row.rank, row.place) > (row.head_rank, row.head)


def _insert(session: Session, pairs: Sequence[tuple[str, str]], bound: Place) -> None:
    rank, place = bound
    if pairs:
        new = [{"worker": w, "requires": r, "rank": rank, "place": place} for w, r in pairs]
        session.connection().execute(insert(_ROWS), new)
