"""Chooses the worker, and so the device, that measures both sides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial

from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from benchmarks.contracts import AttemptState
from service.comparisons import deployed
from service.comparisons.deployed import Deployed
from service.models import Attempt, ComparisonRow, ComparisonState, WorkerRow
from service.models.project_filter import EVERYBODYS, revisions_seen
from service.schemas.comparisons import ComparisonRequest

LATELY = timedelta(minutes=2)
"""A worker that lives is heard of every few seconds."""
_HELD = (AttemptState.GRANTED, AttemptState.STARTED)


def choose(session: Session, request: ComparisonRequest, now: datetime) -> str | None:
    """The worker with the least to do among those that may; None if none is there."""
    fit = deployed.able(present(session, request, now), request.baseline, request.contender)
    if not fit:
        return None
    running = ComparisonRow.state == ComparisonState.RUNNING
    pinned = _counts(session, ComparisonRow.worker, running, fit)
    busy = _counts(session, Attempt.worker, Attempt.state.in_(_HELD), fit)
    return min(fit, key=lambda name: (pinned[name], busy[name], name))


def present(session: Session, request: ComparisonRequest, now: datetime) -> Deployed:
    """The workers that may measure a comparison and are there, with the revisions they have."""
    seen = select(WorkerRow.name, WorkerRow.labels, WorkerRow.revisions)
    return {
        name: revisions
        for name, labels, revisions in session.execute(
            seen.where(WorkerRow.last_seen_at > now - LATELY).order_by(WorkerRow.name)
        )
        if request.requires.items() <= labels.items()
        and name not in request.avoid
        and request.worker in (None, name)
    }


def lacking(session: Session, request: ComparisonRequest, now: datetime) -> str:
    """Say why no present worker can measure both; empty if one can, or if none is present."""
    there = present(session, request, now)
    seen = partial(revisions_seen, session)
    return deployed.lacking(there, request.baseline, request.contender, seen)


def _counts(
    session: Session,
    column: InstrumentedAttribute[str] | InstrumentedAttribute[str | None],
    condition: ColumnElement[bool],
    names: Sequence[str],
) -> Counter[str]:
    """Count the rows of all projects that name each of ``names`` in ``column``."""
    query = select(column).where(condition, column.in_(names))
    rows = session.scalars(query, execution_options=EVERYBODYS)
    return Counter(name for name in rows if name is not None)


def lost(session: Session, worker: str, now: datetime) -> str:
    """Say so if a pinned worker is not there; empty if it is."""
    seen = select(WorkerRow.last_seen_at).where(WorkerRow.name == worker)
    last = session.scalars(seen).first()
    if last is None:
        return f"Worker {worker} has never been heard of."
    if last <= now - LATELY:
        return (
            f"Worker {worker} was last heard of at {last:%H:%M} UTC, and both sides are pinned to "
            "its device."
        )
    return ""
