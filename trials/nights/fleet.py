"""The simulated workers, to which events happen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np

from benchmarks.contracts import Case, Environment, JobSpec, Purpose, Result, Status
from cli.demo.simulated import GPUS, NOISES, WORKLOADS, Moves, facts_of, samples, seeded
from trials.nights.events import Event

NODES = {"node-a": GPUS[0], "node-b": GPUS[0], "node-c": GPUS[1]}
SPEEDS = {"node-a": 1.0, "node-b": 1.003, "node-c": 0.82}
"""Two nodes of one kind differ a little, for ever."""
PROCESSES = 3
"""Of a case in a night; they come in one result, which costs a third of one result each."""
NIGHT_NOISE, NODE_NOISE = 0.001, 0.002
"""Of a case on a node: from night to night, and for ever."""
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
        lasting = draws["night"] + self._lasting(case, worker)
        found = samples(case, self.nodes[worker], moved, draws, lasting, SPEEDS[worker])
        return Result(status=Status.OK, samples=tuple(found), **known)

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
        came = {k: v for e in self.events if self.night >= e.first for k, v in e.facts.items()}
        return facts_of(self.nodes[worker], worker, code) | came

    def _lasting(self, case: Case, worker: str) -> float:
        return float(seeded(self.seed, worker, case.key).normal(0, NODE_NOISE))

    def _draws(self, spec: JobSpec, worker: str) -> Mapping[str, np.ndarray]:
        key = spec.case.key
        which = self.night, worker, key, spec.revision
        self.times[which] += 1
        random = seeded(self.seed, *which, self.times[which])
        night = seeded(self.seed, self.night, worker, key).normal(0, NIGHT_NOISE)
        count = PROCESSES if spec.purpose is Purpose.HISTORY else 1
        noise = {name: random.normal(0, 1, count) for name in NOISES}
        return noise | {"night": np.full(count, night)}
