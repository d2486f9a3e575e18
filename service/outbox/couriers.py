"""Couriers: threads of its own for each sink, so that a slow receiver holds up nothing else."""

from __future__ import annotations

import logging
import threading

from service.database.session import Database, now_of
from service.outbox import deliveries, digests
from service.outbox.post import ANSWER_S, NotDelivered
from service.outbox.sinks import Sending, Sink, Sinks

log = logging.getLogger(__name__)


class Couriers:
    """The threads that deliver. Every replica has them, and the database decides who sends."""

    def __init__(self, database: Database, sinks: Sinks, every_s: float) -> None:
        self._database = database
        self._address = sinks.address
        self._every_s = every_s
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._repeat, args=(sink,), name=sink.name, daemon=True)
            for sink in sinks.sink
            for _ in range(sink.at_once)
        ]

    def start(self) -> None:
        """Look for what is due from now on."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End the threads; returns when the attempts that were begun are over."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _repeat(self, sink: Sink) -> None:
        while not self._stop.is_set():
            try:
                while not self._stop.is_set() and deliver(self._database, sink, self._address):
                    pass
            except Exception:
                log.exception("sink %s: a delivery stopped halfway; trying again", sink.name)
            self._stop.wait(self._every_s)


def route(database: Database, sinks: Sinks) -> None:
    """Make the deliveries of the events that were written since the last time, and digests."""
    found = 1
    while found:
        with database.writing() as session:
            found = deliveries.route(session, sinks.sink, now_of(session))
    with database.writing() as session:
        digests.write_due(session, sinks.sink, now_of(session))


def deliver(database: Database, sink: Sink, address: str, within_s: float = ANSWER_S) -> bool:
    """Make one attempt of a sink that is due; return False if there was none.

    The claim is committed before anything is sent: who is killed in between leaves a delivery that
    is sent again, with the same id.
    """
    with database.writing() as session:
        claimed = deliveries.claim(session, sink, now := now_of(session))
    if claimed is None:
        return False
    fault = _attempt(sink, claimed, Sending(database, address, now, within_s))
    with database.writing() as session:
        now = now_of(session)
        if fault is None:
            deliveries.delivered(session, claimed, now)
        else:
            deliveries.failed(session, claimed, fault, now)
    return True


def _attempt(sink: Sink, claimed: deliveries.Claimed, sending: Sending) -> NotDelivered | None:
    try:
        sink.send(claimed.event, sending)
    except NotDelivered as fault:
        log.warning("sink %s: attempt %d failed: %s", sink.name, claimed.attempt, fault)
        return fault
    except Exception as fault:
        log.exception("sink %s: attempt %d failed", sink.name, claimed.attempt)
        return NotDelivered(f"The service failed ({type(fault).__name__}).")
    return None
