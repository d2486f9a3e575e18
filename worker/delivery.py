"""Brings results to the service, and gives jobs back to it."""

from __future__ import annotations

import logging
import time
from functools import partial

from worker.client import Fenced, Refused, ServiceAway, ServiceClient, Ticket
from worker.patience import Patience
from worker.spool import Answer, Entry, Spool

log = logging.getLogger(__name__)

RELEASE_PATIENCE_S = 5.0
TRACES_PATIENCE_S = 15.0
"""For all traces that wait, after each job and at the start; a request that runs is waited for."""


class Delivery:
    """Delivers one worker's spool."""

    def __init__(
        self, client: ServiceClient, spool: Spool, patience: Patience, drain_s: float
    ) -> None:
        """``drain_s``: how long a worker that is stopping still tries."""
        self._client = client
        self._spool = spool
        self._patience = patience
        self._drain_s = drain_s
        self._drain_until_s: float | None = None

    def everything(self) -> None:
        """Deliver what is in the spool, oldest first: results, then traces."""
        for entry in self._spool.entries():
            self.deliver(entry)
        self.traces()

    def traces(self) -> None:
        """Deliver traces for a while; what is left stays in the spool for the next time.

        A service that takes results and no traces, its disk nearly full perhaps, must not keep
        this worker from measuring.
        """
        until_s = time.monotonic() + TRACES_PATIENCE_S
        for entry in self._spool.traces():
            try:
                self._patience.insist(
                    partial(self._spool.deliver_trace, entry, self._client.post_trace),
                    lambda: self._goes_on() and time.monotonic() < until_s,
                )
            except ServiceAway as away:
                log.warning("The trace of %s is tried again later: %s", entry.ticket, away)
                return

    def deliver(self, entry: Entry) -> Answer | None:
        """Send a result until it is answered; a worker that is stopping tries for a while.

        Returns the final answer, or None if there was none: then the result stays in the spool.
        """
        try:
            answer = self._patience.insist(
                lambda: self._spool.deliver(entry, self._client.post_result), self._goes_on
            )
        except ServiceAway:
            log.warning("The result of %s stays in the spool for the next start.", entry.ticket)
            return None
        if answer is Answer.COUNTED:
            log.info("The result of %s is with the service.", entry.ticket)
        return answer

    def release(self, ticket: Ticket, reason: str) -> None:
        """Give a job back; if that does not work soon, its lease ends by itself."""
        until_s = time.monotonic() + RELEASE_PATIENCE_S
        try:
            self._patience.persist(
                lambda: self._client.release(ticket, reason), lambda: time.monotonic() < until_s
            )
            log.info("%s is given back to the queue.", ticket)
        except (ServiceAway, Fenced, Refused) as error:
            log.warning("%s could not be given back: %s", ticket, error)

    def _goes_on(self) -> bool:
        stop = self._patience.stop
        if not stop.draining:
            return True
        if self._drain_until_s is None:
            self._drain_until_s = time.monotonic() + self._drain_s
        return not stop.aborted and time.monotonic() < self._drain_until_s
