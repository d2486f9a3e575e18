"""Replicates and results with chosen numbers, for tests of what is made out of them."""

from datetime import UTC, datetime

from benchmarks.contracts import (
    Case,
    Environment,
    Input,
    Pass,
    Protocol,
    Replicate,
    Result,
    Status,
    StopReason,
    Trace,
    Warmup,
    Window,
)
from benchmarks.diagnosis.conclude import concluded
from benchmarks.diagnosis.merge import samples

BATCH = 100
STEPS = 50


def a_pass(
    step_s: float,
    *,
    stall_s: float = 0.0,
    copy_s: float = 0.0,
    enqueue_s: float = 0.001,
    drained: float | None = 0.0,
    noise: float = 0.001,
) -> Pass:
    """A pass of fifty equal steps of a hundred items."""
    trace = Trace.of([step_s] * STEPS)
    rate = BATCH / step_s
    return Pass(
        window=Window(start_s=0.0, end_s=step_s * STEPS),
        steps=STEPS,
        block_steps=5,
        rate=rate,
        half_width=rate * noise,
        lag1=0.0,
        n_eff=10.0,
        stop=StopReason.PRECISE,
        p50_s=step_s,
        p90_s=step_s,
        p99_s=step_s,
        max_s=step_s,
        stall_s=stall_s,
        copy_s=copy_s,
        work_s=step_s - stall_s - copy_s,
        enqueue_s=enqueue_s,
        drained=drained,
        wall_s=step_s * STEPS,
        step_trace=trace,
        stall_trace=Trace.of([stall_s] * STEPS),
        copy_trace=Trace.of([copy_s] * STEPS),
        work_trace=trace,
    )


def a_replicate(full: Pass, synth: Pass, seed: int = 0) -> Replicate:
    """One process's measurement made of two passes."""
    return Replicate(
        seed=seed,
        import_s=1.0,
        build_s=1.0,
        warmup=Warmup(steps=12, s=4.0, reason="steady", first_step_s=2.0),
        full=full,
        synth=synth,
        peak_memory_b=1_000_000,
    )


def an_input(workers: int = 2, **more: object) -> Input:
    """The cost of a sample: 2 ms on a processor, from memory; eight processors and a fast disk."""
    known: dict[str, object] = {
        "samples": 64,
        "batch": BATCH,
        "workers": workers,
        "cpus": 8,
        "fetch_s": 0.002,
        "cpu_s": 0.002,
        "threads": 4,
        "threads_speedup": 1.0,
        "read_b": 1e5,
        "disk_s": 0.001,
        "disk_b": 1e5,
        "disk_b_per_s": 1e9,
    }
    return Input.model_validate(known | more)


def a_result(replicate: Replicate, workload: str = "resnet50") -> Result:
    """The Result of one process."""
    result = Result(
        case=Case(workload=workload, preset="tiny"),
        status=Status.OK,
        measured_at=datetime(2026, 11, 20, 2, replicate.seed, tzinfo=UTC),
        protocol=Protocol(replicates=3),
        item="img",
        batch_items=BATCH,
        environment=Environment(facts={"hw.device": "cpu"}),
        samples=samples(replicate, "img"),
        replicates=(replicate,),
    )
    return concluded(result)


def a_failure(status: Status, reason: str) -> Result:
    """The Result of a process that measured nothing."""
    return Result(
        case=Case(workload="resnet50", preset="tiny"),
        status=status,
        reason=reason,
        measured_at=datetime(2026, 11, 20, 3, tzinfo=UTC),
        protocol=Protocol(replicates=3),
        environment=Environment(facts={"hw.device": "cpu"}),
    )
