"""One device's conditions: idle before a child, watched while it runs, cool before the next one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from worker.child.process_tree import Tree
from worker.device import preflight
from worker.device.nvml import Gauge
from worker.device.occupancy import Occupancy
from worker.device.telemetry import Reading, Sampler
from worker.settings import Settings

COOL_LOOK_S = 0.25
VACANCY_LOOK_S = 0.1

GoesOn = Callable[[], bool]
"""Whether to wait any longer."""


@dataclass(frozen=True)
class Sampling:
    """Reads the device while a child runs; reads nothing where there is no device."""

    occupancy: Occupancy
    sampler: Sampler | None

    def begin(self, tree: Tree) -> None:
        """Read from now on; the processes of ``tree`` are ours."""
        self.occupancy.expect(tree)
        if self.sampler is not None:
            self.sampler.start()

    def readings(self) -> Sequence[Reading]:
        """Return the readings so far, in order."""
        return self.sampler.readings() if self.sampler is not None else ()


class Conditions:
    """Of one device, or of none: then nothing is waited for and nothing is read."""

    def __init__(self, settings: Settings, gauge: Gauge | None = None) -> None:
        self._settings = settings
        self._gauge = gauge
        self.occupancy = Occupancy(gauge)

    def await_idle(self, goes_on: GoesOn) -> tuple[str, ...]:
        """Wait a little for an idle device; the flags of what keeps it from being one."""
        return preflight.await_idle(self._gauge, self._settings.idle_limit_s, goes_on)

    @contextmanager
    def sampling(self) -> Iterator[Sampling]:
        """Readings from when the child begins until the block ends; enter it before that."""
        if self._gauge is None:
            yield Sampling(self.occupancy, None)
            return
        with Sampler(self._gauge, self._settings.telemetry_hz, self.occupancy) as sampler:
            yield Sampling(self.occupancy, sampler)

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
        while (own := self.occupancy.look().own) and goes_on():
            if time.monotonic() >= give_up_at_s:
                return own
            time.sleep(VACANCY_LOOK_S)
        return frozenset()
