"""Brings results to the service, and gives jobs back to it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress

from benchmarks.artifact_kinds import ArtifactKind
from worker.client import Faulty, Fenced, Refused, ServiceAway, ServiceClient, Ticket
from worker.outbox.spool import Answer, Entry, Spool
from worker.stop import Patience

log = logging.getLogger(__name__)

RELEASE_PATIENCE_S = 5.0
ARTIFACTS_PATIENCE_S = 15.0
"""For all waiting artifacts, after each job and at the start; a running request may finish."""
FAULT_PATIENCE_S = 300.0
"""Longest time that one result is sent again while the service fails at it; other jobs wait."""
AGAIN_S = 60.0
"""Pause before a postponed result is sent again: the service may be repaired."""


class _Sending:
    """One result being sent, and since when the service fails at it."""

    def __init__(self, send: Callable[[], Answer]) -> None:
        self._send = send
        self._faulty_since_s: float | None = None

    def once(self) -> Answer:
        """Send it; only the service's own fault counts against the result."""
        try:
            return self._send()
        except Faulty:
            self._faulty_since_s = self._faulty_since_s or time.monotonic()
            raise
        except ServiceAway:
            self._faulty_since_s = None
            raise

    @property
    def hopeless(self) -> bool:
        """Return True if the service has failed at this result for too long."""
        since_s = self._faulty_since_s
        return since_s is not None and time.monotonic() - since_s >= FAULT_PATIENCE_S


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
        self._put_off: list[Entry] = []
        self._again_at_s = 0.0

    def everything(self) -> None:
        """Deliver what is in the spool, oldest first: results, then artifacts."""
        for entry in self._spool.entries():
            self.deliver(entry)
        self.artifacts()

    def artifacts(self) -> None:
        """Deliver artifacts for a while; the others stay in the spool.

        A service that takes results and no artifacts, for lack of disk perhaps, must not stop this
        worker from measuring.
        """
        until_s = time.monotonic() + ARTIFACTS_PATIENCE_S
        for entry in self._spool.artifacts():
            try:
                self._send_artifact(entry, until_s)
            except ServiceAway as away:
                log.warning("The %s of %s is sent again later: %s", entry.kind, entry.ticket, away)
                return

    def _send_artifact(self, entry: Entry, until_s: float) -> None:
        self._patience.insist(
            # A request under way may finish: a slow line needs longer.
            lambda _: self._spool.deliver_artifact(entry, self._post_artifact),
            lambda: self._goes_on() and time.monotonic() < until_s,
        )

    def deliver(self, entry: Entry) -> Answer | None:
        """Send a result until it is answered; a worker that is stopping tries for a while.

        If the service fails at it for minutes, it is postponed and sent again now and then;
        meanwhile its lease ends. Returns the final answer; without one None, and the result stays
        in the spool.
        """
        sending = _Sending(lambda: self._spool.deliver(entry, self._post_result))
        try:
            answer = self._patience.insist(
                lambda _: sending.once(), lambda: self._goes_on() and not sending.hopeless
            )
        except ServiceAway as away:
            if sending.hopeless:
                self._put_off.append(entry)
                self._again_at_s = time.monotonic() + AGAIN_S
                log.error(
                    "The result of %s is put off and sent again later: %s", entry.ticket, away
                )
            else:
                log.warning("The result of %s stays in the spool for the next start.", entry.ticket)
            return None
        if answer is Answer.COUNTED:
            log.info("The result of %s is with the service.", entry.ticket)
        return answer

    def again(self) -> None:
        """Send postponed results again if it is time, without retries."""
        if not self._put_off or time.monotonic() < self._again_at_s:
            return
        self._again_at_s = time.monotonic() + AGAIN_S
        for entry in tuple(self._put_off):
            with suppress(ServiceAway):
                self._spool.deliver(entry, self._post_result)
                self._put_off.remove(entry)

    def release(self, ticket: Ticket, reason: str) -> None:
        """Give a job back; if that does not work soon, its lease ends by itself."""
        until_s = time.monotonic() + RELEASE_PATIENCE_S
        try:
            self._patience.persist(
                lambda goes_on: self._client.release(ticket, reason, goes_on),
                lambda: time.monotonic() < until_s,
            )
            log.info("%s is given back to the queue.", ticket)
        except (ServiceAway, Fenced, Refused) as error:
            log.warning("%s could not be given back: %s", ticket, error)

    def _post_result(self, ticket: Ticket, body: bytes) -> None:
        self._client.post_result(ticket, body, self._goes_on)

    def _post_artifact(self, ticket: Ticket, kind: ArtifactKind, body: bytes) -> None:
        self._client.post_artifact(ticket, kind, body, self._goes_on)

    def _goes_on(self) -> bool:
        stop = self._patience.stop
        if not stop.draining:
            return True
        if self._drain_until_s is None:
            self._drain_until_s = time.monotonic() + self._drain_s
        return not stop.aborted and time.monotonic() < self._drain_until_s
