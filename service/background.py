"""What a replica does unasked: sweep, fire schedules, compare, judge. Needs no leader."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from service import comparisons, confirmation, judging, queue, schedule
from service.database import Database, now_of
from service.queue import Terms

log = logging.getLogger(__name__)


class Background:
    """Two threads: one looks after queue, schedules and comparisons; judging may take longer."""

    def __init__(
        self, database: Database, terms: Terms, every_s: float, confirmations: int
    ) -> None:
        self._database = database
        self._terms = terms
        self._every_s = every_s
        self._confirmations = confirmations
        self._stop = threading.Event()
        self._forgiven = False
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
        if not self._forgiven:
            self._forgive()
            self._forgiven = True
        with self._database.writing() as session:
            swept = queue.sweep(session, self._terms, now_of(session))
        if swept != queue.Swept():
            log.warning("expired leases: %s", swept)
        with self._database.writing() as session:
            fired = schedule.fire_due(session, now_of(session))
        for slot in fired:
            log.info("schedule %s fired its slot of %s", slot.schedule, slot.due_at)
        comparisons.advance_all(self._database)

    def _forgive(self) -> None:
        with self._database.writing() as session:
            count = queue.grant_amnesty(session, self._terms, now_of(session))
        if count:
            log.info("%d live leases extended after the restart", count)

    def _judge(self) -> None:
        confirmation.follow_all(self._database)
        while judging.look(self._database, self._stop.wait, self._confirmations).notes:
            if self._stop.is_set():
                return
