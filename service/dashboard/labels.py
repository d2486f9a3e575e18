"""Names of the system in plain words: metrics, states, statuses, clock event reasons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from benchmarks.catalog import catalog
from benchmarks.catalog.metrics import metric
from benchmarks.contracts import Bottleneck, Case, LongParityStatus, ParityStatus, Status
from benchmarks.diagnosis.disturbances import FLAGS

STATUSES = {
    Status.OK: "Measured.",
    Status.UNSUPPORTED: "This case cannot run on this device or software; nothing was measured.",
    Status.UNBUILDABLE: "The commit cannot be built, so nothing ran. This says nothing of its "
    "speed.",
    Status.OOM: "The batch does not fit into the device's memory. It was not made smaller.",
    Status.COMPILE_ERROR: "Compiling the model failed before anything was timed.",
    Status.RUNTIME_ERROR: "The workload raised an error while it ran.",
    Status.PARITY_FAIL: "It computes something else than fp32 eager training does, so its speed "
    "counts for nothing.",
    Status.CRASHED: "The measuring process died by a signal.",
    Status.GARBAGE: "The measuring process ended without printing a result.",
    Status.TIMEOUT: "The measuring process hung or ran past the job's time limit.",
    Status.CANCELLED: "The job was cancelled before it could finish.",
    Status.INFRA_ERROR: "The machine, the service or the other side of its pair failed, not the "
    "workload.",
}

TITLES = {
    Status.OOM: "Out of memory",
    Status.GARBAGE: "No result",
    Status.INFRA_ERROR: "Infrastructure failed",
    Status.PARITY_FAIL: "Wrong numbers",
}

BOTTLENECKS = {
    Bottleneck.INPUT: "Input",
    Bottleneck.OVERHEAD: "Host overhead",
    Bottleneck.COMMUNICATION: "Communication",
    Bottleneck.COMPUTE: "Arithmetic",
    Bottleneck.MEMORY: "Memory bandwidth",
    Bottleneck.MIXED: "Device, mixed",
    Bottleneck.LATENCY: "Small kernels",
    Bottleneck.DEVICE: "Device",
    Bottleneck.UNKNOWN: "Unknown",
}

KINDS = {
    "gemm": "Matrix products",
    "conv": "Convolutions",
    "attention": "Attention",
    "norm": "Norms",
    "pointwise": "Pointwise and reductions",
    "optimizer": "Optimizer",
    "memcpy": "Copies",
    "communication": "Communication kernels",
    "other": "Other kernels",
}
"""Kinds of kernel, in a profile."""

FOUND_BY = {
    "operator": "by the same operator in an eager step",
    "kernel": "by the same kernel in an eager step",
    "inductor": "by the operators that Inductor fused, in an eager step",
}
"""Evidence for the line of an operation."""

PROFILE = {
    "full step": "Step of FULL",
    "full wait": "Idle in FULL: waits for a batch",
    "full copy": "FULL copies its batch",
    "step": "Step under the profiler",
    "busy": "Device busy",
    "host_wait": "Idle: launched too late",
    "kernel_gap": "Idle: between kernels, under 30 µs",
    "other": "Idle for another reason",
    "kernels": "Kernels and copies",
    "launches": "Launches by the host",
}
"""Figures of a profile that two runs are compared by."""

PARITY = {
    ParityStatus.PASS: "it computes what fp32 eager computes",
    ParityStatus.FAIL: "it computes something else",
    ParityStatus.NONDETERMINISTIC: "the reference itself varies",
    ParityStatus.SKIPPED: "not compared",
}
LONG_PARITY = {
    LongParityStatus.NO_WORSE: "it trains no worse than fp32 eager",
    LongParityStatus.WORSE: "it trains worse than fp32 eager",
    LongParityStatus.UNDECIDED: "not decided",
    LongParityStatus.SKIPPED: "not compared",
}

EVIDENCE = {
    "input_stall": ("Input stall", "of the step goes away with the loader"),
    "stall": ("Waiting", "of the step the device waits for a batch"),
    "copy": ("Copy", "of the step goes into copying the batch to the device"),
    "contention": (
        "Contention",
        "of the step its own work takes longer while the loader's processes run",
    ),
    "more_workers": ("Loader processes", "of the step goes away with more, by the model"),
    "sample_disk": ("Disk", "of a sample's time"),
    "sample_lock": ("Interpreter's lock", "of a sample's time, by the rate of threads"),
    "enqueue": ("Queuing", "of the step the host needs to queue the device's work"),
    "drained": ("Drained", "of the steps found the device idle"),
    "busy": ("Device busy", "of the step at least one kernel ran"),
    "compiling": ("Compiling", "of the step the compiler worked"),
    "small_kernels": ("Small kernels", "of the kernels' time cannot fill the device"),
    "reached": ("Reached", "of its own rates, while the device worked"),
    "exposed_communication": ("Communication", "of the step the device waits for other devices"),
    "exchange": ("Exchange", "of a gang's step"),
    "exchange_transfer": ("Exposed transfer", "of a traced step"),
    "exchange_wait": ("Exposed wait", "of a traced step a rank waits for another"),
    "exchange_contention": ("Contention", "of a traced step exchange slows computation beside it"),
    "memory_share": ("Memory traffic", "of the least time that the device's peaks allow"),
    "memory_share_fused": ("Memory traffic, fused", "of that, with pointwise operations fused"),
    "roofline": ("Roofline", "of the step is the least time that the device's peaks allow"),
    **{f"time_{kind}": (title, "of the kernels' time") for kind, title in KINDS.items()},
    **{
        f"attention_{kernel}": (f"Attention by {kernel}", "of attention's time")
        for kernel in ("cudnn", "efficient", "flash", "flex", "math")
    },
    "noise": ("Noise", "of the step: how far these shares may be off"),
}
"""What a verdict rests on: a title, and what its share is a share of."""

CANARY = {
    "gemm_flop_s": ("matrix product", "FLOP/s"),
    "gemm_fp16_flop_s": ("product in fp16", "FLOP/s"),
    "gemm_tf32_flop_s": ("product in tf32", "FLOP/s"),
    "gemm_fp32_flop_s": ("product in fp32", "FLOP/s"),
    "gemm_fp8_flop_s": ("product in fp8", "FLOP/s"),
    "copy_b_s": ("copy on the device", "B/s"),
    "h2d_pinned_b_s": ("host to device, pinned", "B/s"),
    "h2d_pageable_b_s": ("host to device, pageable", "B/s"),
    "launch_s": ("empty launch", "s"),
    "python_s": ("Python loop", "s"),
    "all_reduce_1mib_b_s": ("all-reduce of 1 MiB, bus bandwidth", "B/s"),
    "all_reduce_32mib_b_s": ("all-reduce of 32 MiB, bus bandwidth", "B/s"),
    "all_reduce_1gib_b_s": ("all-reduce of 1 GiB, bus bandwidth", "B/s"),
    "point_to_point_b_s": ("between two GPUs", "B/s"),
}
"""What a canary reads: its title and its unit."""

REASONS = {
    "gpu_idle": "idle",
    "applications_clocks": "application clocks set",
    "sw_power_cap": "software power cap",
    "hw_slowdown": "hardware slowdown",
    "sync_boost": "sync boost",
    "sw_thermal": "software thermal slowdown",
    "hw_thermal": "hardware thermal slowdown",
    "power_brake": "power brake",
    "display_clocks": "display clocks set",
}

PASSES = {"full": "with input", "synth": "without input"}

INTERVALS = {
    "replicates": "95 % interval over processes of one night; another night or node may differ",
    "within_run": "95 % interval within one process; another process, night or node may differ",
    "none": "no interval: too few measurements",
}
HELD = {"replicates": "this night", "within_run": "this process", "none": ""}
"""What an interval as measured is for."""


AXIS_ORDER = ("precision", "layout", "optimizer", "compile", "batch", "pinning", "workers")
"""As people climb the ladder; axes that are not named here follow by name."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One axis of a case that differs from its default."""

    axis: str
    value: str
    meaning: str
    """The value explained by the catalog, or nothing if it is not known (any more)."""


def plain(name: str) -> str:
    """Turn an identifier into words."""
    return name.replace("_", " ").replace(".", " ")


def against_baseline(name: str) -> str:
    """Name the ratio of a metric to that of the baseline."""
    return "Speed-up" if metric(name).is_speed else "Times better"


def status(status: Status) -> str:
    """Name a result's status."""
    return TITLES.get(status) or plain(status).capitalize()


def reason(name: str) -> str:
    """Name a clock event reason."""
    return REASONS.get(name) or plain(name)


def canary(name: str) -> tuple[str, str]:
    """Title and unit of a canary's reading."""
    return CANARY.get(name, (plain(name), "1"))


def flag(name: str) -> str:
    """Explain a flag of a measurement."""
    where, _, what = name.rpartition(".")
    known = FLAGS.get(what)
    if known is None or where not in ("", *PASSES):
        return "This version of the dashboard has no explanation for this flag."
    return f"In the pass {PASSES[where]}: {known.meaning}" if where else known.meaning


def _place(axis: str) -> tuple[int, str]:
    known = axis in AXIS_ORDER
    return (AXIS_ORDER.index(axis) if known else len(AXIS_ORDER), axis)


def case_settings(case: Case, shared: Mapping[str, str] = MappingProxyType({})) -> list[Setting]:
    """List what a case changes from the defaults, apart from what it shares with its group."""
    changed = {axis: value for axis, value in case.axes.items() if shared.get(axis) != value}
    return settings(changed)


def said(case: Case) -> str:
    """Write a case's settings in one line."""
    return ", ".join(f"{one.axis} {one.value}" for one in case_settings(case)) or "all defaults"


def settings(axes: Mapping[str, str]) -> list[Setting]:
    """Explain values on axes, in the order in which people think of them."""
    known = catalog.axes()
    return [
        Setting(axis, value, known[axis].values.get(value, "") if axis in known else "")
        for axis, value in sorted(axes.items(), key=lambda pair: _place(pair[0]))
    ]


def rank(case: Case) -> tuple[object, ...]:
    """Order cases from plain to elaborate, and values as their axis lists them."""
    known = catalog.axes()
    chosen = sorted(case.axes.items(), key=lambda pair: _place(pair[0]))
    places = []
    for axis, value in chosen:
        values = list(known[axis].values) if axis in known else []
        places.append((_place(axis), values.index(value) if value in values else len(values)))
    return len(places), places, case.key
