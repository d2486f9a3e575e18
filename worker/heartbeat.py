"""Keeps a lease alive from a thread, and knows when this worker must stop by itself."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from enum import StrEnum
from typing import Self

from benchmarks.contracts import DeviceReading, Lease, Progress
from benchmarks.contracts import Heartbeat as Beat
from worker.client import ClientError, Fenced, ServiceClient, Ticket

log = logging.getLogger(__name__)

JITTER = 0.1
RETRY_SHARE = 0.25
"""After a failed renewal the next comes after this share of a heartbeat."""

MOST_PATIENCE_S = 10.0


class Cause(StrEnum):
    """A reason to stop a running child before its end."""

    FENCED = "fenced"
    """The service has given the attempt up."""
    ISOLATED = "isolated"
    """The lease could not be renewed in time: the service may be about to give it up."""
    CANCELLED = "cancelled"
    ABORTED = "aborted"
    """Someone at this worker wants it to end at once."""


def now_s() -> float:
    """Seconds on a clock that also runs while the machine is suspended, as leases do."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Heartbeat:
    """Renews one lease while its ``with`` block lasts.

    The lease counts from the moment when the renewing request was *sent*, so that this worker never
    expects its end later than the service does. The thread that watches the child calls `cause`: a
    hanging request cannot delay the fence.
    """

    def __init__(
        self,
        client: ServiceClient,
        lease: Lease,
        sent_at_s: float,
        fence_share: float,
        device: Callable[[], DeviceReading | None] = lambda: None,
    ) -> None:
        """``device`` gives the newest reading of the device, which each renewal carries."""
        self._client = client
        self._ticket = Ticket.of(lease)
        self._every_s = lease.heartbeat_s
        self._share = fence_share
        self._lock = threading.Lock()
        self._fence_at_s = sent_at_s + fence_share * lease.lease_s
        self._ends_at_s = sent_at_s + lease.lease_s
        self._device = device
        self._cause: Cause | None = None
        self._progress: Progress | None = None
        self._log: Callable[[], str] = str
        self._log_sent = ""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="heartbeat", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def tell(self, progress: Progress) -> None:
        """Note where the child is; the next renewal carries it."""
        self._progress = progress

    def follow(self, log: Callable[[], str]) -> None:
        """Let renewals carry the end of a log, which ``log`` gives, whenever it has changed."""
        self._log = log

    def cause(self) -> Cause | None:
        """Return the reason to stop, if there is one; once there is one it stays."""
        with self._lock:
            if self._cause is None and now_s() >= self._fence_at_s:
                self._cause = Cause.ISOLATED
            return self._cause

    def left_s(self) -> float:
        """Time until the service may hand the job to another worker, in s."""
        with self._lock:
            return max(0.0, self._ends_at_s - now_s())

    def _renew(self) -> None:
        wait_s = self._every_s * random.uniform(1 - JITTER, 1 + JITTER)
        while not self._ended.wait(wait_s) and self.cause() is None:
            good = self._once()
            share = 1.0 if good else RETRY_SHARE
            wait_s = self._every_s * share * random.uniform(1 - JITTER, 1 + JITTER)

    def _once(self) -> bool:
        """Send one renewal; say whether it succeeded."""
        sent_at_s = now_s()
        patience_s = max(0.05, min(self._every_s, self._fence_at_s - sent_at_s, MOST_PATIENCE_S))
        try:
            log_tail = self._log()
            changed = None if log_tail == self._log_sent else log_tail
            beat = Beat(progress=self._told(), log_tail=changed)
            renewal = self._client.heartbeat(self._ticket, beat, patience_s, self._goes_on)
            self._log_sent = log_tail
        except Fenced:
            self._stop_for(Cause.FENCED)
            return False
        except ClientError as error:
            if not self._ended.is_set():
                log.warning("Could not renew %s: %s", self._ticket, error)
            return False
        except Exception:  # without this thread the lease, and the child with it, would be lost
            log.exception("Could not renew %s.", self._ticket)
            return False
        with self._lock:
            if self._cause is None:
                self._fence_at_s = sent_at_s + self._share * renewal.lease_s
                self._ends_at_s = sent_at_s + renewal.lease_s
        if renewal.cancel:
            self._stop_for(Cause.CANCELLED)
        return True

    def _told(self) -> Progress | None:
        if self._progress is None:
            return None
        return self._progress.model_copy(update={"device": self._device()})

    def _goes_on(self) -> bool:
        return not self._ended.is_set()

    def _stop_for(self, cause: Cause) -> None:
        with self._lock:
            self._cause = self._cause or cause
