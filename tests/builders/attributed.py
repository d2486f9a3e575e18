"""Questions about a change, with chosen truth: measurements of two sides, residuals of a fleet."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from builders.measured import BATCH, a_pass, a_replicate

from benchmarks.contracts import (
    Case,
    Direction,
    Environment,
    Protocol,
    Replicate,
    Result,
    Sample,
    Status,
    Telemetry,
    Trace,
)
from benchmarks.diagnosis.merge import merge, samples
from service.analysis.attribution import Measurement, Question, Residual, attribute
from service.findings import lifecycle, queries
from service.schemas.findings import AttributionView

START = datetime(2026, 11, 1, 2, tzinfo=UTC)
CASE = Case(workload="unet", preset="full", axes={"compile": "default", "precision": "bf16"})
FACTS = {
    "hw.device": "cuda",
    "hw.host": "a",
    "hw.memory_b": "135000000000",
    "hw.gpu.name": "NVIDIA H200",
    "hw.gpu.uuid": "GPU-1",
    "hw.gpu.driver": "550.1",
    "hw.gpu.power_limit_w": "700",
    "sw.python": "3.11.4",
    "sw.torch": "2.11.0",
    "sw.cuda": "13.0",
    "sw.kernel": "6.8.0",
    "sw.packages": "00aa",
    "sw.benchmarks": "11bb",
    "sw.data": "photographs",
    "flag.torch_threads": "8",
}


@dataclass(frozen=True)
class Night:
    """What one night's measurement comes from; seconds of a step, hertz, degrees."""

    revision: str = "r11"
    worker: str = "w1"
    day: int = 0
    work_s: float = 0.100
    stall_s: float = 0.002
    clock_hz: float = 1.98e9
    temperature_c: float = 57.0
    thermal: float = 0.0
    capped: float = 0.0
    noise: float = 0.001
    processes: int = 3
    facts: Mapping[str, str | None] = field(default_factory=dict)
    metrics: tuple[Sample, ...] = ()
    flags: tuple[str, ...] = ()
    telemetry: bool = True


def measurement(night: Night, seed: int = 0) -> Measurement:
    """One result, with noise that is the same for the same seed."""
    rng = np.random.default_rng((seed, night.day, len(night.revision)))
    results = [_result(night, rng, number) for number in range(night.processes)]
    merged = merge(results)
    extra = merged.samples + night.metrics
    return Measurement(night.revision, night.worker, merged.model_copy(update={"samples": extra}))


def _result(night: Night, rng: np.random.Generator, number: int) -> Result:
    work, stall = (
        float(seconds * np.exp(rng.normal(0, night.noise)))
        for seconds in (night.work_s, night.stall_s)
    )
    full = a_pass(work + stall, stall_s=stall)
    replicate = a_replicate(full, a_pass(work), seed=number)
    if night.telemetry:
        replicate = _with_telemetry(replicate, night, rng)
    measured_samples = samples(replicate, "img") + _clock(replicate)
    facts = {name: value for name, value in (FACTS | dict(night.facts)).items() if value}
    return Result(
        case=CASE,
        status=Status.OK,
        measured_at=START + timedelta(days=night.day),
        protocol=Protocol(replicates=night.processes),
        item="img",
        batch_items=BATCH,
        environment=Environment(facts=facts),
        samples=measured_samples,
        replicates=(replicate,),
        flags=night.flags,
    )


def _with_telemetry(replicate: Replicate, night: Night, rng: np.random.Generator) -> Replicate:
    clock = night.clock_hz * (1 + rng.normal(0, night.noise / 10))
    telemetry = Telemetry(
        hz=10.0,
        t_s=Trace.of([0.0, 0.1]),
        channels={
            "sm_clock_hz": Trace.of([clock, clock]),
            "temperature_c": Trace.of([night.temperature_c] * 2),
        },
        reasons={"sw_thermal": night.thermal, "sw_power_cap": night.capped},
    )
    return replicate.model_copy(update={"telemetry": {"full": telemetry, "synth": telemetry}})


def _clock(replicate: Replicate) -> tuple[Sample, ...]:
    telemetry = replicate.telemetry.get("full")
    if telemetry is None:
        return ()
    value = telemetry.channels["sm_clock_hz"].values()[0]
    return (Sample(metric="sm_clock", unit="Hz", direction=Direction.HIGHER, values=(value,)),)


def side(night: Night, count: int = 3, first_day: int = 0, seed: int = 0) -> list[Measurement]:
    """Several nights alike but for their noise."""
    nights = (replace(night, day=first_day + number) for number in range(count))
    return [measurement(repeat, seed) for repeat in nights]


def question(
    before: Sequence[Measurement], after: Sequence[Measurement], **changes: Any
) -> Question:
    """A question about throughput, its effect as the measurements have it unless told."""
    fields: dict[str, Any] = {
        "case": CASE,
        "metric": "throughput",
        "unit": "img/s",
        "direction": Direction.HIGHER,
        "effect_low": None,
        "effect_high": None,
        "last_good": before[-1].revision if before else "r11",
        "first_bad": after[0].revision if after else "r12",
        "before": tuple(before),
        "after": tuple(after),
    }
    if "effect" not in changes:
        fields["effect"] = _effect(before, after)
    return Question(**(fields | changes))


def _effect(before: Sequence[Measurement], after: Sequence[Measurement]) -> float:
    if not before or not after:
        return -0.03
    rates = [np.mean(values_of(part, "throughput")) for part in (before, after)]
    return float(rates[1] / rates[0] - 1) or 1e-9


def values_of(measurements: Iterable[Measurement], metric: str) -> list[float]:
    """Every value of a metric, over measurements and processes."""
    samples = (sample for row in measurements for sample in row.result.samples)
    return [value for sample in samples if sample.metric == metric for value in sample.values]


def residuals(
    slow: Mapping[str, float],
    workers: Iterable[str] = ("w1", "w2", "w3", "w4"),
    series: int = 6,
    revisions: Sequence[str] = ("r12", "r13", "r14"),
    noise: float = 0.003,
    seed: int = 0,
) -> list[Residual]:
    """A fleet's residuals: every worker measures every series; ``slow`` adds to some workers'."""
    rng = np.random.default_rng(seed)
    return [
        Residual(
            series=f"s{number}",
            revision=revision,
            worker=worker,
            measured_at=START + timedelta(days=day),
            log_residual=float(rng.normal(0, noise)) + slow.get(worker, 0.0),
        )
        for day, revision in enumerate(revisions)
        for worker in workers
        for number in range(series)
    ]


def explained(asked: Question) -> AttributionView:
    """The attribution of a change as it is shown: stored, read and put into words."""
    attribution = attribute(asked)
    stored = lifecycle.attributed(attribution)["attribution"]
    return queries.attribution_of(attribution.says.stored(), stored)
