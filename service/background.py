"""What a replica does unasked: end expired leases, fire schedules, move comparisons on.

Needs no leader.
"""

from __future__ import annotations

import logging
import threading

from sqlalchemy.orm import Session

from service import comparisons, queue, schedule
from service.database import Database, now_of
from service.queue import Terms

log = logging.getLogger(__name__)


class Background:
    """A thread that looks after queue, schedules and comparisons every few seconds."""

    def __init__(self, database: Database, terms: Terms, every_s: float) -> None:
        self._database = database
        self._terms = terms
        self._every_s = every_s
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
        forgiven = False
        while not self._stop.is_set():
            try:
                if not forgiven:
                    self._forgive()
                    forgiven = True
                self._look()
            except Exception:
                # Whatever it was, the next look may find it gone; a thread that ended would not.
                log.exception("looking after leases and schedules failed; trying again")
            self._stop.wait(self._every_s)

    def _forgive(self) -> None:
        with self._database.writing() as session:
            count = queue.grant_amnesty(session, self._terms, now_of(session))
        if count:
            log.info("%d live leases extended after the restart", count)

    def _look(self) -> None:
        with self._database.writing() as session:
            swept = self._sweep(session)
        if swept != queue.Swept():
            log.warning("expired leases: %s", swept)
        with self._database.writing() as session:
            fired = schedule.fire_due(session, now_of(session))
        for slot in fired:
            log.info("schedule %s fired its slot of %s", slot.schedule, slot.due_at)
        comparisons.advance_all(self._database)

    def _sweep(self, session: Session) -> queue.Swept:
        return queue.sweep(session, self._terms, now_of(session))
