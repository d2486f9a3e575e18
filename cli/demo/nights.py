"""Thirty simulated nights of the suite `ladder` on two nodes, and what happens in them. Pure."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np

from benchmarks import contracts
from benchmarks.catalog import catalog
from benchmarks.catalog.suites import suite
from cli.demo.simulated import GPUS, NOISES, WORKLOADS, Moves, facts_of, samples, seeded

NIGHTS = 30
NODES = ("synthetic-a", "synthetic-b")
GPU = GPUS[0]
"""The GPU of each node."""
SUITE = "ladder"
PROCESSES = 3
"""Processes of a case in a night; they come in one result."""
NIGHT_NOISE = 0.001
"""Standard deviation of a case from night to night."""
LEFT_OUT = {"cycles", "power", "step_time_synth", "first_step_time_warm"}
"""Metrics that say nothing in a demo, and would take a third of its start."""
INPUT_BOUND = 0.08
"""From this share on, a step that waits for its batches is limited by them."""


@dataclass(frozen=True)
class Event:
    """One thing that happens."""

    first: int
    """The number of the first night, and of its revision."""
    title: str
    """The first line of the commit that does it; empty if none does."""
    size: float
    """As a share, above zero for the worse."""
    moves: Moves = Moves.WORK
    workload: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of a case that it takes to be affected."""
    node: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Facts of the environment from then on."""

    def hits(self, case: contracts.Case, node: str, night: int) -> bool:
        """Return True if it moves what is measured of a case on a node in a night."""
        of_case = self.workload in ("", case.workload) and self.settings.items() <= set(
            case.axes.items()
        )
        return night >= self.first and self.node in ("", node) and of_case


BF16 = {"precision": "bf16"}
EVENTS = (
    Event(11, "Fuse the residual's addition into the norm", -0.025, workload="resnet50"),
    Event(15, "Attention: build the mask in every step", 0.034, workload="nanogpt", settings=BF16),
    Event(19, "", 0.0, facts={"hw.gpu.driver": "580.95.05"}),
    Event(22, "Keep the U-Net's skip connections in fp32", 0.05, Moves.MEMORY, "unet"),
    Event(24, "", 0.05, Moves.CLOCK, node=NODES[1]),
    Event(29, "Keep a copy of the weights", 0.0, Moves.OUTCOME, "unet", {"compile": "default"}),
)
_OOM = "The batch needs more than the device has left; try a smaller batch."
_CHORES = ("Tidy the training loop", "Pin the linters", "Log the learning rate", "Split a test")


def cases() -> list[contracts.Case]:
    """The cases of each night."""
    whole = [catalog.normalise(case, "cuda") for case in suite(SUITE).cases]
    return [case.model_copy(update={"preset": "full"}) for case in whole]


def commit_of(night: int) -> str:
    """The commit that a night measures."""
    return hashlib.sha1(f"synthetic {night}".encode(), usedforsecurity=False).hexdigest()


def title_of(night: int) -> str:
    """The first line of its message."""
    ours = (event.title for event in EVENTS if event.first == night and event.title)
    return next(ours, _CHORES[night % len(_CHORES)])


def node_of(night: int, position: int) -> str:
    """The node that measures a case: each has every case every other night."""
    return NODES[(night + position) % len(NODES)]


def measured(case: contracts.Case, node: str, night: int, at: datetime) -> contracts.Result:
    """Measure a case on a node in a night."""
    happened = [event for event in EVENTS if event.hits(case, node, night)]
    known = {
        "case": case,
        "measured_at": at,
        "protocol": contracts.Protocol(),
        "item": WORKLOADS[case.workload].item,
        "batch_items": WORKLOADS[case.workload].batch,
        "environment": contracts.Environment(facts=facts_of(GPU, node, night) | _facts(night)),
        "repro": f"throughline bench {case.workload} "
        + " ".join(f"{axis}={value}" for axis, value in case.axes.items()),
    }
    if any(event.moves is Moves.OUTCOME for event in happened):
        return contracts.Result(status=contracts.Status.OOM, reason=_OOM, **known)
    moved: Counter[Moves] = Counter()
    for event in happened:
        moved[event.moves] += np.log1p(event.size)
    random = seeded(case.key, node, night)
    noise = {name: random.normal(0, 1, PROCESSES) for name in NOISES}
    lasting = seeded(case.key, night).normal(0, NIGHT_NOISE)
    every = samples(case, GPU, moved, noise, lasting)
    found = tuple(one for one in every if one.metric not in LEFT_OUT)
    return contracts.Result(
        status=contracts.Status.OK, samples=found, verdict=_verdict(found), **known
    )


def _facts(night: int) -> dict[str, str]:
    return {name: fact for e in EVENTS if night >= e.first for name, fact in e.facts.items()}


def _verdict(found: Sequence[contracts.Sample]) -> contracts.Verdict:
    stall = float(np.mean(next(one.values for one in found if one.metric == "input_stall")))
    if stall < INPUT_BOUND:
        sentence = "The device is busy throughout; neither input nor the host holds it up."
        return contracts.Verdict(
            bottleneck=contracts.Bottleneck.DEVICE, confidence="high", sentence=sentence
        )
    return contracts.Verdict(
        bottleneck=contracts.Bottleneck.INPUT,
        confidence="high",
        sentence=f"The device waits {stall:.0%} of the time for batches.",
        evidence={"input_stall": stall},
        bounds={"without_input_stall": 1 / (1 - stall)},
    )


def night(number: int, at: datetime) -> Iterator[contracts.Result]:
    """The results of a night that begins at ``at``, in the order of its cases."""
    for position, case in enumerate(cases()):
        yield measured(case, node_of(number, position), number, at)
