"""One look at what changed: series are analysed, findings follow, suspicions are measured again.

Every step is a transaction of its own and may be repeated: a process that dies in between goes on
after its restart, and two that look at once do the same work twice and open nothing twice.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
from typing import NoReturn, TypeVar

from sqlalchemy.orm import Session

from service.database.failures import passes
from service.database.paging import batched
from service.database.session import Database, alone, now_of
from service.findings import confirm, failing_cases, fastest_cases, slow_series, update
from service.findings.bad_nodes import Compared, compare_nodes, watch_nodes
from service.findings.candidate_changes import candidates
from service.findings.growth import grow, growing
from service.findings.opening import open_findings
from service.findings.queries import failing_by_series
from service.findings.rules import AlreadyReported, Candidate
from service.findings.threshold_table import list_thresholds
from service.findings.thresholds import least_effect, threshold_of
from service.history import analysis, failing, pending, slow_workers
from service.history.series_history import SeriesHistory
from service.schemas.thresholds import ThresholdView

log = logging.getLogger(__name__)

T = TypeVar("T")

GROUP = 16
"""Series whose analyses are stored in one transaction. Each commit waits for the disk; on SQLite
nobody else writes meanwhile, for some 50 ms."""
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
    """A series whose findings are up to date, and what is new in it."""

    history: SeriesHistory
    covered: AlreadyReported
    believable: tuple[Candidate, ...]
    """Changes that may become findings."""
    least: float
    """The smallest change of the series that is reported."""
    suspicious: tuple[confirm.Suspicion, ...] = ()

    def with_suspicions(self, since: datetime, ill: slow_workers.SlowPeriods) -> SeriesFindings:
        """Add the suspicions from ``since`` on."""
        suspicious = confirm.suspicions(self.history, since, self.covered, ill, self.least)
        return replace(self, suspicious=tuple(suspicious))


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


def look(database: Database, daily: int = DAILY) -> Looked:
    """Analyse what waits, and measure again at most ``daily`` suspicions in a day."""
    with database.reading() as session:
        due, ill = pending.pending_series(session), slow_workers.slow_periods(session)
    analysed: list[str] = []
    waiting = sorted(due.since.items())
    for group in batched(waiting, GROUP):
        analysed += _analyse_group(database, group)
    if not due.notes:
        return Looked(0)
    news = []
    for ids in batched(analysed, GROUP):
        at_once = _follow_quiet(database, ids, ill)
        for series_id in ids:
            since, followed = due.since[series_id], at_once.get(series_id)
            series = _news(database, series_id, since, ill, daily, followed)
            if series and (series.believable or series.suspicious):
                news.append(series)
    with database.reading() as session:
        compared = compare_nodes(session)
        likely = growing(analysis.Histories(session), analysed)
    # Before the notes are cleared: after an error, they still wait.
    broken = _apart(database, _failing, failing_cases.watch, "cases that fail")
    with database.writing() as session:
        alone(session, _FINDINGS)
        now = now_of(session)
        looked = conclude(session, due.notes, news, compared, now, daily, likely)
    fastest = _apart(
        database,
        lambda session: fastest_cases.ranked(session, analysed, now_of(session)) or None,
        fastest_cases.watch,
        "the fastest cases",
    )
    return replace(looked, opened=(*looked.opened, *broken, *fastest))


def _failing(session: Session) -> Sequence[failing.FailureRun] | None:
    runs = failing.failure_runs(session, now_of(session))
    return runs if runs or failing_by_series(session) else None


def _apart(
    database: Database,
    read: Callable[[Session], T | None],
    watch: Callable[[Session, T, datetime], list[str]],
    about: str,
) -> list[str]:
    """Tell of what was read, if anything; whatever is wrong there holds no other finding up."""
    try:
        with database.reading() as session:
            found = read(session)
        if found is None:
            return []
        with database.writing() as session:
            alone(session, _FINDINGS)
            return watch(session, found, now_of(session))
    except Exception as error:
        if passes(error):  # the next look tells of it
            raise
        log.exception("%s cannot be told", about)
        return []


def _analyse_group(database: Database, group: Sequence[tuple[str, datetime]]) -> list[str]:
    """Analyse some series and store all at once; the ids of those that could be analysed."""
    try:
        with database.reading() as session:
            stored = analysis.load_rows(session, [series_id for series_id, _ in group])
            inputs = [analysis.read(session, one, since, stored[one]) for one, since in group]
        detections = [analysis.analyse(points) for points in inputs]
        with database.writing() as session:
            now = now_of(session)
            locked = analysis.lock(session, list(stored), now)
            for points, detection in zip(inputs, detections, strict=True):
                analysis.store(session, points, detection, now, locked[points.tail.series_id])
    except Exception as error:
        if passes(error):  # the database, not the series
            raise
        # One of them is at fault: apart, it holds no other up.
        return [series_id for series_id, since in group if _analyse(database, series_id, since)]
    return [series_id for series_id, _ in group]


def _analyse(database: Database, series_id: str, since: datetime) -> bool:
    """Analyse one series, if that is possible; whatever is wrong with it holds no other up.

    What takes time is done before the turn to write: on SQLite everybody else waits for that.
    """
    try:
        with database.reading() as session:
            points = analysis.read(session, series_id, since)
        detection = analysis.analyse(points)
        with database.writing() as session:
            analysis.store(session, points, detection, now_of(session))
    except Exception as error:
        if passes(error):  # the database, not the series
            raise
        log.exception("series %s cannot be analysed", series_id)
        with database.writing() as session:
            analysis.reset(session, series_id)
        return False
    return True


def _follow_quiet(
    database: Database, series: Sequence[str], ill: slow_workers.SlowPeriods
) -> dict[str, SeriesFindings]:
    """Follow those of some series that no finding is about, all at once: nothing is written."""
    try:
        with database.reading() as session:
            read, now = ReadAtOnce.of(session, series), now_of(session)
            quiet = [series_id for series_id in series if not read.links[series_id]]
            return {one: follow_series(session, one, ill, now, read) for one in quiet}
    except Exception as error:
        if passes(error):  # the next look does it all
            raise
        log.debug("one of %d series is at fault; apart, it holds no other up", len(series))
        return {}


def _news(
    database: Database,
    series_id: str,
    since: datetime,
    ill: slow_workers.SlowPeriods,
    daily: int,
    series: SeriesFindings | None,
) -> SeriesFindings | None:
    """Bring one series' findings up to date, unless they are, in a transaction of its own.

    One for all of them would keep everybody from writing to SQLite for as long as it takes.
    """
    try:
        series = series or _follow(database, series_id, ill)
    except Exception as error:
        if passes(error):  # the next look does it all
            raise
        log.exception("nothing can be concluded from series %s", series_id)
        return None
    try:
        return series.with_suspicions(since, ill) if daily else series
    except Exception:
        # It costs no change that is believable without.
        log.exception("nothing can be suspected in series %s", series_id)
        return series


def _follow(database: Database, series_id: str, ill: slow_workers.SlowPeriods) -> SeriesFindings:
    """Follow a series; while there is no finding about it, nothing is written for it."""
    with database.reading() as session:
        if not _about(session, series_id):
            return follow_series(session, series_id, ill, now_of(session))
    with database.writing() as session:
        alone(session, _FINDINGS)
        return follow_series(session, series_id, ill, now_of(session))


@dataclass(frozen=True, slots=True)
class ReadAtOnce:
    """Findings, histories and thresholds of some series, read at once."""

    links: Mapping[str, Sequence[update.Link]]
    histories: analysis.Histories
    thresholds: Sequence[ThresholdView]

    @classmethod
    def of(cls, session: Session, series: Sequence[str]) -> ReadAtOnce:
        """Read them, findings first: others may open more meanwhile."""
        links = update.links_by_series(session, series)
        histories = analysis.Histories(session, stored=analysis.load_rows(session, series))
        return cls(links, histories, list_thresholds(session))


def follow_series(
    session: Session,
    series_id: str,
    ill: slow_workers.SlowPeriods,
    now: datetime,
    read: ReadAtOnce | None = None,
) -> SeriesFindings:
    """Bring a series' findings up to date, and find what is believable in it.

    ``ill`` says when nodes were slow; their results of that time are put down to them.
    """
    read = read or ReadAtOnce.of(session, [series_id])
    histories = read.histories
    covered = update.follow(histories, series_id, read.links[series_id], ill, now)
    history = histories.of(series_id)
    least = least_effect(threshold_of(read.thresholds, history.series))
    believable = tuple(
        replace(change, not_reproduced=confirm.not_reproduced(histories, change))
        for change in candidates(session, history, covered, ill, least)
    )
    return SeriesFindings(history, covered, believable, least)


def _about(session: Session, series_id: str) -> frozenset[str]:
    return frozenset(row.id for _, row in update.links_of(session, series_id))


def _up_to_date(session: Session, series: SeriesFindings, now: datetime) -> SeriesFindings:
    """Follow a series again if a finding about it was opened meanwhile, or has taken it in."""
    series_id = series.history.series.id
    if _about(session, series_id) == series.covered.findings:
        return series
    return follow_series(session, series_id, slow_workers.slow_periods(session), now)


def conclude(
    session: Session,
    notes: Sequence[str],
    news: Sequence[SeriesFindings],
    compared: Sequence[Compared],
    now: datetime,
    daily: int = DAILY,
    likely: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Looked:
    """Open what is to be opened, of everything that was looked at together.

    ``likely`` names series, by finding, that show the cause of one by now.
    """
    nodes = watch_nodes(session, compared, now)
    histories = analysis.Histories(session, [series.history for series in news])
    slow_series.take_out(histories, now)
    grow(histories, likely, now)
    current = [_up_to_date(session, series, now) for series in news]
    suspicious = [suspicion for series in current for suspicion in series.suspicious]
    begun = confirm.begin(session, suspicious, now, daily)
    believable = [change for series in current for change in series.believable]
    opened = open_findings(histories, confirm.decided(session, believable), now)
    pending.clear_pending(session, notes)
    return Looked(len(notes), (*nodes, *opened), tuple(begun))
