"""The state of one device: its processes, load, temperature and readings."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Self

from benchmarks.contracts import DeviceReading
from benchmarks.diagnosis.disturbances import DEVICE_BUSY, FOREIGN_MEMORY
from worker.child import process_tree
from worker.child.process_tree import Tree
from worker.device.nvml import Gauge
from worker.device.telemetry import Reading
from worker.http_exchange import GoesOn
from worker.settings import Settings

IDLE = 0.05
"""Utilisation up to which a device is idle."""
FOREIGN_B = 300 * 2**20
"""Memory in use before our child starts, above which somebody else uses the device. In a container
the driver does not name other processes, but their memory shows."""
LOOK_S, COOL_LOOK_S = 0.1, 0.25
PROCESSES_EVERY = 10
"""Readings per look at the list of processes, the slowest reading: once a second is enough."""
KEPT_READINGS = 200_000


class DeviceState:
    """The state of a device; without a gauge nothing is waited for and nothing is read."""

    def __init__(
        self,
        settings: Settings,
        gauge: Gauge | None = None,
        beside: Sequence[Gauge | None] = (),
    ) -> None:
        """``beside`` are the other GPUs that the worker offers; of them energy and clock event
        reasons are read."""
        self._settings = settings
        self._gauge = gauge
        self._beside = beside
        self.occupancy = Occupancy(gauge)
        self._sampler: Sampler | None = None

    def await_idle(self, goes_on: GoesOn, gpus: int = 1) -> tuple[str, ...]:
        """Wait a little while ``goes_on()`` until so many GPUs are idle; the flags of what remains.

        The load of our own last child fades within a second, because the driver tells an average.
        """
        gauges = [one for one in (self._gauge, *self._beside[: gpus - 1]) if one is not None]
        give_up_at_s = time.monotonic() + self._settings.idle_limit_s
        while (flags := _obstacles_of(gauges)) and goes_on():
            if time.monotonic() >= give_up_at_s:
                break
            time.sleep(LOOK_S)
        return flags

    def sampler(self, children: int = 1) -> Sampler:
        """Readings for so many children; make it before the first of them starts."""
        hz = self._settings.telemetry_hz
        self._sampler = Sampler(self._gauge, hz, self.occupancy, children, self._beside)
        return self._sampler

    def newest(self) -> DeviceReading | None:
        """The last reading of the sampler that runs: the driver is not asked once more."""
        last = self._sampler.last() if self._sampler else None
        if last is None:
            return None
        known = {name: last.channels.get(name) for name in DeviceReading.model_fields}
        return DeviceReading(**known)

    def temperature_c(self) -> float | None:
        """The device's temperature now, if it tells."""
        return self._gauge.channels().get("temperature_c") if self._gauge else None

    def cool(self, to_c: float | None, limit_s: float, goes_on: GoesOn) -> None:
        """Wait until the device is about as cool as ``to_c``, ``limit_s`` at most."""
        give_up_at_s = time.monotonic() + limit_s
        while to_c is not None and time.monotonic() < give_up_at_s and goes_on():
            now_c = self.temperature_c()
            if now_c is None or now_c <= to_c + self._settings.cool_margin_c:
                return
            time.sleep(COOL_LOOK_S)

    def remaining(self, goes_on: GoesOn) -> frozenset[int]:
        """Processes of the last child that do not leave the device; waits for them."""
        give_up_at_s = time.monotonic() + self._settings.kill_patience_s
        while (pids := self.occupancy.look().ours) and goes_on():
            if time.monotonic() >= give_up_at_s:
                return pids
            time.sleep(LOOK_S)
        return frozenset()


def _obstacles_of(gauges: Sequence[Gauge]) -> tuple[str, ...]:
    found = (flag for gauge in gauges for flag in obstacles(gauge.channels()))
    return tuple(dict.fromkeys(found))


def obstacles(channels: Mapping[str, float]) -> tuple[str, ...]:
    """Flags for what makes a device unfit to be measured on. Pure."""
    flags = {
        DEVICE_BUSY: channels.get("utilization", 0.0) > IDLE,
        FOREIGN_MEMORY: channels.get("memory_used_b", 0.0) > FOREIGN_B,
    }
    return tuple(flag for flag, raised in flags.items() if raised)


@dataclass(frozen=True)
class Holders:
    """Process ids, as the driver numbers them."""

    ours: frozenset[int] = frozenset()
    foreign: frozenset[int] = frozenset()


class Occupancy:
    """Remembers the device's processes that were ours: a context may outlast its process.

    A process is ours once it was seen in the child's tree, while the driver names it and its number
    is not reused. In a container the driver's numbers may mean nothing here; then no process is
    known as ours.
    """

    def __init__(self, gauge: Gauge | None) -> None:
        """Without a gauge there is no device, and nobody holds it."""
        self._gauge = gauge
        self._trees: tuple[Tree, ...] = ()
        self._ours: dict[int, int] = {}

    def expect(self, *trees: Tree) -> None:
        """Count ``trees`` as ours from now on, beside earlier processes that are still there."""
        self._trees = trees

    def look(self) -> Holders:
        """Ask the driver once."""
        if self._gauge is None:
            return Holders()
        listed = self._gauge.processes()
        ours = frozenset(pid for pid in listed if self._is_ours(pid))
        self._ours = {pid: started for pid, started in self._ours.items() if pid in ours}
        return Holders(ours, listed - ours)

    def _is_ours(self, pid: int) -> bool:
        identity = process_tree.identity(pid)
        if pid in self._ours and (identity is None or identity[1] == self._ours[pid]):
            return True
        if identity is None or not any(process_tree.belongs(pid, tree) for tree in self._trees):
            return False
        self._ours[pid] = identity[1]
        return True


class Sampler:
    """Reads a gauge from a thread, from `start` until its ``with`` block ends.

    The supervisor reads, never the child: a reading takes a lock in the driver and would delay the
    timing loop. Create it before the child starts, so that it knows earlier processes on the
    device. Without a gauge it reads nothing.
    """

    def __init__(
        self,
        gauge: Gauge | None,
        hz: float,
        occupancy: Occupancy,
        children: int = 1,
        beside: Sequence[Gauge | None] = (),
    ) -> None:
        self._gauge = gauge
        self._beside = beside
        self._children = children
        self._period_s = 1.0 / hz
        self._occupancy = occupancy
        self._before = gauge.processes() if gauge else frozenset()
        self._readings: deque[Reading] = deque(maxlen=KEPT_READINGS)
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def start(self) -> None:
        """Begin to read; the occupancy must know the child by now."""
        if self._gauge is None:
            return
        watch = partial(self._watch, self._gauge)
        self._thread = threading.Thread(target=watch, name="telemetry", daemon=True)
        self._thread.start()

    def last(self) -> Reading | None:
        """Return the newest reading; None before the first and after the end."""
        with suppress(IndexError):
            return None if self._ended.is_set() else self._readings[-1]
        return None

    def readings(self) -> list[Reading]:
        """Return the readings so far, in order."""
        return list(self._readings)

    def _watch(self, gauge: Gauge) -> None:
        count = 0
        others = 0
        due = time.monotonic()
        while not self._ended.wait(max(0.0, due - time.monotonic())):
            if count % PROCESSES_EVERY == 0:
                others = strangers(self._occupancy.look(), self._before, self._children)
            self._readings.append(_read(gauge, others, self._beside))
            count += 1
            # Missed readings are not made up for: they would come in bunches.
            due = max(due + self._period_s, time.monotonic())


def _read(gauge: Gauge, others: int, beside: Sequence[Gauge | None] = ()) -> Reading:
    began_s = time.monotonic()
    channels, reasons, energy_j = gauge.channels(), gauge.reasons(), gauge.energy_j()
    at_s = (began_s + time.monotonic()) / 2
    counters = tuple(one.energy_j() if one else None for one in beside)
    masks = tuple(one.reasons() if one else None for one in beside)
    return Reading(at_s, channels, reasons, energy_j, others, counters, masks)


def strangers(now: Holders, before: frozenset[int], children: int = 1) -> int:
    """Count the device's processes that are not the children's.

    Inside a container the driver's process numbers may mean nothing here. Then as many as were not
    there before the ``children`` started are taken to be those.
    """
    if now.ours:
        return len(now.foreign)
    return max(0, len(now.foreign) - min(children, len(now.foreign - before)))
