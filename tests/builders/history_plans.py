"""What the seeded history measures: its cases, their environments, and a Result for each night.

Rates are those of an H200 and of a small CPU machine, with noise as measured there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
from builders.profiled import a_profile, a_transformer, kernels
from builders.recorded_memory import a_memory

from benchmarks.contracts import (
    Bottleneck,
    Canary,
    Case,
    Compilation,
    Direction,
    Environment,
    NeedlessCopy,
    Operation,
    Pass,
    Profile,
    Protocol,
    Rejected,
    Replicate,
    Result,
    Sample,
    Status,
    StopReason,
    Synchronization,
    Telemetry,
    Trace,
    TriedBatch,
    Verdict,
    Warmup,
    Window,
)

REVISIONS = 40
DETAILED = 3
TWICE = "blocks.7"
"""The module of nanogpt that does its work twice from the revision on that is slower."""
"""Only the newest revisions carry step traces and telemetry: they make a document large."""
STACK_CHANGES_AT, DRIVER_CHANGES_AT = 18, 31
HOSTILE = '<script>alert("x")</script><img src=x onerror=alert(1)>'

GPU_FACTS = {
    "hw.device": "cuda",
    "hw.gpu.name": "NVIDIA H200",
    "hw.gpu.mig": "off",
    "hw.gpu.memory": "150754820096",
    "hw.gpu.power_limit": "700",
    "hw.gpu.uuid": "GPU-5f0c2b1e-77aa-4f0e-9f37-0d7b8f2f9e11",
    "hw.cpu.model": "AMD EPYC 9454 48-Core Processor",
    "hw.cpu.usable": "16",
    "hw.host": "h200-a",
    "hw.kernel": "6.1.0-28-amd64",
    "sw.python": "3.12.11",
    "sw.torch": "2.12.1+cu130",
    "sw.cuda": "13.0",
    "sw.cudnn": "9.13.0",
    "sw.triton": "3.5.0",
    "sw.driver": "570.172.08",
    "sw.data": "photographs",
    "flag.cudnn_benchmark": "on",
    "flag.gc": "off during the window",
}
CPU_FACTS = {
    "hw.device": "cpu",
    "hw.cpu.model": "Intel Xeon Platinum 8481C",
    "hw.cpu.usable": "2",
    "hw.host": "ci-cpu",
    "hw.kernel": "6.1.0-28-amd64",
    "sw.python": "3.11.2",
    "sw.torch": "2.12.1+cpu",
    "sw.data": "photographs",
    "flag.threads": "2",
}


@dataclass(frozen=True)
class Plan:
    """One case with what it is expected to reach."""

    case: Case
    rate: float
    """Items per second without input."""
    batch: int
    item: str
    memory_b: float
    noise: float = 0.002
    loader: float = float("inf")
    """Items per second that the loader can give."""
    first_step_s: float = 12.0
    gpu: bool = True
    shifts: dict[int, float] = field(default_factory=dict)
    """From this revision on, the rate times this."""


def gpu_case(workload: str, workers: str, **axes: str) -> Case:
    return Case(
        workload=workload,
        preset="full",
        axes=dict(sorted({"pinning": "on", "workers": workers, **axes}.items())),
    )


GIB = 2.0**30
_LAST = {"precision": "bf16", "layout": "channels_last"}
_FAST = _LAST | {"optimizer": "fused"}
PLANS = (
    Plan(gpu_case("resnet50", "16"), 1058, 256, "img", 27.2 * GIB, loader=4071),
    Plan(gpu_case("resnet50", "16", precision="tf32"), 2201, 256, "img", 27.2 * GIB, loader=4071),
    Plan(gpu_case("resnet50", "16", precision="bf16"), 2412, 256, "img", 11 * GIB, loader=4071),
    Plan(
        gpu_case("resnet50", "16", **_LAST),
        4684,
        256,
        "img",
        11 * GIB,
        loader=4071,
        shifts={25: 1.031},
    ),
    Plan(gpu_case("resnet50", "16", **_FAST), 4704, 256, "img", 11 * GIB, loader=4071),
    Plan(
        gpu_case("resnet50", "16", **_FAST, compile="default"),
        6901,
        256,
        "img",
        9.4 * GIB,
        loader=4071,
        first_step_s=64,
    ),
    Plan(gpu_case("nanogpt", "2"), 55_911, 32 * 1024, "token", 58 * GIB),
    Plan(gpu_case("nanogpt", "2", precision="tf32"), 166_828, 32 * 1024, "token", 58 * GIB),
    Plan(gpu_case("nanogpt", "2", precision="bf16"), 301_000, 32 * 1024, "token", 43 * GIB),
    Plan(
        gpu_case("nanogpt", "2", precision="bf16", optimizer="fused", compile="default"),
        519_634,
        32 * 1024,
        "token",
        26.5 * GIB,
        noise=0.0027,
        first_step_s=41,
        shifts={39: 0.937},
    ),
    Plan(gpu_case("unet", "16"), 3120, 128, "img", 14 * GIB),
    Plan(
        gpu_case("unet", "16", **_FAST, compile="default"),
        13_900,
        128,
        "img",
        6.1 * GIB,
        first_step_s=89,
        shifts={39: 1.024},
    ),
    Plan(
        Case(workload="resnet50", preset="tiny", axes={"workers": "2"}),
        11.2,
        8,
        "img",
        0.9 * GIB,
        noise=0.012,
        first_step_s=1.9,
        gpu=False,
    ),
    Plan(
        Case(workload="nanogpt", preset="tiny", axes={}),
        2_480,
        512,
        "token",
        0.6 * GIB,
        noise=0.02,
        first_step_s=0.8,
        gpu=False,
    ),
)


def facts_of(plan: Plan, number: int) -> dict[str, str]:
    """Give the environment in which this revision was measured."""
    facts = dict(GPU_FACTS if plan.gpu else CPU_FACTS) | {"flag.batch": str(plan.batch)}
    if number >= STACK_CHANGES_AT:
        facts["sw.torch"] = "2.13.0+cu130" if plan.gpu else "2.13.0+cpu"
        if plan.gpu:
            facts |= {"sw.cudnn": "9.15.1", "sw.triton": "3.6.0"}
    if plan.gpu and number >= DRIVER_CHANGES_AT:
        facts["sw.driver"] = "580.159.04"
    return facts


def measured(plan: Plan, number: int, at: datetime, random: np.random.Generator) -> Result:
    """Give what ``plan`` measures at the revision of this number; old ones without their traces."""
    rate = plan.rate
    for start, factor in plan.shifts.items():
        rate *= factor if number >= start else 1.0
    if number >= STACK_CHANGES_AT:
        rate *= 1.012
    synth = rate * (1 + plan.noise * random.standard_normal(3))
    full = np.minimum(synth * 0.996, plan.loader * (1 + 0.004 * random.standard_normal(3)))
    return Result(
        case=plan.case,
        status=Status.OK,
        measured_at=at,
        protocol=Protocol(replicates=3),
        item=plan.item,
        batch_items=plan.batch,
        parameters={"resnet50": 25_557_032, "nanogpt": 124_373_760, "unet": 35_746_307}[
            plan.case.workload
        ],
        environment=Environment(facts=facts_of(plan, number)),
        samples=tuple(_samples(plan, full, synth, random)),
        replicates=tuple(_replicates(plan, number, (full, synth), random))
        if number >= REVISIONS - DETAILED
        else (),
        verdict=_verdict(float(full.mean()), float(synth.mean())),
        rejected=(Rejected(replicate=2, reasons=("throttled",), rate=0.8 * rate),)
        if plan.gpu
        else (),
        canary=_canary(at) if plan.gpu else None,
        batches_tried=_tried(plan.batch, rate) if plan.gpu else (),
        flags=("clock_unstable",) if plan.gpu and plan.case.axes.get("compile") else (),
        repro=f"python -m benchmarks {plan.case.workload} "
        + " ".join(f"{axis}={value}" for axis, value in plan.case.axes.items())
        + f" --preset {plan.case.preset}",
        log_tail="building the model\nwarm-up: steady after 14 steps\nfull: precise",
    )


def noisy(plan: Plan, number: int, at: datetime, random: np.random.Generator) -> Result:
    """Give what one process of ``plan`` measures beside other work: too noisy for a verdict."""
    result = measured(plan, number, at, random)
    full, synth = plan.rate * 1.27, plan.rate * 0.74
    values = {"throughput": full, "throughput_synth": synth, "input_stall": 1 - full / synth}
    samples = (
        sample.model_copy(
            update={
                "values": (values.get(sample.metric, sample.values[0]),),
                "half_widths": (abs(values.get(sample.metric, sample.values[0])) * 0.24,),
            }
        )
        for sample in result.samples
    )
    verdict = Verdict(
        bottleneck=Bottleneck.UNKNOWN,
        confidence="low",
        sentence="FULL and SYNTH vary by 34% within this run: too noisy to tell what limits it. "
        "Measure again on a quieter machine.",
        evidence={"input_stall": 1 - full / synth, "stall": 0.02, "copy": 0.01, "noise": 0.34},
        bounds={"without_input_stall": 1.0},
    )
    return result.model_copy(
        update={
            "protocol": Protocol(replicates=1),
            "samples": tuple(samples),
            "replicates": result.replicates[:1],
            "verdict": verdict,
        }
    )


def _tried(batch: int, rate: float) -> tuple[TriedBatch, ...]:
    """Half the batch is slower; twice as many samples bring nothing."""
    return tuple(
        TriedBatch(batch=size, rate=share * rate, peak_memory_b=size * 2**26)
        for size, share in ((batch // 2, 0.8), (batch, 1.0), (2 * batch, 1.005))
    )


def _samples(
    plan: Plan, full: np.ndarray, synth: np.ndarray, random: np.random.Generator
) -> Iterator[Sample]:
    higher, lower = Direction.HIGHER, Direction.LOWER
    rows: list[tuple[str, str, Direction, np.ndarray]] = [
        ("throughput", f"{plan.item}/s", higher, full),
        ("throughput_synth", f"{plan.item}/s", higher, synth),
        ("step_time", "s", lower, plan.batch / full),
        ("step_time_synth", "s", lower, plan.batch / synth),
        ("input_stall", "1", lower, 1 - full / synth),
        ("first_step_time", "s", lower, plan.first_step_s * (1 + 0.05 * random.random(3))),
        ("peak_memory", "B", lower, np.full(3, plan.memory_b)),
    ]
    if plan.gpu:
        rows += [
            ("power", "W", lower, 612 + 20 * random.random(3)),
            ("energy_per_item", "J", lower, 620 / full),
            ("sm_clock", "Hz", higher, 1.66e9 + 4e6 * random.random(3)),
        ]
    for metric, unit, direction, values in rows:
        numbers = tuple(float(value) for value in values)
        yield Sample(metric=metric, unit=unit, direction=direction, values=numbers)


def _verdict(full: float, synth: float) -> Verdict:
    stall = 1 - full / synth
    if stall > 0.1:
        return Verdict(
            bottleneck=Bottleneck.INPUT,
            confidence="high",
            sentence=f"The device waits {stall:.0%} of the time for batches; without input "
            f"it would run {synth / full:.2f} times as fast.",
            evidence={
                "input_stall": stall,
                "stall": stall * 0.97,
                "copy": 0.01,
                "enqueue": 0.3,
                "noise": 0.004,
                "drained": 0.01,
            },
            bounds={"without_input_stall": synth / full},
        )
    return Verdict(
        bottleneck=Bottleneck.DEVICE,
        confidence="high" if full > 1000 else "low",
        sentence="The device is busy throughout; neither input nor the host holds it up.",
        evidence={"input_stall": stall, "stall": 0.0, "noise": 0.004, "drained": 0.01},
        bounds={"without_input_stall": 1.0},
    )


def _canary(at: datetime) -> Canary:
    readings = {"gemm_flop_s": 7.9e14, "copy_b_s": 4.28e12, "launch_s": 3.1e-6, "python_s": 0.031}
    return Canary(measured_at=at, readings=readings, moved={"python_s": 0.07})


def _profile(plan: Plan, number: int, step_s: float) -> Profile:
    """Of a step that spends half of its time in one convolution; nanogpt's with its modules."""
    waits = [
        Synchronization(what=".item()", source="benchmarks/workloads/example.py:12"),
        Synchronization(what=".cpu()", source="example.py:13", every=10, cost_s=0.001),
    ]
    copy = NeedlessCopy(
        kind="clone", what="a clone", source="example.py:40", calls=3, moved_b=8e6, self_s=0.001
    )
    shares = {"conv": 0.7, "norm": 0.2, "optimizer": 0.1}
    profile = a_profile(0.97 * step_s, {k: s * step_s for k, s in shares.items()}, waits=waits)
    operation = Operation(
        name="aten::cudnn_convolution",
        kind="conv",
        self_s=0.5 * step_s,
        calls=16.0,
        source="benchmarks/workloads/example.py:65",
        found_by="operator",
        flops=2e13 * step_s,
        moved_b=4e11 * step_s,
        arithmetic="bf16",
        blocks_per_sm=6.2,
        occupancy=0.31,
    )
    layers, slower = None, number in plan.shifts
    if plan.case.workload == "nanogpt":
        layers = a_transformer(step_s / 500, TWICE if slower else "")
    shifted = {"gemm": 0.5, "unfused_add": 0.2} if slower else {"gemm": 0.4, "fused_add": 0.1}
    times = {"attention": 0.2, **shifted}
    update: dict[str, object] = {
        "kernel_times": kernels(**{name: share * step_s for name, share in times.items()})
    }
    update |= {"step_s": step_s, "operations": (operation,), "layers": layers}
    update |= {"memory": a_memory(), "copies": (copy,)}
    return profile.model_copy(update=update)


def _replicates(
    plan: Plan, number: int, rates: tuple[np.ndarray, np.ndarray], random: np.random.Generator
) -> Iterator[Replicate]:
    for seed, (with_input, without) in enumerate(zip(*rates, strict=True)):
        work_s = plan.batch / without
        yield Replicate(
            seed=seed,
            profile=_profile(plan, number, float(work_s)) if plan.gpu and seed == 0 else None,
            import_s=4.1,
            build_s=1.2,
            warmup=Warmup(steps=14, s=6.2, reason="steady", first_step_s=plan.first_step_s),
            full=_pass(plan, float(with_input), work_s, random),
            synth=_pass(plan, float(without), work_s, random),
            peak_memory_b=int(plan.memory_b),
            compilation=Compilation(graphs=2, breaks={"Tensor.item() call": 1})
            if "compile" in plan.case.axes
            else None,
            telemetry={"full": _telemetry(random, 0.0), "synth": _telemetry(random, 8.0)}
            if plan.gpu
            else {},
        )


def _pass(plan: Plan, rate: float, work_s: float, random: np.random.Generator) -> Pass:
    mean = plan.batch / rate
    count = int(np.clip(6.0 / mean, 30, 600))
    steps = mean * (1 + 0.012 * random.standard_normal(count))
    steps[random.integers(count)] *= 1.6
    stall = max(mean - work_s, 0.0)
    return Pass(
        window=Window(start_s=100.0, end_s=100.0 + float(steps.sum())),
        steps=count,
        block_steps=5,
        rate=rate,
        half_width=rate * 0.002,
        lag1=0.1,
        n_eff=count * 0.8,
        stop=StopReason.PRECISE,
        p50_s=float(np.median(steps)),
        p90_s=float(np.quantile(steps, 0.9)),
        p99_s=float(np.quantile(steps, 0.99)),
        max_s=float(steps.max()),
        stall_s=stall,
        copy_s=mean * 0.01,
        work_s=mean * 0.99 - stall,
        enqueue_s=mean * 0.3,
        drained=0.01,
        wall_s=float(steps.sum()),
        step_trace=Trace.of(steps.tolist()),
        stall_trace=Trace.of([stall] * count),
        copy_trace=Trace.of((steps * 0.01).tolist()),
        work_trace=Trace.of((steps * 0.99 - stall).tolist()),
    )


def _telemetry(random: np.random.Generator, warmer: float) -> Telemetry:
    t = np.arange(60) / 10
    channels = {
        "sm_clock_hz": 1.655e9 + 1.5e7 * random.standard_normal(60).round(),
        "power_w": 690 + 6 * random.standard_normal(60) - 300 * np.exp(-t * 4),
        "temperature_c": 46 + warmer + 12 * (1 - np.exp(-t / 3)),
        "utilization": np.clip(0.98 + 0.02 * random.standard_normal(60), 0, 1),
    }
    return Telemetry(
        hz=10.0,
        t_s=Trace.of(t.tolist()),
        channels={name: Trace.of(values.tolist()) for name, values in channels.items()},
        reasons={"sw_power_cap": 0.97, "gpu_idle": 0.02},
        energy_j=4_020.0,
    )
