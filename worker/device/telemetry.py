"""Adds the device's telemetry to a Result. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import ceil
from operator import or_
from statistics import fmean, pstdev
from typing import Literal

from benchmarks import contracts
from benchmarks.catalog.metrics import sample
from benchmarks.contracts.bounds import pass_readings
from benchmarks.diagnosis.disturbances import CLOCK_UNSTABLE, OTHER_PROCESSES
from benchmarks.diagnosis.disturbances import THROTTLED as HELD_BACK
from worker.device.nvml import REASONS

ENERGY_NEEDS_S = 5.0
"""The energy counter moves about ten times a second: shorter windows would be off by percents."""
THROTTLED = ("hw_slowdown", "hw_thermal", "sw_thermal", "power_brake")
THROTTLED_CLOCK = 0.75
"""Ratio of mean to highest SM clock below which a device is held back, unless capped or idle."""
CAPPED, IDLE = 0.5, 0.1
"""Shares of readings with a power cap, or an idle device, that explain a low clock."""
CLOCK_STEADY = 0.02
"""An SM clock that varies more than this (standard deviation over mean) is flagged."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at the device."""

    at_s: float
    """CLOCK_MONOTONIC, which the child's windows are on."""
    channels: dict[str, float]
    reasons: int | None
    energy_j: float | None
    others: int
    """Compute processes that are not ours."""
    beside_j: tuple[float | None, ...] = ()
    """Energy counters of the other GPUs that the worker offers, read with this one's ..."""
    beside_reasons: tuple[int | None, ...] = ()
    """... and their clock event reasons."""


def cut(
    readings: Sequence[Reading], window: contracts.Window, processes: int = 1, gpus: int = 1
) -> contracts.Telemetry | None:
    """The readings of a pass's ``window``, or None if it holds fewer than two.

    If a result has no room for all, because the ``processes`` of the job share it, every second or
    third reading is kept, and so on. Energy and clock event reasons are those of all ``gpus``.
    """
    times = [reading.at_s for reading in readings]
    inside = readings[bisect_left(times, window.start_s) : bisect_right(times, window.end_s)]
    if len(inside) < 2:
        return None
    names = set.intersection(*(set(reading.channels) for reading in inside))
    kept = inside[:: ceil(len(inside) / pass_readings(processes, len(names)))]
    return contracts.Telemetry(
        hz=(len(kept) - 1) / (kept[-1].at_s - kept[0].at_s),
        t_s=contracts.Trace.of(reading.at_s - window.start_s for reading in kept),
        channels={
            name: contracts.Trace.of(reading.channels[name] for reading in kept)
            for name in sorted(names)
        },
        reasons=_shares([mask for one in inside if (mask := _mask(one, gpus)) is not None]),
        energy_j=_energy(readings, window, gpus),
        other_processes=max(reading.others for reading in inside),
    )


def _mask(reading: Reading, gpus: int) -> int | None:
    """Reasons that are active on any of so many GPUs."""
    masks = (reading.reasons, *reading.beside_reasons[: gpus - 1])
    known = [mask for mask in masks if mask is not None]
    return reduce(or_, known) if known else None


def _shares(masks: Sequence[int]) -> dict[str, float]:
    if not masks:
        return {}
    return {
        name: sum(bool(mask & bit) for mask in masks) / len(masks) for name, bit in REASONS.items()
    }


def _energy(readings: Sequence[Reading], window: contracts.Window, gpus: int) -> float | None:
    """Energy that so many GPUs used in ``window``, in J; None if one of them does not tell."""
    if window.end_s - window.start_s < ENERGY_NEEDS_S:
        return None
    counters = [[(r.at_s, r.energy_j) for r in readings]]
    counters += [
        [(r.at_s, r.beside_j[place]) for r in readings if place < len(r.beside_j)]
        for place in range(gpus - 1)
    ]
    used = [_used(counter, window) for counter in counters]
    known = [energy_j for energy_j in used if energy_j is not None]
    return sum(known) if len(known) == gpus else None


def _used(counter: Sequence[tuple[float, float | None]], window: contracts.Window) -> float | None:
    """Energy used in ``window``, the counter interpolated at its two ends, in J."""
    curve = [(at_s, energy_j) for at_s, energy_j in counter if energy_j is not None]
    start, end = _at(curve, window.start_s), _at(curve, window.end_s)
    if start is None or end is None or end < start:  # a driver that was reloaded counts from zero
        return None
    return end - start


def _at(curve: Sequence[tuple[float, float]], when: float) -> float | None:
    place = bisect_left(curve, (when, float("-inf")))
    if place < len(curve) and curve[place][0] == when:
        return curve[place][1]
    if not 0 < place < len(curve):
        return None
    (t0, e0), (t1, e1) = curve[place - 1], curve[place]
    return e0 + (e1 - e0) * (when - t0) / (t1 - t0)


def attach(result: contracts.Result, readings: Sequence[Reading]) -> contracts.Result:
    """``result`` of one child with the device's telemetry, and the samples that it allows."""
    if result.turns:
        return flagged(result, _over_turns(result.turns, readings, result.case.gpus))
    if not result.replicates:
        return _beside_others(result, readings)
    highest_hz = float(result.environment.facts.get("hw.gpu.max_sm_clock_hz", "0"))
    processes = result.protocol.replicates
    replicates = tuple(
        _with_telemetry(replicate, readings, highest_hz, processes)
        for replicate in result.replicates
    )
    samples = result.samples + tuple(
        sample for replicate in replicates for sample in _samples(replicate)
    )
    return result.model_copy(update={"replicates": replicates, "samples": samples})


def _over_turns(
    turns: Sequence[contracts.Turn], readings: Sequence[Reading], gpus: int
) -> Sequence[str]:
    """List the flags of a duet.

    The pauses between turns hide why a clock is low, and both sides have the same: only a device
    that says that it protects itself counts.
    """
    span = contracts.Window(start_s=turns[0].window.start_s, end_s=turns[-1].window.end_s)
    watched = cut(readings, span, gpus=gpus)
    if watched is None:
        return ()
    flags = {HELD_BACK: _protected_itself(watched), OTHER_PROCESSES: watched.other_processes > 0}
    return [flag for flag, raised in flags.items() if raised]


def _beside_others(result: contracts.Result, readings: Sequence[Reading]) -> contracts.Result:
    if not any(reading.others for reading in readings) or OTHER_PROCESSES in result.flags:
        return result
    return result.model_copy(update={"flags": (*result.flags, OTHER_PROCESSES)})


def _with_telemetry(
    replicate: contracts.Replicate, readings: Sequence[Reading], highest_hz: float, processes: int
) -> contracts.Replicate:
    passes: dict[Literal["full", "synth"], contracts.Pass] = {
        "full": replicate.full,
        "synth": replicate.synth,
    }
    cuts = {
        name: cut(readings, timed.window, processes, len(timed.ranks) or 1)
        for name, timed in passes.items()
    }
    telemetry = {name: watched for name, watched in cuts.items() if watched is not None}
    flags = dict.fromkeys((*replicate.flags, *_flags(list(telemetry.values()), highest_hz)))
    return replicate.model_copy(update={"telemetry": telemetry, "flags": tuple(flags)})


def _flags(watched: Sequence[contracts.Telemetry], highest_hz: float) -> list[str]:
    """List the flags of these readings; nothing is dropped for them."""
    flags = []
    if any(_held_back(one, highest_hz) for one in watched):
        flags.append(HELD_BACK)
    if any(_unsteady(one) for one in watched):
        flags.append(CLOCK_UNSTABLE)
    if any(one.other_processes for one in watched):
        flags.append(OTHER_PROCESSES)
    return flags


def _held_back(telemetry: contracts.Telemetry, highest_hz: float) -> bool:
    """Return True if it protected itself, or its clock was low without power cap or idling."""
    if _protected_itself(telemetry):
        return True
    clock = telemetry.channels.get("sm_clock_hz")
    if clock is None or not clock.n or not telemetry.reasons:
        return False
    explained = _capped(telemetry) or telemetry.reasons.get("gpu_idle", 0) > IDLE
    return not explained and fmean(clock.values()) < THROTTLED_CLOCK * highest_hz


def _protected_itself(telemetry: contracts.Telemetry) -> bool:
    return any(telemetry.reasons.get(name, 0) > 0 for name in THROTTLED)


def _unsteady(telemetry: contracts.Telemetry) -> bool:
    """Return True if the clock varied much and no power cap explains it.

    Under a cap it always varies: a third of the H200 rows would carry the flag.
    """
    trace = telemetry.channels.get("sm_clock_hz")
    clocks = trace.values() if trace else []
    return bool(clocks) and not _capped(telemetry) and pstdev(clocks) > CLOCK_STEADY * fmean(clocks)


def _capped(telemetry: contracts.Telemetry) -> bool:
    return telemetry.reasons.get("sw_power_cap", 0) >= CAPPED


def _samples(replicate: contracts.Replicate) -> list[contracts.Sample]:
    """Power, clock and energy per item over the FULL pass, as far as the device tells them; no
    power of a gang, for the readings beside energy are of one GPU."""
    telemetry, samples = replicate.telemetry.get("full"), _clocked(replicate)
    if telemetry is None:
        return samples
    power = telemetry.channels.get("power_w")
    if power and len(replicate.full.ranks) <= 1:
        samples.append(sample("power", fmean(power.values())))
    window = replicate.full.window
    items = replicate.full.rate * (window.end_s - window.start_s)
    if telemetry.energy_j is not None and items > 0:
        samples.append(sample("energy_per_item", telemetry.energy_j / items))
    return samples


def _clocked(replicate: contracts.Replicate) -> list[contracts.Sample]:
    """Mean SM clock of FULL; SM cycles per SYNTH step, its cost at whatever clock."""
    samples = []
    if clock := replicate.sm_clock_hz("full"):
        samples.append(sample("sm_clock", clock))
    if clock := replicate.sm_clock_hz("synth"):
        step_s = sum(replicate.synth.step_trace.values()) / replicate.synth.steps
        samples.append(sample("cycles_per_step", step_s * clock))
    return samples


def flagged(result: contracts.Result, flags: Sequence[str]) -> contracts.Result:
    """``result`` with ``flags`` on its replicates, or on itself where it has none."""
    if not result.replicates:
        return result.model_copy(update={"flags": tuple(dict.fromkeys((*result.flags, *flags)))})
    replicates = tuple(
        one.model_copy(update={"flags": tuple(dict.fromkeys((*one.flags, *flags)))})
        for one in result.replicates
    )
    return result.model_copy(update={"replicates": replicates}) if flags else result
