"""A worker's side of the HTTP API, and results with chosen numbers."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from fastapi.testclient import TestClient

from benchmarks.contracts import (
    Case,
    Direction,
    Environment,
    JobSpec,
    Lease,
    Protocol,
    Result,
    Sample,
    Status,
)

FACTS = {"hw.device": "cpu", "hw.cpu.model": "Test CPU", "hw.cpu.usable": "2", "sw.torch": "2.13"}


def result_of(
    lease: Lease | JobSpec,
    values: tuple[float, ...] = (100.0, 101.0, 99.0),
    *,
    status: Status = Status.OK,
    facts: Mapping[str, str] = FACTS,
    **more: object,
) -> Result:
    """A result of the leased case."""
    spec = lease.spec if isinstance(lease, Lease) else lease
    sample = Sample(metric="throughput", unit="img/s", direction=Direction.HIGHER, values=values)
    fields: dict[str, object] = {
        "case": Case(workload=spec.case.workload, preset="tiny", axes=spec.case.axes),
        "status": status,
        "measured_at": datetime(2026, 11, 20, 1, tzinfo=UTC),
        "protocol": Protocol(trace=spec.protocol.trace),
        "item": "img",
        "environment": Environment(facts=dict(facts)),
        "samples": (sample,) if status is Status.OK else (),
        **more,
    }
    return Result.model_validate(fields)


@dataclass
class Hand:
    """A worker's side of the HTTP API."""

    client: TestClient
    name: str = "w1"

    def introduce(self, revisions: Sequence[str] | None = None, **labels: str) -> None:
        """Introduce it; ``revisions`` are those that it says it has, None: it does not say."""
        fields = {"name": self.name, "labels": labels, "revisions": revisions}
        answer = self.client.put(f"/api/v1/workers/{self.name}", json=fields)
        assert answer.status_code == 200, answer.text

    def claim(self, claim_id: str | None = None, wait_s: float = 0.0) -> Lease | None:
        body = {
            "worker": self.name,
            "claim_id": claim_id or secrets.token_hex(16),
            "wait_s": wait_s,
        }
        answer = self.client.post("/api/v1/leases", json=body)
        if answer.status_code == 204:
            return None
        assert answer.status_code == 200, answer.text
        return Lease.model_validate(answer.json())

    def must_claim(self) -> Lease:
        lease = self.claim()
        assert lease is not None
        return lease

    def tell(self, lease: Lease, what: str, body: Any = None, secret: str | None = None) -> Any:
        return self.client.post(
            f"/api/v1/jobs/{lease.job_id}/attempts/{lease.attempt}/{what}",
            json=body,
            headers={"Lease-Secret": secret or lease.secret},
        )

    def start(self, lease: Lease) -> Any:
        return self.tell(lease, "start")

    def beat(self, lease: Lease, **progress: Any) -> Any:
        return self.tell(lease, "heartbeat", {"progress": progress} if progress else {})

    def post(self, lease: Lease, result: Result) -> Any:
        return self.tell(lease, "result", result.model_dump(mode="json"))

    def post_trace(self, lease: Lease, body: bytes, **headers: str) -> Any:
        return self._post_artifact("trace", lease, body, **headers)

    def post_log(self, lease: Lease, body: bytes, **headers: str) -> Any:
        return self._post_artifact("log", lease, body, **headers)

    def _post_artifact(self, kind: str, lease: Lease, body: bytes, **headers: str) -> Any:
        all_headers = {"Lease-Secret": lease.secret, "Content-Type": "application/gzip", **headers}
        where = f"/api/v1/jobs/{lease.job_id}/attempts/{lease.attempt}/{kind}"
        return self.client.post(where, content=body, headers=all_headers)

    def measure(self, values: tuple[float, ...] = (100.0, 101.0, 99.0), **more: Any) -> str:
        """Take one job all the way; give its result's id."""
        lease = self.must_claim()
        assert self.start(lease).status_code == 204
        answer = self.post(lease, result_of(lease, values, **more))
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])
