"""The rates that more loader processes bring, by the cost of a sample. Pure.

Processes fetch side by side until the device, the processors or the disk give no more. The measured
rate scales the model, so that what a process costs beside fetching is in it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from benchmarks.contracts import Input, Replicate

NOTHING = 0.01
"""A smaller gain is none."""
EXPLAINS = 2.0
"""Times that model and measurement may differ; beyond, the model does not know the limit."""
MISSED = 0.1
"""Share of its bytes that a sample must miss in memory for the disk to count."""

Limit = Literal["device", "processors", "disk"]


@dataclass(frozen=True)
class Forecast:
    """The steps per second that loader processes bring."""

    workers: int
    """Those that the case has."""
    rate: float
    """As measured with them."""
    by_each: float
    most: float
    limit: Limit
    """The part that gives no more."""

    def speedup(self, workers: int) -> float:
        """Return the factor that so many processes bring, 1 at least."""
        return max(1.0, min(self.most, workers * self.by_each) / self.rate)

    @property
    def enough(self) -> int:
        """Loader processes from which on more bring nothing."""
        return max(1, math.ceil(self.most * (1 - NOTHING) / self.by_each))

    @property
    def sentence(self) -> str:
        """The forecast for a person."""
        one_more, best = self.speedup(self.workers + 1), self.speedup(self.enough)
        if best < 1 + NOTHING:
            return f"By the model more loader processes bring nothing: {_FULL[self.limit]}."
        more = f", {self.enough} bring x{best:.2f}" if self.enough > self.workers + 1 else ""
        return (
            f"By the model one more loader process brings x{one_more:.2f}{more}; "
            f"then {_FULL[self.limit]}."
        )


_FULL: dict[Limit, str] = {
    "device": "the device no longer waits",
    "processors": "the processors are busy",
    "disk": "the disk is busy",
}


def costs(replicates: Sequence[Replicate]) -> Input | None:
    """Return the cost of a sample where it was measured."""
    return next((one.input for one in replicates if one.input and one.input.samples), None)


def missed(cost: Input) -> float:
    """Return the share of a sample's bytes that had to come from the disk."""
    share = cost.missed_b / cost.disk_b if cost.disk_b else 0.0
    return min(1.0, share) if share >= MISSED else 0.0


def waits_for_disk_s(cost: Input) -> float:
    """Return the seconds of a sample that the disk takes, with what is in memory as it is."""
    return missed(cost) * (cost.disk_s or 0.0)


def lock_share(cost: Input) -> float | None:
    """Return the share of a sample that holds the interpreter's lock, by Amdahl's law."""
    if cost.threads < 2 or cost.threads_speedup is None or cost.threads_speedup <= 0:
        return None
    serial = (cost.threads / cost.threads_speedup - 1.0) / (cost.threads - 1)
    return min(1.0, max(0.0, serial))


def forecast(replicate: Replicate) -> Forecast | None:
    """Forecast the rates of ``replicate`` with more loader processes; None without a model."""
    cost, full = replicate.input, replicate.full
    if cost is None or not cost.samples or _batch_s(cost) <= 0:
        return None
    rate, batch_s = full.steps / full.wall_s, _batch_s(cost)
    limits = _limits(cost, max(1 / rate - full.stall_s, 1e-9))
    loader = min(cost.workers / batch_s, limits["processors"], limits["disk"])
    scale = rate / loader if loader else 1.0
    if not 1 / EXPLAINS <= scale <= EXPLAINS:
        return None
    limits |= {"processors": scale * limits["processors"], "disk": scale * limits["disk"]}
    limit = min(limits, key=limits.__getitem__)
    return Forecast(cost.workers, rate, scale / batch_s, limits[limit], limit)


def of_case(replicates: Sequence[Replicate]) -> Forecast | None:
    """Return the forecast of the first process that has one."""
    return next(filter(None, map(forecast, replicates)), None)


def _batch_s(cost: Input) -> float:
    """Seconds in which one process makes a batch."""
    return cost.batch * (cost.fetch_s + waits_for_disk_s(cost) + cost.collate_s)


def _limits(cost: Input, free_s: float) -> dict[Limit, float]:
    """Steps per second that each part gives at most; ``free_s`` is a step that waits for none."""
    busy_s = cost.batch * (cost.cpu_s + cost.collate_s) + cost.step_cpu_s
    read_b = cost.batch * missed(cost) * (cost.disk_b or 0.0)
    disk = cost.disk_b_per_s / read_b if cost.disk_b_per_s and read_b else math.inf
    return {"device": 1 / free_s, "processors": cost.cpus / max(busy_s, 1e-9), "disk": disk}
