"""The commits, or releases, between two revisions: a worker that builds both lists them, for there
is no git and no index here."""

from __future__ import annotations

from datetime import datetime
from typing import cast

from sqlalchemy import ColumnElement, Table, select, update
from sqlalchemy.orm import Session

from benchmarks.contracts import CommitRange, ListedCommit, ListedRange, is_commit
from benchmarks.contracts.pins import needed_by, package_between
from service.database.session import insert_if_absent, rows
from service.errors import Invalid
from service.jobs import heads
from service.models import CommitRangeRow as _Range
from service.models import WorkerRow

_RANGES = cast(Table, _Range.__table__)


def ask(session: Session, good: str, bad: str, now: datetime) -> _Range:
    """Have the commits between two revisions listed, unless they are; a failure is tried again.

    Raises:
        Invalid: no worker that is here can list them.
    """
    if (row := _row(session, good, bad)) is None or row.listed_at is None:
        if why := why_not(session, good, bad, now):
            raise Invalid(why)
        new = {"good": good, "bad": bad, "asked_at": now, "commits": [], "reason": ""}
        if not insert_if_absent(session, _RANGES, new):
            failed = *_between(good, bad), _Range.listed_at.is_(None), _Range.reason != ""
            rows(session, update(_Range).where(*failed).values(asked_at=now, reason=""))
        row = _row(session, good, bad)
        assert row is not None
    return row


def why_not(session: Session, good: str, bad: str, now: datetime) -> str:
    """Say why no worker that is here lists the commits between two revisions; empty if one does."""
    package = package_between(good, bad)
    commits = good != bad and is_commit(good) and is_commit(bad)
    if not (package or commits):
        return (
            "Workers list what lies between two commits, or two versions of one package, and "
            f"{good} to {bad} are no such two."
        )
    here = select(WorkerRow).where(WorkerRow.last_seen_at > now - heads.HERE)
    if any(_knows(row, good, bad) for row in session.scalars(here)):
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
    """Store what a worker lists, if it was asked for and nobody was faster."""
    said = told.model_dump(mode="json", include={"commits", "reason"})
    asked = *_between(told.good, told.bad), _Range.listed_at.is_(None)
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
    return bool(row.targets) and {good, bad} <= set(row.revisions or ())
