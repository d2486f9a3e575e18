"""Simulated GPUs: what one would measure of a case, with the noise of real machines.

Clock, power, energy and cycles of a result agree with what happened: slower code takes more cycles
at the same clock, a bad node has a lower clock and draws less.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from benchmarks.catalog.metrics import METRICS
from benchmarks.contracts import Case, Sample


class Moves(StrEnum):
    """The thing that an event acts on."""

    WORK = "work"
    """Cycles that a step takes on the device."""
    CLOCK = "clock"
    """The device's clock; a positive size lowers it."""
    INPUT = "input"
    """The time that a step waits for its batch, as a share of the step."""
    FIRST_STEP = "first_step"
    MEMORY = "memory"
    OUTCOME = "outcome"
    """The measurement fails."""


GPUS = ("NVIDIA H200", "NVIDIA H100 80GB HBM3")
WORK_NOISE, CLOCK_NOISE = 0.0025, 0.0015
"""Standard deviations between processes, 0.3 % together."""
PASS_NOISE = 0.0007
"""Between the two passes of one process."""
FIRST_STEP_NOISE = 0.03
CLOCKS_HZ = {GPUS[0]: 1.755e9, GPUS[1]: 1.62e9}
POWERS_W = {GPUS[0]: 640.0, GPUS[1]: 610.0}
POWER_NOISE = 0.004
GIB = 2.0**30


@dataclass(frozen=True)
class Usual:
    """A workload in fp32 without anything that makes it faster, on an H200."""

    rate: float
    batch: int
    item: str
    memory_b: float


WORKLOADS = {
    "resnet50": Usual(1_058, 256, "img", 27.2 * GIB),
    "nanogpt": Usual(55_911, 32 * 1024, "token", 58 * GIB),
    "unet": Usual(3_120, 128, "img", 14 * GIB),
}
FASTER = {
    ("precision", "bf16"): 2.3,
    ("precision", "fp16"): 2.25,
    ("precision", "fp8"): 2.6,
    ("layout", "channels_last"): 1.6,
    ("compile", "default"): 1.4,
    ("compile", "reduce-overhead"): 1.45,
    ("checkpointing", "blocks"): 0.78,
    ("attention", "math"): 0.7,
}
LESS_MEMORY = {("precision", "bf16"): 0.55, ("precision", "fp16"): 0.55, ("precision", "fp8"): 0.5,
               ("checkpointing", "blocks"): 0.4}  # fmt: skip
FACTS = {
    "hw.device": "cuda",
    "hw.arch": "x86_64",
    "hw.cpu.model": "AMD EPYC 9454 48-Core Processor",
    "hw.cpu.count": "96",
    "hw.cpu.usable": "16",
    "hw.cpu.governor": "performance",
    "hw.memory_b": "1622517207040",
    "hw.gpu.driver": "570.172.08",
    "hw.gpu.capability": "9.0",
    "hw.gpu.sm_count": "132",
    "hw.gpu.power_limit_w": "700",
    "hw.gpu.ecc": "1",
    "hw.gpu.mig": "off",
    "hw.gpu.pcie_generation": "5",
    "hw.gpu.pcie_width": "16",
    "sw.python": "3.12.11",
    "sw.torch": "2.12.1+cu130",
    "sw.cuda": "13.0",
    "sw.cudnn": "91300",
    "sw.kernel": "6.1.0-28-amd64",
    "sw.os": "Debian GNU/Linux 12 (bookworm)",
    "sw.libc": "glibc-2.36",
    "sw.package.numpy": "2.3.4",
    "sw.package.triton": "3.5.0",
    "sw.data": "photographs",
    "flag.cudnn_benchmark": "true",
    "flag.torch_threads": "16",
    "flag.gc_in_timed_passes": "false",
}
NOISES = ("work", "clock", "full", "synth", "wait", "first_step", "power")
"""Names of what is drawn for each process, from a standard normal distribution."""


def seeded(*what: object) -> np.random.Generator:
    """Chance that is the same again for the same words."""
    return np.random.default_rng(zlib.crc32(repr(what).encode()))


def facts_of(gpu: str, worker: str, code: int) -> dict[str, str]:
    """The environment of a worker that runs the code of a revision."""
    return FACTS | {
        "hw.host": worker,
        "hw.gpu.uuid": f"GPU-{worker}",
        "hw.gpu.name": gpu,
        "hw.gpu.memory_b": "150754820096" if gpu == GPUS[0] else "85520809984",
        "sw.benchmarks": f"code-{code}",
    }


def samples(
    case: Case,
    gpu: str,
    moved: Mapping[Moves, float],
    noise: Mapping[str, np.ndarray],
    lasting: np.ndarray | float,
    pace: float = 1.0,
) -> Iterator[Sample]:
    """Each metric with a value for each process.

    Args:
        case: of a workload in `WORKLOADS`.
        gpu: one of `GPUS`.
        moved: logarithm of what happened to each thing, for the worse above zero.
        noise: standard normal draws, an array for each of `NOISES`.
        lasting: logarithm of what the steps take longer on this node, this night.
        pace: this node's speed beside that of an H200.
    """
    unit = WORKLOADS[case.workload].item
    for name, values in _values(case, gpu, moved, noise, lasting, pace).items():
        metric = METRICS[name]
        yield Sample(
            metric=name,
            unit=metric.unit.replace("item", unit),
            direction=metric.direction,
            values=tuple(values.tolist()),
        )


def _values(
    case: Case,
    gpu: str,
    moved: Mapping[Moves, float],
    noise: Mapping[str, np.ndarray],
    lasting: np.ndarray | float,
    pace: float,
) -> dict[str, np.ndarray]:
    usual = WORKLOADS[case.workload]
    speed = usual.rate * pace * np.prod([FASTER.get(s, 1.0) for s in case.axes.items()])
    clock = CLOCKS_HZ[gpu] * np.exp(CLOCK_NOISE * noise["clock"] - moved[Moves.CLOCK])
    work = np.exp(WORK_NOISE * noise["work"] + lasting + moved[Moves.WORK])
    step_s = usual.batch / speed * work * CLOCKS_HZ[gpu] / clock
    wait = _wait(case) * np.exp(0.02 * noise["wait"]) + np.expm1(moved[Moves.INPUT])
    synth_s = step_s * np.exp(PASS_NOISE * noise["synth"])
    full_s = (step_s + wait * usual.batch / speed) * np.exp(PASS_NOISE * noise["full"])
    watts = POWERS_W[gpu] * clock / CLOCKS_HZ[gpu] * np.exp(POWER_NOISE * noise["power"])
    first = (75.0 if "compile" in case.axes else 12.0) * np.exp(moved[Moves.FIRST_STEP])
    first_s = first * np.exp(FIRST_STEP_NOISE * noise["first_step"])
    memory = usual.memory_b * np.prod([LESS_MEMORY.get(s, 1.0) for s in case.axes.items()])
    values = {
        "throughput": usual.batch / full_s,
        "throughput_synth": usual.batch / synth_s,
        "step_time": full_s,
        "step_time_synth": synth_s,
        "input_stall": 1.0 - synth_s / full_s,
        "first_step_time": first_s[:1],
        "first_step_time_warm": 0.4 * first_s[1:],
        "peak_memory": np.full(len(full_s), round(memory * np.exp(moved[Moves.MEMORY]))),
        "energy_per_item": watts * full_s / usual.batch,
        "power": watts,
        "sm_clock": clock,
        "cycles_per_step": synth_s * clock,
        "cycles": full_s * clock,
    }
    return {name: found for name, found in values.items() if len(found)}


def _wait(case: Case) -> float:
    """Share of a step in which a case waits for its batch: JPEG are decoded beside the step."""
    return 0.10 if case.workload == "resnet50" and "decode" not in case.axes else 0.01
