"""The only module that changes which comment is whose: one courier writes a subject at a time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, cast

from sqlalchemy import Table, update
from sqlalchemy.orm import Session

from service.database.session import Database, insert_if_absent, now_of, rows
from service.models import ForgeComment
from service.outbox.post import NotDelivered

HELD = timedelta(seconds=60)
"""Longer than one attempt may take; who is killed keeps a subject for so long."""
_WAIT_S, _LOOK_S = 5.0, 0.2
_TABLE = cast(Table, ForgeComment.__table__)


@dataclass
class HeldComment:
    """A subject that nobody else writes on now, and its comment as far as it is known."""

    database: Database
    sink: str
    subject: str
    until: datetime
    repository: str
    number: int
    comment_id: str

    def keep(self, repository: str, number: int, comment_id: str) -> None:
        """Note where the comment stands."""
        known = {"repository": repository, "number": number, "comment_id": comment_id}
        _change(self, **known)
        self.repository, self.number, self.comment_id = repository, number, comment_id


def claim(session: Session, sink: str, subject: str, now: datetime) -> bool:
    """Store a subject; False if it is there already."""
    empty = {"repository": "", "number": 0, "comment_id": "", "held_until": now}
    return insert_if_absent(session, _TABLE, {"sink": sink, "subject": subject, **empty})


@contextmanager
def held(database: Database, sink: str, subject: str) -> Iterator[HeldComment]:
    """Keep all others from writing on a subject meanwhile.

    Raises:
        NotDelivered: another courier writes on it all the time.
    """
    ends_s = time.monotonic() + _WAIT_S
    while (own := _take(database, sink, subject)) is None:
        if time.monotonic() > ends_s:
            raise NotDelivered("Another courier writes on this pull request.")
        time.sleep(_LOOK_S)
    try:
        yield own
    finally:
        _change(own, held_until=own.until - HELD)


def _take(database: Database, sink: str, subject: str) -> HeldComment | None:
    with database.writing() as session:
        now = now_of(session)
        claim(session, sink, subject, now - HELD)
        row = session.get_one(ForgeComment, (sink, subject), populate_existing=True)
        seen = *_of(sink, subject), ForgeComment.held_until == row.held_until
        free = row.held_until <= now
        if not free or not rows(
            session, update(ForgeComment).where(*seen).values(held_until=now + HELD)
        ):
            return None
        where = (row.repository, row.number, row.comment_id)
        return HeldComment(database, sink, subject, now + HELD, *where)


def _change(own: HeldComment, **values: Any) -> None:
    """Change a subject unless another courier has taken it since."""
    seen = *_of(own.sink, own.subject), ForgeComment.held_until == own.until
    with own.database.writing() as session:
        rows(session, update(ForgeComment).where(*seen).values(values))


def _of(sink: str, subject: str) -> tuple[Any, ...]:
    return ForgeComment.sink == sink, ForgeComment.subject == subject
