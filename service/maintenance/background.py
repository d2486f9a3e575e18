"""Work that a replica does unasked: sweep, fire schedules, compare, have results analysed."""

from __future__ import annotations

import logging
import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from benchmarks.die_with_parent import tied
from service import comparisons
from service.comparisons import bisection
from service.database.session import Database, now_of
from service.jobs import backfill, expiry, schedules, types, workers
from service.outbox import couriers, deliveries
from service.outbox.sinks import NOBODY, Sinks
from service.settings import Settings

log = logging.getLogger(__name__)

_MOVES = {"comparisons": comparisons.advance_after, "bisections": bisection.advance_after}
"""Moves on what runs, by kind; a look at one kind takes as long as the pause between looks."""

ANALYSIS = (sys.executable, "-m", "service", "--role", "analysis")
"""The command of the analysis process."""
_NICENESS = 10
"""Niceness of the analysis process: on few processors requests come first."""
_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 60.0
"""Between two of its starts; the pause doubles with each start until one has lasted."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Unasked:
    """Daily budgets of work that nobody asked for; 0 allows none."""

    bisections: int = 0
    """Processes of bisections."""
    backfill: int = 0
    """Jobs at the commits between two measured ones."""


class Background:
    """One thread that looks after queue, schedules, comparisons and the analysis process.

    No replica leads: each does all of it, and the database decides who was first.
    """

    def __init__(
        self,
        database: Database,
        terms: types.Terms,
        every_s: float,
        analysis: AnalysisProcess | None = None,
        unasked: Unasked | None = None,
        sinks: Sinks = NOBODY,
        chores: Sequence[Callable[[], None]] = (),
    ) -> None:
        """``chores`` are called at each look, and tell by themselves when they are due."""
        self._database = database
        self._terms = terms
        self._every_s = every_s
        self._analysis = analysis
        self._unasked = unasked or Unasked()
        self._sinks = sinks
        self._chores = chores
        self._couriers = couriers.Couriers(database, sinks, every_s)
        self._clock = WallClock(terms.lease / 4)
        self._deaf = True
        """Whether heartbeats may have been missed since the last look; so it is at the start."""
        self._hears_since_s = math.inf
        """When the first look after the last such time was."""
        self._moved_on = dict.fromkeys(_MOVES, "")
        """The comparison that was moved on last."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._repeat, name="background", daemon=True)

    def start(self) -> None:
        """Forgive what was missed while no service ran, then look regularly."""
        self._thread.start()
        self._couriers.start()

    def stop(self) -> None:
        """End the analysis process and the threads; returns when their transactions are over."""
        self._stop.set()
        self._thread.join()
        self._couriers.stop()
        if self._analysis is not None:
            self._analysis.end()

    def _repeat(self) -> None:
        first = [] if self._analysis is None else [self._analysis.keep]
        chores = [*first, self._look, *self._chores]
        while not self._stop.is_set():
            for chore in chores:
                try:
                    chore()
                except Exception:
                    # The next look may find its cause gone; a thread that ended would not.
                    log.exception("background work failed; trying again")
            self._stop.wait(self._every_s)

    def _look(self) -> None:
        self._sweep()
        self._watch_workers()
        with self._database.writing() as session:
            fired = schedules.fire_due(session, now_of(session))
        for slot in fired:
            log.info("schedule %s fired its slot of %s", slot.schedule, slot.due_at)
        self._compare()
        if self._sinks.sink:
            couriers.route(self._database, self._sinks)
        with self._database.writing() as session:
            deliveries.remove_old(session, now_of(session))
        self._begin()  # last: whoever waits for an answer comes before what nobody asked for

    def _begin(self) -> None:
        """Begin what nobody asked for."""
        if self._unasked.bisections:
            with self._database.writing() as session:
                bisection.begin_unasked(session, self._unasked.bisections, now_of(session))
        if self._unasked.backfill:
            with self._database.writing() as session:
                backfill.fill(session, self._unasked.backfill, now_of(session))

    def _compare(self) -> None:
        for kind, advance_after in _MOVES.items():
            until_s = time.monotonic() + self._every_s
            for moved_on, _ in advance_after(self._database, self._moved_on[kind]):
                self._moved_on[kind] = moved_on
                if time.monotonic() >= until_s or self._stop.is_set():
                    break

    def _watch_workers(self) -> None:
        """Tell of workers that are lost or back; whom nobody could hear is not lost."""
        heard = time.monotonic() - self._hears_since_s > workers.SILENCE.total_seconds()
        with self._database.writing() as session:
            workers.watch_presence(session, now_of(session), heard=heard)

    def _sweep(self) -> None:
        deaf, self._deaf = self._deaf, True  # if this fails, no heartbeat was heard either
        with self._database.writing() as session:
            now = now_of(session)
            jumped = self._clock.jumped(now)
            if deaf or jumped:
                self._hears_since_s = time.monotonic()
            if (deaf or jumped) and (count := expiry.extend_all_leases(session, self._terms, now)):
                log.warning("%d live leases count from now: heartbeats may have been missed", count)
            swept = expiry.sweep(session, self._terms, now)
        self._deaf = False
        if swept != types.Swept():
            log.warning("expired leases: %s", swept)


class AnalysisProcess:
    """Starts the process that analyses results, again when it has ended, and ends it.

    The kernel ends it with the thread that started it, so also when the service is killed.
    """

    def __init__(self, settings: Settings) -> None:
        self._environment = os.environ | {
            "THROUGHLINE_DATABASE_URL": settings.url,
            "THROUGHLINE_SWEEP_S": str(settings.sweep_s),
            "THROUGHLINE_CONFIRMATIONS": str(settings.confirmations),
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._started_s = -math.inf
        self._pause_s = 0.0

    @property
    def running(self) -> bool:
        """True between its start and its end."""
        return self._process is not None and self._process.poll() is None

    def keep(self) -> None:
        """Start the process if it does not run, unless it was started just now."""
        lasted_s = time.monotonic() - self._started_s
        if self.running or lasted_s < self._pause_s:
            return
        if self._process is not None:
            log.warning("analysis ended with %s; starting it again", self._process.returncode)
        steady = lasted_s > 2 * _LONGEST_PAUSE_S
        self._pause_s = _PAUSE_S if steady else min(2 * self._pause_s, _LONGEST_PAUSE_S)
        self._started_s = time.monotonic()
        # In a session of its own: Ctrl-C in a terminal is meant for the service, which ends it.
        self._process = subprocess.Popen(
            [*tied(), *ANALYSIS],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.setpriority(os.PRIO_PROCESS, self._process.pid, _NICENESS)

    def end(self) -> None:
        """End the process, whatever it does: each of its steps can be repeated."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


class WallClock:
    """Watches whether the database's clock goes on as time does, or was set."""

    def __init__(self, tolerance: timedelta) -> None:
        self._tolerance = tolerance
        self._behind: timedelta | None = None

    def jumped(self, now: datetime) -> bool:
        """Whether the clock, which says ``now``, moved otherwise than time since the last call."""
        passed = timedelta(seconds=time.clock_gettime(time.CLOCK_BOOTTIME))
        behind, self._behind = self._behind, now - _EPOCH - passed
        return behind is not None and abs(self._behind - behind) > self._tolerance
