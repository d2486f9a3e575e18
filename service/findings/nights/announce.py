"""Tells other programs of a night, once it is over, and lists the nights that were told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta

from sqlalchemy import exists, select
from sqlalchemy.orm import Session

from benchmarks.contracts import FINAL_STATES
from service import models
from service.database import paging
from service.database.session import Database, alone, now_of
from service.findings.nights import facts
from service.outbox import events
from service.schemas.costs import Price
from service.schemas.nights import NightReport, NightSummary
from service.wording import night as words

LATEST = timedelta(hours=8)
"""After a night's first slot it is told, finished or not: by then somebody is at work."""
_BACK = 3 * facts.DAY
"""How far back is looked: after a longer downtime no old night is told."""
_REPORTED = (models.OutboxEvent.kind == models.EventKind.NIGHT_REPORTED,)
Night = tuple[str, date]
"""A project and a date."""


def announce(database: Database, prices: Sequence[Price] = ()) -> None:
    """Write the event of each night that is over, or late; each night of a project once."""
    with database.reading() as session:
        now = now_of(session)
        due = list(_over(session, now))
    for project, night in due:
        with database.reading() as session:
            report = facts.gather(session, night, now, project, prices)
        with database.writing() as session:
            alone(session, "nights")
            if not _is_told(session, project, night):
                _tell(session, report, now_of(session))


def _over(session: Session, now: datetime) -> Iterable[Night]:
    """Nights that were not told and whose slots have all ended, or have had their time."""
    nights: dict[Night, list[facts.Slot]] = {}
    for slot in facts.slots_between(session, now - _BACK, now + facts.DAY):
        nights.setdefault((slot.project, slot.night), []).append(slot)
    for night, slots in nights.items():
        if _is_told(session, *night):
            continue
        late = slots[0].due_at + LATEST
        if late < now or not (_has_more(session, night, late) or _goes_on(session, slots)):
            yield night


def _has_more(session: Session, night: Night, late: datetime) -> bool:
    """Say if a slot of a night is still to fire before it is late."""
    project, at = night
    row = models.Schedule
    soon = select(row).where(row.project == project, row.enabled.is_(True), row.next_due_at < late)
    return any(
        one.next_due_at is not None and facts.local_date(one.next_due_at, one.timezone) == at
        for one in session.scalars(soon)
    )


def _goes_on(session: Session, slots: Iterable[facts.Slot]) -> bool:
    """Say if cases of these slots are still to come, or what they showed is still looked at."""
    submissions = [slot.submission_id for slot in slots if slot.submission_id is not None]
    job = models.Job
    open_jobs = exists().where(job.submission_id.in_(submissions), job.state.not_in(FINAL_STATES))
    again = exists().where(models.ConfirmationRow.state == models.ConfirmationState.RUNNING)
    waits = exists().where(models.PendingAnalysis.id.is_not(None))
    return bool(session.scalar(select(open_jobs | again | waits)))


def _is_told(session: Session, project: str, night: date) -> bool:
    row = models.OutboxEvent
    of_night = row.subject == night.isoformat(), row.project == project
    told = select(row.id).where(*_REPORTED, *of_night).limit(1)
    return session.scalars(told).first() is not None


def _tell(session: Session, report: NightReport, now: datetime) -> None:
    told = words.account(report)
    news = events.News(
        models.EventKind.NIGHT_REPORTED,
        f"{told.title}: {told.headline}",
        words.text(told),
        report.night.isoformat(),
        report.project or "",
        details=report.model_dump(mode="json"),
    )
    events.write(session, news, now)


def list_reported(session: Session, after: str | None, limit: int) -> paging.Page[NightSummary]:
    """Nights that were told, the newest first."""
    page = _newest(session, after, limit)
    return page.shown(
        NightSummary.of(row, night=date.fromisoformat(row.subject)) for row in page.items
    )


def reported(session: Session, limit: int) -> list[tuple[datetime, NightReport]]:
    """The newest reports as they were told, each with when."""
    page = _newest(session, None, limit)
    return [(row.at, NightReport.model_validate(row.details)) for row in page.items]


def _newest(session: Session, after: str | None, limit: int) -> paging.Page[models.OutboxEvent]:
    row = models.OutboxEvent
    return paging.newest_first(session, row, row.id, _REPORTED, after, limit)
