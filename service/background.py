"""What a replica does unasked: sweep, fire schedules, compare, judge. Needs no leader."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from service import comparisons
from service.analysis_process import AnalysisProcess
from service.database.session import Database, now_of
from service.findings import confirm, pipeline
from service.jobs import expiry, schedules, types
from service.jobs.types import Terms

log = logging.getLogger(__name__)

_GRACE_S = 2.0
"""For what is computed when the service ends."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Background:
    """Two threads: one looks after queue, schedules and comparisons; judging may take longer."""

    def __init__(
        self, database: Database, terms: Terms, every_s: float, confirmations: int
    ) -> None:
        self._database = database
        self._terms = terms
        self._every_s = every_s
        self._confirmations = confirmations
        self._aside = AnalysisProcess(database)
        self._clock = WallClock(terms.lease / 4)
        self._deaf = True
        """Whether heartbeats may have been missed since the last look; so it is at the start."""
        self._compared = ""
        """The comparison that was moved on last."""
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._repeat, args=(chore,), name=name, daemon=True)
            for name, chore in (("sweeping", self._look), ("judging", self._judge))
        ]

    def start(self) -> None:
        """Forgive what was missed while no service ran, then look regularly."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End the threads; returns when their transactions are over."""
        self._stop.set()
        until_s = time.monotonic() + _GRACE_S
        for thread in self._threads:
            thread.join(max(0.0, until_s - time.monotonic()))
        self._aside.end()  # of a question that still is computed, nothing is lost
        for thread in self._threads:
            thread.join()

    def _repeat(self, chore: Callable[[], None]) -> None:
        while not self._stop.is_set():
            try:
                chore()
            except Exception:
                # Whatever it was, the next look may find it gone; a thread that ended would not.
                log.exception("%s failed; trying again", threading.current_thread().name)
            self._stop.wait(self._every_s)

    def _look(self) -> None:
        self._sweep()
        with self._database.writing() as session:
            fired = schedules.fire_due(session, now_of(session))
        for slot in fired:
            log.info("schedule %s fired its slot of %s", slot.schedule, slot.due_at)
        self._compare()

    def _compare(self) -> None:
        """Move comparisons on, as many as fit between two sweeps: expired leases do not wait."""
        until_s = time.monotonic() + self._every_s
        for compared, _ in comparisons.advance_after(self._database, self._compared):
            self._compared = compared
            if time.monotonic() >= until_s or self._stop.is_set():
                return

    def _sweep(self) -> None:
        deaf, self._deaf = self._deaf, True  # if this fails, no heartbeat was heard either
        with self._database.writing() as session:
            now = now_of(session)
            jumped = self._clock.jumped(now)
            if (deaf or jumped) and (count := expiry.extend_all_leases(session, self._terms, now)):
                log.warning("%d live leases count from now: heartbeats may have been missed", count)
            swept = expiry.sweep(session, self._terms, now)
        self._deaf = False
        if swept != types.Swept():
            log.warning("expired leases: %s", swept)

    def _judge(self) -> None:
        confirm.follow_all(self._database)
        while self._look_at_series().notes:
            if self._stop.is_set():
                return
        self._aside.spare()

    def _look_at_series(self) -> pipeline.Looked:
        return pipeline.look(self._database, self._stop.wait, self._confirmations, self._aside.ask)


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
