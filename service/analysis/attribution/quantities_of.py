"""Every number that a Result carries, by its name, so that one added later comes in unchanged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import fmean

from benchmarks.contracts import Contract, Replicate, Result
from service.analysis.attribution.types import Measurement


class QuantityKind(StrEnum):
    """The way in which two values are compared."""

    AMOUNT = "amount"
    """By their ratio."""
    PART = "part"
    """A part of a step: by their difference as a share of the step, for a part may be near zero."""
    SHARE = "share"
    """By their difference, in percentage points."""
    COUNT = "count"
    """By their difference."""
    LEVEL = "level"
    """On a scale whose zero means nothing, such as degrees: by their difference."""


@dataclass(slots=True)
class Reading:
    """The values of one name on one side: a list for each measurement, one value a process."""

    unit: str
    kind: QuantityKind
    by_measurement: list[tuple[float, ...]] = field(default_factory=list)
    steps_s: list[float] = field(default_factory=list)
    """For a part: the steps that it is a part of."""


_OF_SAMPLING = frozenset(
    {"steps", "block_steps", "rate", "half_width", "lag1", "n_eff", "wall_s"}
    | {"p50_s", "p90_s", "p99_s", "max_s", "slow_steps"}
)
"""Fields of a pass that say how long and how steadily it was timed, not what a step consists of;
its rate is a metric already."""
_PARTS = frozenset({"stall_s", "copy_s", "work_s", "enqueue_s"})
_SHARES = frozenset({"drained", "cpu_pressure", "utilization"})
_OF_REPLICATE = frozenset({"seed", "peak_memory_b", "import_s", "build_s"})
"""Fields of a replicate that are a metric already, or say nothing of its speed: imports and the
building of a model read the disk's cache, before anything is timed."""
_UNITS = {"s": "s", "b": "B", "hz": "Hz", "w": "W", "j": "J", "c": "°C"}
"""Units by the last word of a name."""
_METRIC_OF_CHANNEL = {"full.sm_clock_hz": "sm_clock", "full.power_w": "power"}
"""Channels whose mean is a metric too, and comes in as one."""

Values = dict[str, tuple[str, QuantityKind, tuple[float, ...]]]


def side(measurements: Iterable[Measurement]) -> dict[str, Reading]:
    """Everything that one side's Results carry, by name.

    What is measured in another unit than elsewhere on this side is left out: it is another thing.
    """
    readings: dict[str, Reading] = {}
    mixed: set[str] = set()
    for measurement in measurements:
        step_s = _step_s(measurement.result.replicates)
        for name, (unit, kind, values) in _of_result(measurement.result).items():
            reading = readings.setdefault(name, Reading(unit, kind))
            if reading.unit != unit:
                mixed.add(name)
            reading.by_measurement.append(values)
            if kind is QuantityKind.PART and step_s is not None:
                reading.steps_s.append(step_s)
    return {name: reading for name, reading in readings.items() if name not in mixed}


def _of_result(result: Result) -> Values:
    values: Values = {}
    for sample in result.samples:
        values[sample.metric] = (sample.unit, _kind(sample.unit, sample.values), sample.values)
    read = [dict(_of_replicate(replicate)) for replicate in result.replicates]
    for name, (kind, _) in read[0].items() if read else ():
        if all(name in numbers for numbers in read):  # one number from each replicate
            numbers = tuple(numbers[name][1] for numbers in read)
            values.setdefault(_METRIC_OF_CHANNEL.get(name, name), (_unit(name), kind, numbers))
    return values


def _kind(unit: str, values: Sequence[float]) -> QuantityKind:
    if unit != "1":
        return QuantityKind.LEVEL if unit == "°C" else QuantityKind.AMOUNT
    if all(value == int(value) for value in values) and max(values) < 1e6:
        return QuantityKind.COUNT
    return QuantityKind.SHARE if all(-1 <= value <= 1 for value in values) else QuantityKind.AMOUNT


Numbers = Iterator[tuple[str, tuple[QuantityKind, float]]]


def _of_replicate(replicate: Replicate) -> Numbers:
    yield from _of_fields("", replicate, _OF_REPLICATE)
    yield from _of_fields("full.", replicate.full, _OF_SAMPLING)
    yield from _of_fields("synth.", replicate.synth, _OF_SAMPLING)
    for where, telemetry in replicate.telemetry.items():
        for name, trace in telemetry.channels.items():
            if (mean := trace.mean()) is not None:
                yield f"{where}.{name}", (_kind_of_field(name), mean)
        for name, share in telemetry.reasons.items():
            yield f"{where}.reason.{name}", (QuantityKind.SHARE, share)
        others = float(telemetry.other_processes)
        yield f"{where}.other_processes", (QuantityKind.COUNT, others)


def _of_fields(prefix: str, record: Contract, left_out: frozenset[str]) -> Numbers:
    for name in type(record).model_fields:
        value = getattr(record, name)
        if isinstance(value, int | float) and name not in left_out:
            yield f"{prefix}{name}", (_kind_of_field(name), float(value))


def _kind_of_field(name: str) -> QuantityKind:
    if name in _PARTS:
        return QuantityKind.PART
    if name in _SHARES:
        return QuantityKind.SHARE
    return {"°C": QuantityKind.LEVEL, "1": QuantityKind.COUNT}.get(_unit(name), QuantityKind.AMOUNT)


def _unit(name: str) -> str:
    return _UNITS.get(name.rpartition("_")[2], "1") if "_" in name else "1"


def _step_s(replicates: Sequence[Replicate]) -> float | None:
    timed = [replicate.full for replicate in replicates if replicate.full.steps]
    return fmean(full.wall_s / full.steps for full in timed) if timed else None
