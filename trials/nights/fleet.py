"""The simulated workers: what each measures of a case, with the noise of real machines.

What a result says of clock, power, energy and cycles agrees with what happened: a slower code takes
more cycles at the same clock, a bad node has a lower clock and draws less.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np

from benchmarks.catalog.metrics import METRICS
from benchmarks.contracts import (
    Case,
    Environment,
    JobSpec,
    Purpose,
    Result,
    Sample,
    Status,
)
from trials.nights.events import GPUS, Event, Moves

NODES = {"node-a": GPUS[0], "node-b": GPUS[0], "node-c": GPUS[1]}
SPEEDS = {"node-a": 1.0, "node-b": 1.003, "node-c": 0.82}
"""Two nodes of one kind differ a little, for ever."""
PROCESSES = 3
"""Of a case in a night; they come in one result, which costs a third of one result each."""
WORK_NOISE, CLOCK_NOISE = 0.0025, 0.0015
"""Standard deviations between processes, 0.3 % together."""
NIGHT_NOISE, NODE_NOISE = 0.001, 0.002
"""Of a case on a node: from night to night, and for ever."""
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
FAILURES = {
    Status.OOM: "The batch needs more than the device has left; try a smaller batch.",
    Status.PARITY_FAIL: "The losses leave those of fp32 eager training at step 3.",
}


def number_of(revision: str) -> int:
    """The number of a revision."""
    return int(revision[1:])


@dataclass
class Fleet:
    """Workers to which events happen."""

    seed: int
    events: Sequence[Event]
    nodes: Mapping[str, str] = field(default_factory=lambda: NODES)
    night: int = 0
    times: Counter[tuple[int, str, str, str]] = field(default_factory=Counter)
    """How often each thing was measured, so that no noise is drawn twice."""

    def measure(self, spec: JobSpec, worker: str, at: datetime) -> Result:
        """What a worker sends for a job."""
        case, code = spec.case, number_of(spec.revision)
        if case.preset == "auto":
            case = case.model_copy(update={"preset": "full"})
        moved = self._moved(case, code, worker)
        status = next((e.status for e in self.events if self._fails(e, case, code)), Status.OK)
        known = {
            "case": case,
            "measured_at": at,
            "protocol": spec.protocol,
            "item": WORKLOADS[case.workload].item,
            "batch_items": WORKLOADS[case.workload].batch,
            "environment": Environment(facts=self._facts(worker, code)),
        }
        if status is not Status.OK:
            return Result(status=status, reason=FAILURES[status], **known)
        draws = self._draws(spec, worker)
        values = _values(
            case, worker, self.nodes[worker], moved, draws, self._lasting(case, worker)
        )
        unit = WORKLOADS[case.workload].item
        return Result(status=Status.OK, samples=tuple(_samples(values, unit)), **known)

    def _moved(self, case: Case, code: int, worker: str) -> Counter[Moves]:
        """Logarithm of what is left of each thing that events act on."""
        moved: Counter[Moves] = Counter()
        for event in self.events:
            factor = event.factor
            if factor.covers(case) and factor.on(self.nodes[worker], worker):
                moved[event.moves] += np.log1p(event.size * event.grown(code, self.night))
        return moved

    def _fails(self, event: Event, case: Case, code: int) -> bool:
        happens = event.grown(code, self.night) > 0
        return event.status is not Status.OK and happens and event.factor.covers(case)

    def _facts(self, worker: str, code: int) -> dict[str, str]:
        gpu = self.nodes[worker]
        named = {
            "hw.host": worker,
            "hw.gpu.uuid": f"GPU-{worker}",
            "hw.gpu.name": gpu,
            "hw.gpu.memory_b": "150754820096" if gpu == GPUS[0] else "85520809984",
            "sw.benchmarks": f"code-{code}",
        }
        came = {k: v for e in self.events if self.night >= e.first for k, v in e.facts.items()}
        return FACTS | named | came

    def _lasting(self, case: Case, worker: str) -> float:
        return float(_random(self.seed, worker, case.key).normal(0, NODE_NOISE))

    def _draws(self, spec: JobSpec, worker: str) -> Mapping[str, np.ndarray]:
        key = spec.case.key
        which = self.night, worker, key, spec.revision
        self.times[which] += 1
        random = _random(self.seed, *which, self.times[which])
        night = _random(self.seed, self.night, worker, key).normal(0, NIGHT_NOISE)
        count = PROCESSES if spec.purpose is Purpose.HISTORY else 1
        noise = {name: random.normal(0, 1, count) for name in NOISES}
        return noise | {"night": np.full(count, night)}


NOISES = ("work", "clock", "full", "synth", "wait", "first_step", "power")


def _random(*what: object) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(repr(what).encode()))


def _values(
    case: Case,
    worker: str,
    gpu: str,
    moved: Mapping[Moves, float],
    draws: Mapping[str, np.ndarray],
    lasting: float,
) -> dict[str, np.ndarray]:
    """Each metric's values, one a process."""
    usual = WORKLOADS[case.workload]
    speed = usual.rate * SPEEDS[worker] * np.prod([FASTER.get(s, 1.0) for s in case.axes.items()])
    clock = CLOCKS_HZ[gpu] * np.exp(CLOCK_NOISE * draws["clock"] - moved[Moves.CLOCK])
    work = np.exp(WORK_NOISE * draws["work"] + draws["night"] + lasting + moved[Moves.WORK])
    step_s = usual.batch / speed * work * CLOCKS_HZ[gpu] / clock
    wait = _wait(case) * np.exp(0.02 * draws["wait"]) + np.expm1(moved[Moves.INPUT])
    synth_s = step_s * np.exp(PASS_NOISE * draws["synth"])
    full_s = (step_s + wait * usual.batch / speed) * np.exp(PASS_NOISE * draws["full"])
    watts = POWERS_W[gpu] * clock / CLOCKS_HZ[gpu] * np.exp(POWER_NOISE * draws["power"])
    first = (75.0 if "compile" in case.axes else 12.0) * np.exp(moved[Moves.FIRST_STEP])
    first_s = first * np.exp(FIRST_STEP_NOISE * draws["first_step"])
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


def _samples(values: Mapping[str, np.ndarray], item: str) -> Iterator[Sample]:
    for name, found in values.items():
        metric = METRICS[name]
        yield Sample(
            metric=name,
            unit=metric.unit.replace("item", item),
            direction=metric.direction,
            values=tuple(found.tolist()),
        )
