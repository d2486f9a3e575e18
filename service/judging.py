"""One look at what changed: series are judged, findings follow, suspicions are measured again.

Every step is a transaction of its own and may be repeated: a service that dies in between goes on
after its restart, and two that look at once do the same work twice and open nothing twice.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from service import confirmation, levels
from service.confirmation import Suspicion
from service.database import Database, alone, now_of
from service.errors import Conflict
from service.findings import Candidate
from service.findings.follow import follow
from service.findings.nodes import ill_nodes, watch_nodes
from service.findings.opening import candidates, open_findings
from service.findings.read import name_of
from service.models import SeriesRow

log = logging.getLogger(__name__)

SHARE = 0.25
"""Of one core, at most: judging waits, requests do not."""
DAILY = 20
"""Suspicions that are measured again in a day, unless the settings say otherwise."""


@dataclass(frozen=True, slots=True)
class Looked:
    """What one look did."""

    notes: int
    """Changes that have been judged now; zero if none waited."""
    opened: tuple[str, ...] = ()
    """Findings."""
    begun: tuple[str, ...] = ()
    """Suspicions that are measured again."""


def look(
    database: Database, rest: Callable[[float], object] = time.sleep, daily: int = DAILY
) -> Looked:
    """Judge what waits. ``rest`` is given seconds to leave the processor to others."""
    with database.reading() as session:
        due = levels.due(session)
    for series_id, since in sorted(due.since.items()):
        begun = time.perf_counter()
        _judge(database, series_id, since)
        rest((time.perf_counter() - begun) * (1 / SHARE - 1))
    if not due.notes:
        return Looked(0)
    begun = time.perf_counter()
    with database.writing() as session:
        alone(session, "findings")
        looked = conclude(session, due, now_of(session), daily)
    rest((time.perf_counter() - begun) * (1 / SHARE - 1))
    return looked


def _judge(database: Database, series_id: str, since: datetime) -> None:
    """Judge one series; whatever is wrong with it holds no other up."""
    try:
        with database.writing() as session:
            levels.judge(session, series_id, since, now_of(session))
    except DBAPIError:
        raise  # the database, not the series
    except Exception:
        log.exception("series %s cannot be judged", series_id)
        with database.writing() as session:
            levels.forget(session, series_id)


def conclude(session: Session, due: levels.Due, now: datetime, daily: int = DAILY) -> Looked:
    """Draw the conclusions from series that have been judged."""
    ill = ill_nodes(session)
    found: list[Candidate] = []
    suspicious: list[Suspicion] = []
    for series_id, since in sorted(due.since.items()):
        try:
            with session.begin_nested():
                told, doubtful = _of_series(session, series_id, since, ill, now, daily)
        except (DBAPIError, Conflict):
            raise  # somebody was faster, or the database is away: the next look does it all
        except Exception:
            log.exception("nothing can be concluded from series %s", series_id)
            continue
        found += told
        suspicious += doubtful
    nodes = watch_nodes(session, now)
    begun = confirmation.begin(session, suspicious, now, daily)
    opened = open_findings(
        session, [each for each in found if not confirmation.awaited(session, each)], now
    )
    levels.judged(session, due.notes)
    return Looked(len(due.notes), (*nodes, *opened), tuple(begun))


def _of_series(
    session: Session,
    series_id: str,
    since: datetime,
    ill: frozenset[str],
    now: datetime,
    daily: int,
) -> tuple[list[Candidate], list[Suspicion]]:
    """Bring a series' findings up to date; what is believable, and what is suspicious in it."""
    series = name_of(session.get_one(SeriesRow, series_id))
    standing = levels.standing_of(session, series_id)
    tail = levels.load_tail(session, series_id)
    covered = follow(session, standing, tail, now)
    believable = [
        replace(each, not_reproduced=confirmation.not_reproduced(session, each))
        for each in candidates(session, standing, tail, covered, ill)
    ]
    if not daily:
        return believable, []
    return believable, confirmation.suspicions(series, standing, tail, since, covered, ill)
