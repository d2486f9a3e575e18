"""A worker with a token at a service that runs, and the attempt that it holds."""

from __future__ import annotations

import secrets

from builders.served import Served
from fastapi.testclient import TestClient

from benchmarks.contracts import Lease, Result

API = "/api/v1"


def bearer(token: str) -> dict[str, str]:
    """The header that shows a token."""
    return {"Authorization": f"Bearer {token}"}


class Working:
    """The worker ``w1``, which has claimed the only job."""

    def __init__(self, served: Served) -> None:
        self.token = served.token("worker", "w1")
        self._client = TestClient(served.app)
        admin = bearer(served.token("admin"))
        self._client.put(f"{API}/workers/w1", json={"name": "w1"}, headers=bearer(self.token))
        spec = {"revision": "r", "case": {"workload": "unet"}}
        assert self._client.post(f"{API}/jobs", json=spec, headers=admin).status_code == 201
        claim = {"worker": "w1", "claim_id": secrets.token_hex(16)}
        response = self._client.post(f"{API}/leases", json=claim, headers=bearer(self.token))
        self.lease = Lease.model_validate(response.json())
        self.path = f"/jobs/{self.lease.job_id}/attempts/{self.lease.attempt}"

    def deliver(self, result: Result) -> str:
        """Post a result; gives its id."""
        answer = self._client.post(
            f"{API}{self.path}/result",
            content=result.model_dump_json(),
            headers={
                **bearer(self.token),
                "Lease-Secret": self.lease.secret,
                "Content-Type": "application/json",
            },
        )
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])
