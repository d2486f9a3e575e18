"""Moves all that runs on, such as comparisons, so that none holds the others up."""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable, Iterator
from datetime import datetime

from sqlalchemy import Select
from sqlalchemy.orm import Session

from service.database.session import Database, now_of

log = logging.getLogger(__name__)

Advance = Callable[[Session, str, datetime], bool]
"""Moves one on as far as it goes now; returns whether that ended it."""


def advance_each(
    database: Database, running: Select[str], after: str, advance: Advance, noun: str
) -> Iterator[tuple[str, bool]]:
    """Move each on in its own transaction, those behind ``after`` first.

    Args:
        database: holds them.
        running: selects their ids, ascending.
        after: the id of the one that was moved on last; whoever stops early goes on there.
        advance: moves one on.
        noun: names the kind in the log.

    Yields:
        Each id, and whether that ended it.
    """
    with database.reading() as session:
        ids = session.scalars(running).all()
    first = bisect_right(ids, after)
    for one in (*ids[first:], *ids[:first]):
        ended = False
        try:
            with database.writing() as session:
                ended = advance(session, one, now_of(session))
        except Exception:
            # One that cannot be moved on must not hold the others up.
            log.exception("%s %s could not be moved on; trying again", noun, one)
        yield one, ended
