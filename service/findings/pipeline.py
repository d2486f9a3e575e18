"""One look at what changed: series are analysed, findings follow, suspicions are measured again.

Every step is a transaction of its own and may be repeated: a process that dies in between goes on
after its restart, and two that look at once do the same work twice and open nothing twice.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NoReturn

from sqlalchemy.orm import Session

from service.database.failures import passes
from service.database.session import Database, alone, now_of
from service.findings import AlreadyReported, Candidate, confirm
from service.findings.bad_nodes import Compared, compare_nodes, ill_nodes, watch_nodes
from service.findings.confirm import Suspicion
from service.findings.opening import candidates, open_findings
from service.findings.update import follow, links_of
from service.history import analysis, pending
from service.history.series_history import Histories, SeriesHistory

log = logging.getLogger(__name__)

SHARE = 0.25
"""Of one core, at most: analysis waits, requests do not."""
_FINDINGS = "findings"
"""What nobody else may be at meanwhile."""
DAILY = 20
"""Suspicions that are measured again in a day, unless the settings say otherwise."""


@dataclass(frozen=True, slots=True)
class Looked:
    """The outcome of one look."""

    notes: int
    """Changes that have been analysed now; zero if none waited."""
    opened: tuple[str, ...] = ()
    """Findings."""
    begun: tuple[str, ...] = ()
    """Suspicions that are measured again."""


@dataclass(frozen=True, slots=True)
class SeriesFindings:
    """The believable changes and the suspicions of one series."""

    believable: tuple[Candidate, ...] = ()
    """Changes that may become findings."""
    suspicious: tuple[Suspicion, ...] = ()
    series_id: str = ""
    findings: frozenset[str] = frozenset()
    """About the series, by id, when it said so."""


@dataclass(frozen=True, slots=True)
class Followed:
    """A series whose findings are up to date."""

    history: SeriesHistory
    covered: AlreadyReported
    believable: tuple[Candidate, ...]
    findings: frozenset[str]

    @property
    def changes(self) -> SeriesFindings:
        """The changes that may become findings, without suspicions."""
        return SeriesFindings(self.believable, (), self.history.series.id, self.findings)

    def with_suspicions(self, since: datetime, ill: frozenset[str]) -> SeriesFindings:
        """Give the changes that may become findings, and the suspicions from ``since`` on."""
        doubtful = confirm.suspicions(self.history, since, self.covered, ill)
        return replace(self.changes, suspicious=tuple(doubtful))


def run(database: Database, every_s: float, daily: int) -> NoReturn:
    """Look again and again, ``every_s`` seconds after there was nothing left to analyse.

    Whoever ends it may do so at any moment.
    """
    while True:
        try:
            confirm.follow_all(database)
            while look(database, daily=daily).notes:
                pass
        except Exception:
            # Whatever it was, the next look may find it gone.
            log.exception("analysis failed; trying again")
        time.sleep(every_s)


def look(
    database: Database, rest: Callable[[float], object] = time.sleep, daily: int = DAILY
) -> Looked:
    """Analyse what waits.

    Args:
        database: where it waits, and what is written.
        rest: is given seconds to leave the processor to others.
        daily: suspicions that may be measured again in a day.
    """
    with database.reading() as session:
        due, ill = pending.pending_series(session), ill_nodes(session)
    analysed = []
    for series_id, since in sorted(due.since.items()):
        with _sparing(rest):
            if _analyse(database, series_id, since):
                analysed.append(series_id)
    if not due.notes:
        return Looked(0)
    changes = []
    for series_id in analysed:
        with _sparing(rest):
            changes.append(_changes(database, series_id, due.since[series_id], ill, daily))
    with _sparing(rest):
        with database.reading() as session:
            compared = compare_nodes(session)
        with database.writing() as session:
            alone(session, _FINDINGS)
            return conclude(session, due.notes, changes, compared, now_of(session), daily)


@contextmanager
def _sparing(rest: Callable[[float], object]) -> Iterator[None]:
    begun = time.perf_counter()
    yield
    rest((time.perf_counter() - begun) * (1 / SHARE - 1))


def _analyse(database: Database, series_id: str, since: datetime) -> bool:
    """Analyse one series, if that is possible; whatever is wrong with it holds no other up.

    What takes time is done before the turn to write: on SQLite everybody else waits for that.
    """
    try:
        with database.reading() as session:
            points = analysis.read(session, series_id, since)
        result = analysis.analyse(points)
        with database.writing() as session:
            analysis.store(session, result, now_of(session))
    except Exception as error:
        if passes(error):  # the database, not the series
            raise
        log.exception("series %s cannot be analysed", series_id)
        with database.writing() as session:
            analysis.reset(session, series_id)
        return False
    return True


def _changes(
    database: Database, series_id: str, since: datetime, ill: frozenset[str], daily: int
) -> SeriesFindings:
    """Bring one series' findings up to date, in a transaction of its own.

    One for all of them would keep everybody from writing to SQLite for as long as it takes.
    """
    try:
        followed = _follow(database, series_id, ill)
    except Exception as error:
        if passes(error):  # the next look does it all
            raise
        log.exception("nothing can be concluded from series %s", series_id)
        return SeriesFindings()
    try:
        return followed.with_suspicions(since, ill) if daily else followed.changes
    except Exception:
        # It costs no change that is believable without.
        log.exception("nothing can be suspected in series %s", series_id)
        return followed.changes


def _follow(database: Database, series_id: str, ill: frozenset[str]) -> Followed:
    """Follow a series; while there is no finding about it, nothing is written for it."""
    with database.reading() as session:
        if not _about(session, series_id):
            return follow_series(session, series_id, ill, now_of(session))
    with database.writing() as session:
        alone(session, _FINDINGS)
        return follow_series(session, series_id, ill, now_of(session))


def follow_series(session: Session, series_id: str, ill: frozenset[str], now: datetime) -> Followed:
    """Bring a series' findings up to date, and find what is believable in it.

    ``ill`` names the nodes that are known to be slow, whose results are put down to them.
    """
    findings = _about(session, series_id)  # first: of what others open meanwhile nothing is known
    histories = Histories(session)
    covered = follow(histories, series_id, now)
    history = histories.of(series_id)
    believable = tuple(
        replace(each, not_reproduced=confirm.not_reproduced(histories, each))
        for each in candidates(session, history, covered, ill)
    )
    return Followed(history, covered, believable, findings)


def _about(session: Session, series_id: str) -> frozenset[str]:
    return frozenset(row.id for _, row in links_of(session, series_id))


def _believable_yet(session: Session, told: SeriesFindings, now: datetime) -> tuple[Candidate, ...]:
    if not told.believable or _about(session, told.series_id) == told.findings:
        return told.believable
    return follow_series(session, told.series_id, ill_nodes(session), now).believable


def conclude(
    session: Session,
    notes: Sequence[str],
    told: Sequence[SeriesFindings],
    compared: Sequence[Compared],
    now: datetime,
    daily: int = DAILY,
) -> Looked:
    """Open what is to be opened, of everything that was looked at together."""
    nodes = watch_nodes(session, compared, now)
    begun = confirm.begin(session, [s for each in told for s in each.suspicious], now, daily)
    believable = [each for some in told for each in _believable_yet(session, some, now)]
    opened = open_findings(
        session, [each for each in believable if not confirm.awaited(session, each)], now
    )
    pending.clear_pending(session, notes)
    return Looked(len(notes), (*nodes, *opened), tuple(begun))
