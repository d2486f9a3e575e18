"""Codes with which a worker gets a token of its own, once and soon.

A code travels through chats and scripts, a token need not: the worker fetches it itself and keeps
it where nobody else reads it.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

from pydantic import BaseModel, Field, FiniteFloat
from sqlalchemy.orm import Session

from benchmarks.contracts import Contract, Name
from service.auth import single_use, token_format, token_store
from service.auth.signing_key import Key
from service.auth.token_store import TokenRequest
from service.database.session import alone
from service.schemas.access import NewToken, TokenKind
from service.schemas.errors import Forbidden, Unauthorized

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
    lasts = timedelta(seconds=request.expires_in_s)
    row, code = single_use.make(
        session, key, token_format.ENROLMENT, lasts, now, by, worker=request.worker
    )
    return NewEnrolment(id=row.id, code=code, worker=row.worker, expires_at=row.expires_at)


def redeem(session: Session, key: Key, shown: Redemption, now: datetime) -> NewToken:
    """Turn a code into a worker's token; of two who try at once one gets it, or the name.

    Raises:
        Unauthorized: the code is mistyped, unknown, used or too old, or whoever made it may make
            none any more.
        Forbidden: it is for a worker of another name, or for any, and the name is taken; it stays
            good.
    """
    row = single_use.find(session, key, token_format.ENROLMENT, shown.code)
    if row is None:
        raise Unauthorized(_BAD)
    if row.created_by is not None and not token_store.is_live(session, row.created_by, now):
        raise Unauthorized(_BAD)
    alone(session, f"worker {shown.worker}")  # else both would find it free
    if row.worker is None and token_store.has_worker(session, shown.worker, now):
        raise Forbidden(
            f"The worker {shown.worker} has a token: enrol under another name (--name), ask for a "
            "code for this one (`throughline token enrolment --worker`), or have its token revoked."
        )
    if row.worker not in (None, shown.worker):
        raise Forbidden(
            f"This enrolment code is for the worker {row.worker}: enrol under that name (--name), "
            "or ask for another code."
        )
    request = TokenRequest(kind=TokenKind.WORKER, name=shown.worker)
    made = token_store.create(session, key, request, now, row.created_by)
    if not single_use.use(session, row, made.id, now):
        raise Unauthorized(_BAD)
    return made
