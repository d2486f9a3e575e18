"""Nothing new is begun before all of the last job has left the machine and the device."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from worker.child import process_tree
from worker.device.conditions import VACANCY_LOOK_S
from worker.stop import Stop
from worker.supervisor import Station, listed

log = logging.getLogger(__name__)

BRIEFLY_S, SAY_AGAIN_S = 2.0, 60.0
"""How long a device may take to become free without a word, and between two words, in s."""


class Vacancy:
    """The vacancy of a station: nothing of the last job is left on its machine or device."""

    def __init__(self, station: Station, stop: Stop) -> None:
        self._station = station
        self._stop = stop
        self._foreign: frozenset[int] = frozenset()

    def await_it(self, goes_on: Callable[[], bool]) -> bool:
        """Wait for it while ``goes_on()``; say whether it came.

        Others on the device are none of ours to end: they are named, and what is measured beside
        them carries the flag ``other_processes``.
        """
        say_at_s = time.monotonic() + BRIEFLY_S
        while mine := self._remaining():
            if time.monotonic() >= say_at_s:
                log.error("No job is claimed: processes %s of the last one remain.", listed(mine))
                say_at_s = time.monotonic() + SAY_AGAIN_S
            if not self._stop.pause(VACANCY_LOOK_S, goes_on):
                return False
        return True

    def _remaining(self) -> set[int]:
        """Processes of the last job that live, or whose context is still on the device."""
        holders = self._station.conditions.occupancy.look()
        if holders.foreign - self._foreign:
            pids = listed(holders.foreign)
            log.warning("Processes %s, not this worker's, use its device.", pids)
        self._foreign = holders.foreign
        survivors = {(process.pid, process.started) for process in self._station.survivors}
        return {pid for pid, _ in process_tree.alive(survivors)} | holders.own
