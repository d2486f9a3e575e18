"""The data of the inbox, and of its marks on other pages. Nothing here changes a row."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from benchmarks.contracts import Direction
from service import findings, models
from service.database.paging import Page
from service.findings import ACTIVE, FindingKind, FindingSummary, confirm
from service.findings.confirm import ConfirmationView
from service.history.queries import name_of
from service.schemas.series import SeriesName

LATELY = timedelta(hours=24)
"""What counts as opened lately: a night and the day around it."""
REMEMBERED = timedelta(days=7)
"""For how long it is shown that something suspicious came to nothing."""
MOST_ACTIVE = 200
MOST_CONFIRMATIONS = 50
PER_PAGE = 50
FOR_NOTHING = (models.ConfirmationState.NOT_REPRODUCED, models.ConfirmationState.UNRESOLVED)


@dataclass(frozen=True, slots=True)
class InboxReport:
    """The number of findings opened lately, and the number of them expected to be false."""

    opened: int
    expected_false: float


@dataclass(frozen=True, slots=True)
class Suspect:
    """Something suspicious that is or was measured again, with its series."""

    confirmation: ConfirmationView
    series: SeriesName

    @property
    def effect(self) -> float:
        """As a share of what was expected, signed as measured."""
        return self.confirmation.measured / self.confirmation.expected - 1.0

    @property
    def improvement(self) -> bool:
        """Return True if the suspect looks like an improvement."""
        return (self.effect > 0) == (self.series.direction is Direction.HIGHER)


def report(session: Session, now: datetime) -> InboxReport:
    """Count the findings opened lately, and how many of them are expected to be false."""
    since = now - LATELY
    opened = (
        select(func.count())
        .select_from(models.FindingRow)
        .where(models.FindingRow.opened_at >= since)
    )
    expected = findings.expected_false_since(session, since)
    return InboxReport(session.execute(opened).scalar_one(), expected)


def active(session: Session) -> list[FindingSummary]:
    """List findings that ask for attention: open ones before acknowledged, then newest first."""
    page = findings.list_findings(
        session, models.FindingRow.state.in_(ACTIVE), limit=MOST_ACTIVE
    ).items
    return sorted(page, key=lambda finding: finding.state is not models.FindingState.OPEN)


def closed(session: Session, cursor: str | None) -> Page[FindingSummary]:
    """Return a page of the findings that are over, the newest first."""
    over = models.FindingRow.state.not_in(ACTIVE)
    return findings.list_findings(session, over, after=cursor, limit=PER_PAGE)


def running(session: Session) -> list[Suspect]:
    """List the suspects that are being measured again."""
    state = models.ConfirmationRow.state == models.ConfirmationState.RUNNING
    page = confirm.list_confirmations(session, state, limit=MOST_CONFIRMATIONS)
    return _suspects(session, page.items)


def for_nothing(session: Session, now: datetime) -> list[Suspect]:
    """List the recent suspects that were measured again and came to nothing."""
    page = confirm.list_confirmations(
        session,
        models.ConfirmationRow.state.in_(FOR_NOTHING),
        models.ConfirmationRow.decided_at >= now - REMEMBERED,
        limit=MOST_CONFIRMATIONS,
    )
    return _suspects(session, page.items)


def _suspects(session: Session, views: Iterable[ConfirmationView]) -> list[Suspect]:
    return [
        Suspect(view, name_of(session.get_one(models.SeriesRow, view.series_id))) for view in views
    ]


def longest_history(session: Session) -> int:
    """Points of the longest series that was analysed: how far it is to the first finding."""
    return session.scalar(select(func.max(models.AnalysisRow.points))) or 0


@dataclass(frozen=True, slots=True)
class Mark:
    """A finding that asks for attention, as other pages point to it."""

    finding: str
    kind: FindingKind


def marks(session: Session) -> dict[str, Mark]:
    """For each series that an active finding is about, the newest one."""
    query = (
        select(models.FindingSeries.series_id, models.FindingRow.id, models.FindingRow.kind)
        .join(models.FindingRow, models.FindingRow.id == models.FindingSeries.finding_id)
        .where(models.FindingRow.state.in_(ACTIVE), models.FindingSeries.ended == "")
        .order_by(models.FindingRow.id)
    )
    return {
        series_id: Mark(finding, FindingKind(kind))
        for series_id, finding, kind in session.execute(query)
    }
