"""Trying again while the service is away, for as long as there is a point in it."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from worker.client import ServiceAway
from worker.http_exchange import GoesOn
from worker.stop import Stop

T = TypeVar("T")
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Patience:
    """Exponential backoff with jitter between two bounds in s, so that workers do not return
    to a restarted service all at once."""

    stop: Stop
    first_s: float
    limit_s: float

    def insist(self, call: Callable[[GoesOn], T], goes_on: GoesOn) -> T:
        """Repeat ``call`` while the service is away and ``goes_on()``; a second signal ends it.

        ``call`` is given ``goes_on``, so that a request that runs breaks off with it.

        Raises:
            ServiceAway: ``goes_on`` said to give up.
            Fenced, Refused: an answer that no repetition changes.
            Aborted: the worker was asked twice to end.
        """
        with self.stop.interruptible():
            return self.persist(call, goes_on)

    def persist(self, call: Callable[[GoesOn], T], goes_on: GoesOn) -> T:
        """As `insist`, but no signal breaks into it."""
        wait_s = self.first_s
        warned = False
        while True:
            try:
                answer = call(goes_on)
            except ServiceAway as away:
                if not goes_on():
                    raise
                if not warned:  # once, not each time
                    log.warning("%s Trying again until it does.", away)
                    warned = True
                if not self.stop.pause(random.uniform(self.first_s / 2, wait_s), goes_on):
                    raise
                wait_s = min(self.limit_s, 2 * wait_s)
            else:
                if warned:
                    log.info("The service answers again.")
                return answer
