"""One look at what changed: series are judged, findings follow, new ones are opened.

Every step is a transaction of its own and may be repeated: a service that dies in between goes on
after its restart, and two that look at once do the same work twice and open nothing twice.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from service import levels
from service.database import Database, alone, now_of
from service.findings.follow import follow
from service.findings.nodes import watch_nodes
from service.findings.opening import candidates, open_findings

log = logging.getLogger(__name__)

SHARE = 0.25
"""Of one core, at most: judging waits, requests do not."""


@dataclass(frozen=True, slots=True)
class Updated:
    """What one look did."""

    notes: int
    """Changes that have been judged now; zero if none waited."""
    series: int
    opened: tuple[str, ...]


def update(database: Database, rest: Callable[[float], object] = time.sleep) -> Updated:
    """Judge what waits. ``rest`` is given seconds to leave the processor to others."""
    with database.reading() as session:
        due = levels.due(session)
    for series_id, since in sorted(due.since.items()):
        begun = time.perf_counter()
        with database.writing() as session:
            levels.judge(session, series_id, since, now_of(session))
        rest((time.perf_counter() - begun) * (1 / SHARE - 1))
    if not due.notes:
        return Updated(0, 0, ())
    with database.writing() as session:
        alone(session, "findings")
        opened = follow_and_open(session, due, now_of(session))
        levels.judged(session, due.notes)
    return Updated(len(due.notes), len(due.since), tuple(opened))


def follow_and_open(session: Session, due: levels.Due, now: datetime) -> list[str]:
    """Bring the findings of the judged series up to date; the ids of new ones."""
    found = []
    for series_id in sorted(due.since):
        standing = levels.standing_of(session, series_id)
        tail = levels.load_tail(session, series_id)
        known = follow(session, standing, tail, now)
        found += candidates(session, standing, known.indexes)
    return [*watch_nodes(session, now), *open_findings(session, found, now)]
