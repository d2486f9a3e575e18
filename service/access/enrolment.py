"""Codes with which a worker gets a token of its own, once and soon.

A code travels through chats and scripts, a token need not: the worker fetches it itself and keeps
it where nobody else reads it.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

from pydantic import BaseModel, Field, FiniteFloat
from sqlalchemy import update
from sqlalchemy.orm import Session

from benchmarks.contracts import Contract, Name
from service.access import store, token
from service.access.key import Key
from service.access.permissions import Kind
from service.access.store import NewToken, TokenRequest
from service.access.token import Mistyped
from service.database import alone, rows
from service.errors import Forbidden, Unauthorized
from service.models import EnrolmentRow

_BAD = (
    "This enrolment code is not good: mistyped, used, or too old. Ask an administrator for another "
    "one: `throughline token enrolment`."
)
SHORTEST_S, LONGEST_S = 60, 7 * 86_400
"""Seconds that a code may be good for."""


class EnrolmentRequest(Contract):
    """A code to be made."""

    worker: Name | None = None
    """The only worker that may use it; null: whichever comes first, under a name that is free."""
    expires_in_s: Annotated[FiniteFloat, Field(strict=True, ge=SHORTEST_S, le=LONGEST_S)] = 3_600.0


class NewEnrolment(BaseModel):
    """A code that was just made, told this once."""

    id: str
    code: str = Field(repr=False)
    worker: str | None
    expires_at: datetime


class Redemption(Contract):
    """A worker that shows its code."""

    code: Annotated[str, Field(max_length=200, repr=False)]
    worker: Name
    """The name that it will introduce itself under."""


def create(
    session: Session, key: Key, request: EnrolmentRequest, now: datetime, by: str | None
) -> NewEnrolment:
    """Make a code."""
    made = token.new(token.ENROLMENT)
    row = EnrolmentRow(
        id=made.id,
        digest=token.digest(key.value, made),
        worker=request.worker,
        created_at=now,
        created_by=by,
        expires_at=now + timedelta(seconds=request.expires_in_s),
    )
    session.add(row)
    session.flush()
    return NewEnrolment(id=row.id, code=made.text, worker=row.worker, expires_at=row.expires_at)


def redeem(session: Session, key: Key, shown: Redemption, now: datetime) -> NewToken:
    """Turn a code into a worker's token; of two who try at once one gets it, or the name.

    Raises:
        Unauthorized: the code is mistyped, unknown, used or too old, or whoever made it may make
            none any more.
        Forbidden: it is for a worker of another name, or for any, and the name is taken; it stays
            good.
    """
    row = _found(session, key, shown.code)
    if row.created_by is not None and not store.is_live(session, row.created_by, now):
        raise Unauthorized(_BAD)
    alone(session, f"worker {shown.worker}")  # else both would find it free
    if row.worker is None and store.has_worker(session, shown.worker, now):
        raise Forbidden(
            f"The worker {shown.worker} has a token: enrol under another name (--name), ask for a "
            "code for this one (`throughline token enrolment --worker`), or have its token revoked."
        )
    if row.worker not in (None, shown.worker):
        raise Forbidden(
            f"This enrolment code is for the worker {row.worker}: enrol under that name (--name), "
            "or ask for another code."
        )
    wanted = TokenRequest(kind=Kind.WORKER, name=shown.worker)
    made = store.create(session, key, wanted, now, row.created_by)
    unused = (EnrolmentRow.used_at.is_(None), EnrolmentRow.expires_at > now)
    change = update(EnrolmentRow).where(EnrolmentRow.id == row.id, *unused)
    if rows(session, change.values(used_at=now, token_id=made.id)) != 1:
        raise Unauthorized(_BAD)
    return made


def _found(session: Session, key: Key, code: str) -> EnrolmentRow:
    try:
        shown = token.read(code.strip())
    except Mistyped:
        raise Unauthorized(_BAD) from None
    row = session.get(EnrolmentRow, shown.id) if shown.kind == token.ENROLMENT else None
    if row is None or not token.matches(key.value, shown, row.digest):
        raise Unauthorized(_BAD)
    return row
