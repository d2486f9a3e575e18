"""Starts comparisons and plays the worker that measures both sides, with chosen numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from builders.service_hand import Hand, result_of
from fastapi.testclient import TestClient

from benchmarks.contracts import Direction, Lease, Result, Sample, Status
from service import comparisons

Script = Callable[[Lease], Result]
GPU = {"hw.device": "cuda", "hw.gpu.name": "H200", "hw.gpu.uuid": "GPU-1", "hw.host": "n1"}
CASE = {"workload": "resnet50"}


@dataclass
class GateHand:
    """A client that asks for comparisons, and a worker that measures them."""

    client: TestClient
    worker: Hand
    seen: list[Lease] = field(default_factory=list)
    """The leases that the worker got, in their order."""

    def start(self, **more: Any) -> dict[str, Any]:
        answer = self.client.post("/api/v1/comparisons", json=asked(**more))
        assert answer.status_code == 201, answer.text
        report: dict[str, Any] = answer.json()
        return report

    def read(self, comparison_id: str) -> dict[str, Any]:
        answer = self.client.get(f"/api/v1/comparisons/{comparison_id}")
        assert answer.status_code == 200, answer.text
        report: dict[str, Any] = answer.json()
        return report

    def look(self) -> list[str]:
        """What the background does every few seconds."""
        database = self.client.app.state.database  # type: ignore[attr-defined]
        moved_on = comparisons.advance_after(database, "")
        return [comparison_id for comparison_id, was_decided in moved_on if was_decided]

    def measure(self, script: Script, most: int = 200) -> int:
        """Take and finish jobs while there are any; give how many there were."""
        for count in range(most):
            lease = self.worker.claim()
            if lease is None:
                return count
            self.seen.append(lease)
            assert self.worker.start(lease).status_code == 204
            answer = self.worker.post(lease, answered(lease, script))
            assert answer.status_code == 201, answer.text
        return most


def answered(lease: Lease, script: Script) -> Result:
    """The result of a job of either kind: of one side, or of both."""
    duet = lease.spec.duet
    if duet is None:
        return script(lease)
    before = lease.spec.model_copy(update={"revision": duet.baseline})
    baseline = script(lease.model_copy(update={"spec": before}))
    return script(lease).model_copy(update={"baseline": baseline})


def asked(**more: Any) -> dict[str, Any]:
    """A request to compare ``old`` with ``new`` in one case, one process after the other."""
    what = {} if "suite" in more or "cases" in more else {"case": CASE}
    return {"baseline": "old", "contender": "new", "duet": False, **what, **more}


def steady(contender: float = 1.0, noise: float = 0.001, **more: Any) -> Script:
    """Throughput 100 at ``old`` and ``contender`` times that at ``new``, give or take."""
    counts: dict[str, int] = {}

    def script(lease: Lease) -> Result:
        revision = lease.spec.revision
        number = counts[revision] = counts.get(revision, 0) + 1
        wave = (0.0, 1.0, -1.0, 0.5, -0.5)[(number + 2 * (revision == "new")) % 5]
        level = 100.0 * (contender if revision == "new" else 1.0) * (1 + noise * wave)
        return measured(lease, level, **more)

    return script


def measured(lease: Lease, throughput: float, memory_b: float = 1e9, **more: Any) -> Result:
    """A result of that throughput, on one GPU, with the software named after the revision."""
    facts = {**GPU, "sw.benchmarks": lease.spec.revision, **more.pop("facts", {})}
    if more.get("status", Status.OK) is not Status.OK:
        return result_of(lease, facts=facts, **more)
    samples = (
        _sample("throughput", "img/s", Direction.HIGHER, throughput),
        _sample("step_time", "s", Direction.LOWER, 32 / throughput),
        _sample("peak_memory", "B", Direction.LOWER, memory_b),
        *more.pop("samples", ()),
    )
    return result_of(lease, facts=facts, samples=samples, **more)


def _sample(metric: str, unit: str, direction: Direction, value: float) -> Sample:
    return Sample(metric=metric, unit=unit, direction=direction, values=(value,))
