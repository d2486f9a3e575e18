"""Simulated machines: what a case would measure, computed from a few known costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from builders.measured import BATCH, a_pass, a_replicate

from benchmarks.contracts import Case, Environment, Protocol, Result, Status
from benchmarks.diagnosis.conclude import concluded
from benchmarks.diagnosis.merge import samples


@dataclass(frozen=True)
class Machine:
    """A GPU and its host; costs in seconds per step."""

    read_s: float = 0.0
    """Reading a batch in one process; loader processes share it."""
    copy_s: float = 0.0
    """Of a pageable batch; of a pinned one a fifth."""
    host_s: float = 0.0
    """Queuing an eager step."""
    step_s: float = 0.1
    """The device's work in fp32, eager."""
    factors: Mapping[str, float] = field(default_factory=dict)
    """What each ``axis=value`` makes of the device's work."""
    fails: Mapping[str, Status] = field(default_factory=dict)
    """What becomes of each ``axis=value`` that does not work here."""
    cpus: int = 16

    def measure(self, case: Case) -> Result:
        """The Result of ``case``."""
        settings = [f"{axis}={value}" for axis, value in case.axes.items()]
        failed = next((self.fails[s] for s in settings if s in self.fails), None)
        if failed is not None:
            return self._result(case, status=failed, reason="It does not work here.")
        work_s = self.step_s
        for setting in settings:
            work_s *= self.factors.get(setting, 1.0)
        enqueue_s = self.host_s
        if case.axes.get("compile") == "reduce-overhead":
            enqueue_s *= 0.05
        synth_s = max(work_s, enqueue_s)
        copy_s = self.copy_s * (0.2 if case.axes.get("pinning") == "on" else 1.0)
        workers = int(case.axes.get("workers", "0"))
        ready_s = synth_s + copy_s
        full_s = ready_s + self.read_s if workers == 0 else max(ready_s, self.read_s / workers)
        drained = 0.95 if enqueue_s > work_s else 0.0
        replicate = a_replicate(
            a_pass(full_s, stall_s=full_s - ready_s, copy_s=copy_s, enqueue_s=enqueue_s),
            a_pass(synth_s, enqueue_s=enqueue_s, drained=drained),
        )
        result = self._result(
            case, status=Status.OK, samples=samples(replicate, "img"), replicates=(replicate,)
        )
        return concluded(result)

    def _result(self, case: Case, **more: object) -> Result:
        facts = {"hw.device": "cuda", "hw.cpu.usable": str(self.cpus)}
        fields = {
            "case": case.model_copy(update={"preset": "full"}),
            "measured_at": datetime(2026, 11, 20, tzinfo=UTC),
            "protocol": Protocol(),
            "item": "img",
            "batch_items": BATCH,
            "environment": Environment(facts=facts),
        }
        return Result.model_validate(fields | more)
