"""Reads the suspicions that were measured again, as the API shows them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement
from sqlalchemy.orm import Session

from service.database import paging
from service.database.paging import Page
from service.findings.suspicion import Baseline
from service.models import ConfirmationRow, ConfirmationState
from service.wording.statements import say_stored


@dataclass(frozen=True, slots=True)
class ConfirmationView:
    """One suspicious point, and what measuring it again said."""

    id: str
    series_id: str
    case_key: str
    last_good: str
    first_bad: str
    worker: str
    """Who measured the suspicious point."""
    expected: float
    measured: float
    """As this worker measures; later points of others are carried over to it."""
    state: ConfirmationState
    sentence: str
    comparisons: list[str]
    created_at: datetime
    decided_at: datetime | None


def list_confirmations(
    session: Session, *conditions: ColumnElement[bool], after: str | None = None, limit: int = 100
) -> Page[ConfirmationView]:
    """Suspicions that meet ``conditions``, the newest first."""
    page = paging.newest_first(
        session, ConfirmationRow, ConfirmationRow.id, conditions, after, limit
    )
    return page.shown(map(_view, page.items))


def _view(row: ConfirmationRow) -> ConfirmationView:
    usual = Baseline(row.before, row.usual)
    shown = {
        "expected": usual.at(row.worker),
        "measured": row.after * usual.at(row.worker) / row.before,
        "state": ConfirmationState(row.state),
        "sentence": say_stored(row.says),
    }
    return ConfirmationView(**row.fields_of(ConfirmationView) | shown)
