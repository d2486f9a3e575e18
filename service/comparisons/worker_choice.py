"""Chooses the worker, and so the device, that measures both sides: one with the code of both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial

from sqlalchemy import select
from sqlalchemy.orm import Session

from benchmarks import contracts
from benchmarks.contracts import pins
from service.jobs.workers import drain_of
from service.models import Attempt, ComparisonJob, ComparisonRow, ComparisonState, WorkerRow
from service.models.project_filter import EVERYBODYS, revisions_seen
from service.schemas.comparisons import ComparisonRequest
from service.wording import waiting

NAMED = 10
"""Revisions that a sentence lists; a worker may have hundreds."""
Deployed = Mapping[str, Sequence[str] | None]
"""By worker: the revisions whose own code it can run. Empty: it runs what is installed, whatever a
job names. None: it does not say."""


def able(workers: Deployed, baseline: str, contender: str) -> list[str]:
    """The workers that can measure both revisions.

    Installed code can only be held against itself.
    """
    return [name for name, has in workers.items() if _can(has, baseline, contender)]


def _can(has: Sequence[str] | None, baseline: str, contender: str) -> bool:
    versions = pins.pins_of(baseline) or pins.pins_of(contender)
    if has is None:
        return not versions
    return {baseline, contender} <= set(has) if has or versions else baseline == contender


def why_unable(
    workers: Deployed,
    baseline: str,
    contender: str,
    seen: Callable[[Collection[str]], Sequence[str]] = sorted,
) -> str:
    """Say why no worker can measure both revisions; empty if one can, or if there is no worker.

    ``seen`` gives those of some revisions that may be named, in the order of naming.
    """
    if not workers or able(workers, baseline, contender):
        return ""
    known = {revision for has in workers.values() for revision in has or ()}
    named = list(dict.fromkeys((baseline, contender)))
    if not known:
        return (
            f"No worker has {_listed(named, 'or')}: {_listed(sorted(workers))} "
            f"{'runs' if len(workers) == 1 else 'run'} what is installed for every revision. "
            "Let it build them (THROUGHLINE_TARGETS), or deploy a checkout of each and set "
            "THROUGHLINE_WORKER_TARGET there."
        )
    if unknown := [name for name in named if name not in known]:
        others = seen(known)
        remark = f"; known are {_listed(others)}" if others else ""
        if dirty := [name for name in unknown if name.endswith("+dirty")]:
            return (
                f"No worker has {_listed(dirty, 'or')}: its changes are in no commit. Commit and "
                "push them, or take them back. A gate in a checkout can send them: --push-changes."
            )
        return (
            f"No worker has {_listed(unknown, 'or')}{remark}. Deploy it where "
            "THROUGHLINE_WORKER_TARGET says, or correct the name."
        )
    return (
        f"No worker has both {_listed(named)}, and both sides are measured on one device: deploy "
        "them to the same worker."
    )


def _listed(names: Sequence[str], last: str = "and") -> str:
    shown = [*names[:NAMED], *([f"{len(names) - NAMED} more"] if len(names) > NAMED else [])]
    *others, end = shown
    return f"{', '.join(others)} {last} {end}" if others else end


LATELY = timedelta(minutes=2)
"""A worker that lives is heard of every few seconds."""
_HELD = (contracts.AttemptState.GRANTED, contracts.AttemptState.STARTED)


def choose(session: Session, request: ComparisonRequest, now: datetime) -> str | None:
    """The worker with the least to do among those that may; None if none is there.

    Workers that know both revisions already come first, then those that know one: the other is of
    the same repository.
    """
    ends = request.baseline, request.contender
    known, fetched = (present(session, request, now, fetching=more) for more in (False, True))
    fetching = able(fetched, *ends)
    near = [name for name in fetching if not set(ends).isdisjoint(known[name] or ())]
    fit = able(known, *ends) or near or fetching
    if not fit:
        return None
    pinned = _compared(session, fit)
    busy = _holding(session, fit)
    return min(fit, key=lambda name: (pinned[name], busy[name], name))


def idle_beside(
    session: Session, worker: str, request: ComparisonRequest, now: datetime
) -> list[str]:
    """Name the workers with the GPU of ``worker`` that may measure both sides and have nothing to
    do."""
    fit = able(present(session, request, now), request.baseline, request.contender)
    near = sorted(alike(session, worker).keys() & set(fit) - {worker})
    busy = _holding(session, near)
    compared = _compared(session, near)
    return [name for name in near if not compared[name] + busy[name]]


def alike(session: Session, worker: str | None) -> dict[str, str]:
    """Give the workers with the same GPU as ``worker``, and itself: their devices by name."""
    seen = {
        name: (labels.get("device", ""), labels.get("gpu"))
        for name, labels in session.execute(select(WorkerRow.name, WorkerRow.labels))
    }
    here = seen.get(worker or "")
    return {
        name: there[0]
        for name, there in seen.items()
        if name == worker or (there == here and there[1])
    }


def present(
    session: Session, request: ComparisonRequest, now: datetime, *, fetching: bool = True
) -> Deployed:
    """The workers that may measure a comparison, are there and not drained, with their revisions.

    With ``fetching`` also the commits that they would look for if they were asked.
    """
    return {
        row.name: _has(row, request, fetching=fetching)
        for row in _there(session, request, now)
        if row.drained_at is None
    }


def drained(session: Session, request: ComparisonRequest, now: datetime) -> str:
    """Name the drained workers that would be present; empty if there is none."""
    rows = _there(session, request, now)
    clauses = [waiting.drained(row.name, drain) for row in rows if (drain := drain_of(row))]
    return "; ".join(clauses[: waiting.MOST_NAMED])


def _there(session: Session, request: ComparisonRequest, now: datetime) -> list[WorkerRow]:
    seen = select(WorkerRow).where(WorkerRow.last_seen_at > now - LATELY)
    return [
        row
        for row in session.scalars(seen.order_by(WorkerRow.name))
        if contracts.meets(row.labels, required(request))
        and row.name not in request.avoid
        and request.worker in (None, row.name)
    ]


def required(request: ComparisonRequest) -> dict[str, str]:
    """Give the labels that a worker must have: those asked for, and GPUs for the largest gang."""
    cases = [case for case in (request.case, *request.cases) if case is not None]
    largest = max(cases, key=lambda case: case.gpus, default=None)
    return {**(contracts.needed_gpus(largest) if largest else {}), **request.requires}


def _has(row: WorkerRow, request: ComparisonRequest, *, fetching: bool) -> Sequence[str] | None:
    """The revisions that a worker has, or makes when they are asked for.

    A commit that was pushed a moment ago is fetched for the job that names it.
    """
    if row.revisions is None:
        return None
    asked = (request.baseline, request.contender)
    labels = row.labels.items()
    made = [one for one in filter(pins.pins_of, asked) if pins.needed_by(one).items() <= labels]
    builds = fetching and row.targets and set(row.targets) != {pins.UPSTREAM}
    commits = [one for one in asked if builds and contracts.is_commit(one)]
    return [*row.revisions, *made, *commits]


def lacking(session: Session, request: ComparisonRequest, now: datetime) -> str:
    """Say why no worker that is there can measure both; empty if one can, or if none is there.

    One that is drained counts: it can once it is resumed.
    """
    rows = _there(session, request, now)
    there = {row.name: _has(row, request, fetching=True) for row in rows}
    seen = partial(revisions_seen, session)
    return why_unable(there, request.baseline, request.contender, seen)


def _compared(session: Session, names: Sequence[str]) -> Counter[str]:
    """Count for each of ``names`` the running comparisons of all projects that it measures for."""
    first = select(ComparisonRow.id, ComparisonRow.worker)
    lent = select(ComparisonRow.id, ComparisonJob.worker).join(
        ComparisonJob, ComparisonJob.comparison_id == ComparisonRow.id
    )
    running = ComparisonRow.state == ComparisonState.RUNNING
    found: set[tuple[str, str]] = set()
    for query, worker in ((first, ComparisonRow.worker), (lent, ComparisonJob.worker)):
        rows = session.execute(
            query.where(running, worker.in_(names)), execution_options=EVERYBODYS
        )
        found.update((comparison, name) for comparison, name in rows if name is not None)
    return Counter(name for _, name in found)


def _holding(session: Session, names: Sequence[str]) -> Counter[str]:
    """Count for each of ``names`` the leases of all projects that it holds."""
    query = select(Attempt.worker).where(Attempt.state.in_(_HELD), Attempt.worker.in_(names))
    return Counter(session.scalars(query, execution_options=EVERYBODYS))


def gone(session: Session, names: Sequence[str], now: datetime) -> set[str]:
    """Name those of ``names`` that are not there, or drained with nothing left to do."""
    there = select(WorkerRow.name).where(
        WorkerRow.name.in_(names), WorkerRow.last_seen_at > now - LATELY
    )
    undrained = set(session.scalars(there.where(WorkerRow.drained_at.is_(None))))
    return set(names) - undrained - _holding(session, names).keys()


def lost(session: Session, worker: str, now: datetime) -> str:
    """Say so if a pinned worker is not there, or drained; empty if it is there."""
    row = session.get(WorkerRow, worker)
    if row is None:
        return f"Worker {worker} has never been heard of."
    pinned = "both sides are pinned to its device."
    if drain := drain_of(row):
        return f"Worker {waiting.drained(worker, drain)}; {pinned}"
    if row.last_seen_at <= now - LATELY:
        return f"Worker {worker} was last heard of at {row.last_seen_at:%H:%M} UTC, and {pinned}"
    return ""
