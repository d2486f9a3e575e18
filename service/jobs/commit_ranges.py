"""The commits, or releases, between two revisions: a worker that builds both lists them, for there
is no git and no index here."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import cast

from sqlalchemy import ColumnElement, Table, or_, select, update
from sqlalchemy.orm import Session

from benchmarks.contracts import CommitRange, ListedCommit, ListedRange, is_commit
from benchmarks.contracts.pins import needed_by, package_between
from service.database.session import insert_if_absent, rows
from service.jobs import heads
from service.models import CommitRangeRow as _Range
from service.models import WorkerRow
from service.schemas.errors import Invalid

_RANGES = cast(Table, _Range.__table__)
RELEASES_FOR = timedelta(days=1)
"""A list of releases is believed so long: there may be new ones between two others."""
PASSES_IN = timedelta(minutes=5)
"""Longest wait for a worker's trouble to pass."""


def ask(
    session: Session, good: str, bad: str, now: datetime, here: Sequence[WorkerRow] | None = None
) -> _Range:
    """Have the commits between two revisions listed, unless they are; a failure is tried again.

    Raises:
        Invalid: no worker that is ``here`` can list them.
    """
    row = _row(session, good, bad)
    if row is None or row.listed_at is None or _is_old(row, now):
        if why := why_not(session, good, bad, now, here):
            raise Invalid(why)
        new = {"good": good, "bad": bad, "asked_at": now, "commits": [], "reason": ""}
        if not insert_if_absent(session, _RANGES, new):
            again = or_(_Range.reason != "", _Range.listed_at <= now - RELEASES_FOR)
            asked = update(_Range).where(*_between(good, bad), again)
            rows(session, asked.values(asked_at=now, commits=[], reason="", listed_at=None))
        row = _row(session, good, bad)
        assert row is not None
    return row


def _is_old(row: _Range, now: datetime) -> bool:
    listed_at = row.listed_at or now
    return bool(package_between(row.good, row.bad)) and listed_at <= now - RELEASES_FOR


def workers_here(session: Session, now: datetime) -> Sequence[WorkerRow]:
    """The workers that may be asked. Each has up to 1,000 commits, which take long to be read."""
    here = WorkerRow.last_seen_at > now - heads.HERE
    return session.scalars(select(WorkerRow).where(here)).all()


def why_not(
    session: Session, good: str, bad: str, now: datetime, here: Sequence[WorkerRow] | None = None
) -> str:
    """Say why no worker that is ``here`` lists the commits between two revisions; empty if one
    does."""
    package = package_between(good, bad)
    commits = good != bad and is_commit(good) and is_commit(bad)
    if not (package or commits):
        return (
            "Workers list what lies between two commits, or two versions of one package, and "
            f"{good} to {bad} are no such two."
        )
    here = workers_here(session, now) if here is None else here
    if any(_knows(row, good, bad) for row in here):
        return ""
    if package:
        return (
            f"No worker that is here makes both {good} and {bad}: name {package} in [upstream] of "
            "its file of targets."
        )
    return (
        f"No worker that is here builds both {good[:12]} and {bad[:12]}: name the commits between "
        "them, as `throughline bisect` does in a checkout."
    )


def listed(session: Session, good: str, bad: str) -> list[ListedCommit] | None:
    """The commits after ``good`` up to ``bad``, the oldest first; None if they are not known."""
    row = _row(session, good, bad)
    return None if row is None or row.listed_at is None else commits_of(row)


def commits_of(row: _Range) -> list[ListedCommit]:
    """The commits of a range; empty while no worker has listed them."""
    return [ListedCommit.model_validate(one) for one in row.commits]


def asked_of(session: Session, worker: WorkerRow) -> CommitRange | None:
    """The oldest range that nobody has listed, and this worker can."""
    waiting = _Range.listed_at.is_(None), _Range.reason == ""
    query = select(_Range).where(*waiting).order_by(_Range.asked_at, _Range.good, _Range.bad)
    for row in session.scalars(query):
        if _knows(worker, row.good, row.bad):
            return CommitRange(good=row.good, bad=row.bad)
    return None


def keep(session: Session, told: ListedRange, now: datetime) -> None:
    """Store what a worker lists, if it was asked for and nobody was faster.

    A reason that may pass is stored once the range was asked for `PASSES_IN` ago; until then it is
    asked for again.
    """
    said = told.model_dump(mode="json", include={"commits", "reason"})
    asked = [*_between(told.good, told.bad), _Range.listed_at.is_(None)]
    if told.passing:
        asked.append(_Range.asked_at <= now - PASSES_IN)
    listed_at = now if told.commits else None
    rows(session, update(_Range).where(*asked).values(**said, listed_at=listed_at))


def _between(good: str, bad: str) -> tuple[ColumnElement[bool], ...]:
    return _Range.good == good, _Range.bad == bad


def _row(session: Session, good: str, bad: str) -> _Range | None:
    return session.get(_Range, (good, bad), populate_existing=True)


def _knows(row: WorkerRow, good: str, bad: str) -> bool:
    """Return True if a worker builds both; one with checkouts alone knows no history."""
    if package_between(good, bad):
        return needed_by(bad).items() <= row.labels.items()
    known = row.revisions or ()
    return bool(row.targets) and good in known and bad in known
