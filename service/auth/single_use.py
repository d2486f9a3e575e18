"""Codes that are good once and soon: a row for each, with a keyed hash of the code alone."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import update
from sqlalchemy.orm import Session

from service.auth import token_format
from service.auth.signing_key import Key
from service.auth.token_format import Mistyped
from service.database.session import rows
from service.models import EnrolmentRow


def make(
    session: Session,
    key: Key,
    kind: str,
    lasts: timedelta,
    now: datetime,
    by: str | None,
    *,
    worker: str | None = None,
) -> tuple[EnrolmentRow, str]:
    """Make a code of a kind; gives its row and its text, which is told this once."""
    made = token_format.new(kind)
    row = EnrolmentRow(
        id=made.id,
        digest=token_format.digest(key.value, made),
        worker=worker,
        created_at=now,
        created_by=by,
        expires_at=now + lasts,
    )
    session.add(row)
    session.flush()
    return row, made.text


def find(session: Session, key: Key, kind: str, code: str) -> EnrolmentRow | None:
    """The row of a code that somebody shows, used or not; None if it is no code of that kind.

    The kind is part of what is hashed: a code of one kind is never good as one of another.
    """
    try:
        shown = token_format.read(code.strip())
    except Mistyped:
        return None
    row = session.get(EnrolmentRow, shown.id) if shown.kind == kind else None
    return row if row is not None and token_format.matches(key.value, shown, row.digest) else None


def use(session: Session, row: EnrolmentRow, token_id: str, now: datetime) -> bool:
    """Use a code up; False if it was used before, or is too old. Of two at once one gets True."""
    unused = (EnrolmentRow.used_at.is_(None), EnrolmentRow.expires_at > now)
    change = update(EnrolmentRow).where(EnrolmentRow.id == row.id, *unused)
    return rows(session, change.values(used_at=now, token_id=token_id)) == 1
