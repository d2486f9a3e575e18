"""What happens to a simulated fleet, and what a finding about it should say.

A kind of event is one function of `KINDS`: it is all that a new kind needs.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from benchmarks.contracts import Case, Status
from cli.demo.simulated import GPUS, Moves

ANY = "*"
FIRST = 14
"""Night of the first event: a series is analysed from ten points on."""


HEADLINES = {
    Moves.WORK: ("throughput",),
    Moves.CLOCK: ("throughput",),
    Moves.INPUT: ("throughput",),
    Moves.FIRST_STEP: ("first_step_time",),
    Moves.MEMORY: ("peak_memory",),
    Moves.OUTCOME: ("",),
}
"""The metric that the headline should speak of."""


@dataclass(frozen=True)
class Factor:
    """What moves together, and how people call it."""

    says: tuple[str, ...] = ()
    """Words that a headline must have."""
    workload: str = ""
    axes: Mapping[str, str | None] = field(default_factory=dict)
    """Values that a case must have: ``ANY`` is any but the default, None the default."""
    gpu: str = ""
    worker: str = ""

    def covers(self, case: Case) -> bool:
        """Return True if a case is among what moves, on the right hardware."""
        if self.workload not in ("", case.workload):
            return False
        return all(_has(case, axis, value) for axis, value in self.axes.items())

    def on(self, gpu: str, worker: str) -> bool:
        """Return True if it moves on a worker with such a GPU."""
        return self.gpu in ("", gpu) and self.worker in ("", worker)


def _has(case: Case, axis: str, value: str | None) -> bool:
    found = case.axes.get(axis)
    return found is not None if value == ANY else found == value


@dataclass(frozen=True)
class Event:
    """One thing that happens, with the truth about it."""

    kind: str
    first: int
    """The first night, and the number of the first revision, that shows it."""
    factor: Factor
    size: float = 0.0
    """As a share, above zero for the worse."""
    moves: Moves = Moves.WORK
    until: int = 10_000
    """The first night, or revision, that shows it no more."""
    ramp: int = 1
    """Nights until it has its whole size."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Facts of the environment, from the first night on."""
    by_night: bool = False
    """Whether it comes with the night on whatever revision, and not with the revision."""
    status: Status = Status.OK
    causes: tuple[str, ...] = ("code",)
    """The classes of cause that are right."""

    @property
    def finding(self) -> str:
        """The kind of the finding that it should lead to."""
        if self.moves is Moves.OUTCOME:
            return "failure"
        if self.factor.worker:
            return "bad_node"
        return "regression" if self.size > 0 else "improvement"

    @property
    def headlines(self) -> tuple[str, ...]:
        """The metrics of which its headline may speak."""
        return HEADLINES[self.moves]

    def grown(self, code: int, night: int) -> float:
        """Give the part of its size that a revision shows in a night, 0 to 1."""
        at = night if self.by_night else code
        if not self.first <= at < self.until:
            return 0.0
        return min(1.0, (at - self.first + 1) / self.ramp)


EVERYTHING = Factor(("training",))
BF16 = Factor(("bf16",), axes={"precision": "bf16"})
COMPILED = Factor(("compile",), axes={"compile": ANY})
JPEG = Factor(("resnet50",), "resnet50", {"decode": None})
"""What decodes its images beside the step."""


@dataclass(frozen=True)
class Draw:
    """Chances of one history."""

    random: random.Random
    cases: Sequence[Case]
    nodes: Mapping[str, str]
    """GPU of each worker."""

    def workloads(self, count: int) -> list[str]:
        """So many of the workloads."""
        return self.random.sample(sorted({case.workload for case in self.cases}), count)

    def workload(self, gpu: str = "") -> Factor:
        """All cases of a workload."""
        (name,) = self.workloads(1)
        return Factor((name,), name, gpu=gpu)

    def case(self) -> Factor:
        """A case alone."""
        case = self.random.choice(self.cases)
        others = {axis for other in self.cases for axis in other.axes} - set(case.axes)
        axes = {**case.axes, **dict.fromkeys(sorted(others))}
        return Factor((case.key,), case.workload, axes)

    def node(self) -> Factor:
        """A worker that is not the only one of its kind."""
        name = self.random.choice([name for name, gpu in self.nodes.items() if gpu == GPUS[0]])
        return Factor((name,), worker=name)

    def size(self, *sizes: float) -> float:
        """One of the sizes."""
        return self.random.choice(sizes)


Kind = Callable[[Draw, int], Sequence[Event]]


def _bf16(draw: Draw, night: int) -> Sequence[Event]:
    return [Event("bf16 slower", night, BF16, draw.size(0.01, 0.02))]


def _compiled(draw: Draw, night: int) -> Sequence[Event]:
    return [Event("compiled slower", night, COMPILED, draw.size(0.02, 0.04))]


def _driver(draw: Draw, night: int) -> Sequence[Event]:
    facts, size = {"hw.gpu.driver": "580.95.05"}, draw.size(-0.02, 0.015, 0.03)
    event = Event("driver", night, EVERYTHING, size, facts=facts, causes=("environment",))
    return [replace(event, by_night=True)]


def _bad_node(draw: Draw, night: int) -> Sequence[Event]:
    event = Event("bad node", night, draw.node(), 0.05, Moves.CLOCK, causes=("node",))
    return [replace(event, by_night=True, until=night + 5)]


def _improved(draw: Draw, night: int) -> Sequence[Event]:
    return [Event("workload faster", night, draw.workload(), -draw.size(0.02, 0.04))]


def _returns(draw: Draw, night: int) -> Sequence[Event]:
    first = Event("slower, then reverted", night, draw.workload(), 0.04, until=night + 7)
    return [first, replace(first, kind="slower again", first=night + 13, until=10_000)]


def _drift(draw: Draw, night: int) -> Sequence[Event]:
    causes = ("code", "unknown")
    return [Event("drift", night, draw.workload(), 0.03, ramp=12, causes=causes)]


def _one_case(draw: Draw, night: int) -> Sequence[Event]:
    return [Event("one case slower", night, draw.case(), draw.size(0.01, 0.03))]


def _one_cell(draw: Draw, night: int) -> Sequence[Event]:
    factor = replace(draw.case(), gpu=draw.random.choice(GPUS))
    return [Event("one cell slower", night, factor, 0.01)]


def _one_gpu(draw: Draw, night: int) -> Sequence[Event]:
    factor = draw.workload(GPUS[1])
    factor = replace(factor, says=(*factor.says, "H100"))
    return [Event("one GPU slower", night, factor, 0.03)]


def _input(draw: Draw, night: int) -> Sequence[Event]:
    return [Event("input slower", night, JPEG, 0.04, Moves.INPUT, causes=("input",))]


def _first_step(draw: Draw, night: int) -> Sequence[Event]:
    return [Event("first step longer", night, COMPILED, 0.4, Moves.FIRST_STEP)]


def _memory(draw: Draw, night: int) -> Sequence[Event]:
    return [Event("more memory", night, draw.workload(), 0.05, Moves.MEMORY)]


def _oom(draw: Draw, night: int) -> Sequence[Event]:
    event = Event("oom", night, draw.case(), moves=Moves.OUTCOME, until=night + 6)
    return [replace(event, status=Status.OOM)]


def _parity(draw: Draw, night: int) -> Sequence[Event]:
    event = Event("parity failure", night, draw.case(), moves=Moves.OUTCOME, until=night + 4)
    return [replace(event, status=Status.PARITY_FAIL)]


def _two(draw: Draw, night: int) -> Sequence[Event]:
    slower, faster = (Factor((name,), name) for name in draw.workloads(2))
    worse = Event("two at once: slower", night, slower, 0.03)
    return [worse, Event("two at once: faster", night, faster, -0.04)]


def _overlap(draw: Draw, night: int) -> Sequence[Event]:
    (node,) = _bad_node(draw, night)
    slower = Event("slower beside a bad node", night + 2, draw.workload(), 0.03)
    return [replace(node, kind="bad node beside it"), slower]


KINDS: Mapping[str, Kind] = {
    "bf16": _bf16,
    "bad_node": _bad_node,
    "driver": _driver,
    "improved": _improved,
    "returns": _returns,
    "compiled": _compiled,
    "one_case": _one_case,
    "one_cell": _one_cell,
    "input": _input,
    "first_step": _first_step,
    "memory": _memory,
    "oom": _oom,
    "parity": _parity,
    "two": _two,
    "overlap": _overlap,
    "one_gpu": _one_gpu,
    "drift": _drift,
}


LAST = 3
"""Nights before the end from which no event begins: it could not be told in time."""


def drawn(
    draw: Draw, first: int, nights: int, every: int, kinds: Sequence[str] = ()
) -> list[Event]:
    """The events of a history, one kind after the other; all in a random order if none is named.

    One kind begins ``every`` so many nights. One that meets no case of the history, or that nobody
    could see in time, is left out.
    """
    order = list(kinds) or draw.random.sample(list(KINDS), len(KINDS))
    events = [
        event
        for place, kind in enumerate(order)
        for event in KINDS[kind](draw, first + every * place)
    ]
    return [
        event
        for event in events
        if event.first <= nights - LAST and any(event.factor.covers(case) for case in draw.cases)
    ]
