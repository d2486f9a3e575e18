"""What a replica does unasked: end expired leases and fire schedules. Needs no leader."""

from __future__ import annotations

import logging
import threading
import time
from datetime import UTC, datetime, timedelta

from service import queue, schedule
from service.database import Database, now_of
from service.queue import Terms

log = logging.getLogger(__name__)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Background:
    """A thread that looks after the queue and the schedules every few seconds."""

    def __init__(self, database: Database, terms: Terms, every_s: float) -> None:
        self._database = database
        self._terms = terms
        self._every_s = every_s
        self._clock = WallClock(terms.lease / 4)
        self._deaf = True
        """Whether heartbeats may have been missed since the last look; so it is at the start."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="background", daemon=True)

    def start(self) -> None:
        """Forgive what was missed while no service ran, then look regularly."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; returns when its transaction is over."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._look()
            except Exception:
                # Whatever it was, the next look may find it gone; a thread that ended would not.
                log.exception("looking after leases and schedules failed; trying again")
                self._deaf = True  # while the database was away no heartbeat was heard either
            self._stop.wait(self._every_s)

    def _look(self) -> None:
        with self._database.writing() as session:
            now = now_of(session)
            self._deaf |= self._clock.jumped(now)
            if self._deaf and (count := queue.grant_amnesty(session, self._terms, now)):
                log.warning("%d live leases count from now: heartbeats may have been missed", count)
            swept = queue.sweep(session, self._terms, now)
        self._deaf = False
        if swept != queue.Swept():
            log.warning("expired leases: %s", swept)
        with self._database.writing() as session:
            fired = schedule.fire_due(session, now_of(session))
        for slot in fired:
            log.info("schedule %s fired its slot of %s", slot.schedule, slot.due_at)


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
