"""The audit log: each line is written in the transaction of the change itself.

So there is no change without its line. What workers do is in the log of the jobs. No line holds a
token, a code or a body.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from pydantic import BaseModel
from sqlalchemy.orm import Session

from service.auth.principal import Principal
from service.database import paging
from service.database.paging import Page
from service.database.session import new_id, now_of
from service.models import AuditEvent

_MADE = "audit.made"
_BEFORE = "audit.before"
_LONGEST = 500


class AuditView(BaseModel):
    """One thing that somebody did."""

    id: str
    at: datetime
    token_id: str | None
    """Null where no token was asked for: an open service, or the command line beside it."""
    actor: str
    action: str
    object: str


def made(session: Session, object_id: str, *, before: bool = False) -> None:
    """Tell what the call that is being answered has made, for its line in the log.

    Args:
        session: the call's.
        object_id: what was made.
        before: an earlier call with the same key made it, and has its line: this one gets none.
    """
    session.info[_MADE] = object_id
    session.info[_BEFORE] = before


def audit_hook(principal: Principal, action: str, path: str) -> Callable[[Session], None]:
    """Return a function that writes a call's audit line just before its transaction commits."""

    def write(session: Session) -> None:
        if session.info.get(_BEFORE):
            return
        new = session.info.get(_MADE)
        about = path[:_LONGEST] + (f" -> {new}" if new else "")
        record(session, principal, action, about, now_of(session))

    return write


def record(session: Session, principal: Principal, action: str, about: str, now: datetime) -> None:
    """Write a line."""
    session.add(
        AuditEvent(
            id=new_id(now),
            at=now,
            token_id=principal.token_id,
            actor=str(principal)[:100],
            action=action[:100],
            object=about,
        )
    )
    session.flush()


def listed(session: Session, *, after: str | None, limit: int) -> Page[AuditView]:
    """Lines of the log, the newest first."""
    page = paging.newest_first(session, AuditEvent, AuditEvent.id, (), after, limit)
    return page.shown(AuditView.model_validate(row, from_attributes=True) for row in page.items)
