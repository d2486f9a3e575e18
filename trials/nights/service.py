"""A service with simulated workers, spoken to over its HTTP API alone."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from benchmarks.contracts import Case, Lease, Protocol
from service import comparisons
from service.app import create_app
from service.database.migrate import upgrade
from service.database.session import Database
from service.findings import confirm, pipeline
from service.settings import Access, Settings
from trials.nights.clock import Clock, in_place_of_the_real_one
from trials.nights.fleet import Fleet

API = "/api/v1"
START = datetime(2026, 3, 1, 2, tzinfo=UTC)
NIGHT = timedelta(hours=25)
"""From one night to the next: what was begun in one counts no more against the day of the next."""
JOB = timedelta(seconds=10)
"""What a job takes of the night, with several workers at once."""


def name_of(number: int) -> str:
    """The name of a revision."""
    return f"r{number:02d}"


@dataclass(frozen=True)
class Spent:
    """What one night cost."""

    jobs: int
    requests_s: float
    """Of this process's processor, for everything over HTTP."""
    analysis_s: float
    """The same, for analysis."""
    analysis_wall_s: float


@dataclass
class Nights:
    """Nights of one team."""

    client: TestClient
    database: Database
    clock: Clock
    fleet: Fleet
    cases: Sequence[Case]
    claims: int = 0
    jobs: int = 0
    analysis_s: float = 0.0
    analysis_wall_s: float = 0.0
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})

    def night(self, number: int, *, analysed: bool = True) -> Spent:
        """Measure revision ``number`` on every worker, and whatever that leads to."""
        began_s, before = time.process_time(), (self.jobs, self.analysis_s, self.analysis_wall_s)
        self.clock.jump(START + number * NIGHT)
        self.fleet.night = number
        for worker in self.fleet.nodes:
            self._introduce(worker)
            self._submit(number, worker)
        while self._work() and analysed:
            self._analyse()
        spent = self.analysis_s - before[1]
        wall = self.analysis_wall_s - before[2]
        return Spent(self.jobs - before[0], time.process_time() - began_s - spent, spent, wall)

    def _introduce(self, worker: str) -> None:
        labels = {"device": "cuda", "gpu": self.fleet.nodes[worker], "host": worker}
        self._send("PUT", f"/workers/{worker}", {"name": worker, "labels": labels})

    def _submit(self, number: int, worker: str) -> None:
        request = {
            "cases": [case.model_dump(mode="json") for case in self.cases],
            "revision": name_of(number),
            "revision_at": (START + number * NIGHT - timedelta(hours=6)).isoformat(),
            "protocol": Protocol().model_dump(mode="json"),
            "requires": {"worker": worker},
        }
        self._send("POST", "/submissions", request)

    def _work(self) -> int:
        """Let the workers take turns until the queue is empty; how many jobs they did.

        One without work goes on asking, or the service would take it for gone.
        """
        before = self.jobs
        while sum(self._one(worker) for worker in self.fleet.nodes):
            pass
        return self.jobs - before

    def _one(self, worker: str) -> bool:
        self.claims += 1
        claim = {"worker": worker, "claim_id": f"{self.claims:032x}"}
        answer = self._send("POST", "/leases", claim)
        if answer.status_code == 204:
            return False
        lease = Lease.model_validate_json(answer.content)
        job = f"/jobs/{lease.job_id}/attempts/{lease.attempt}"
        secret = {"Lease-Secret": lease.secret}
        self._send("POST", f"{job}/start", headers=secret)
        self.clock.jump(self.clock.now + JOB)
        result = self.fleet.measure(lease.spec, worker, self.clock.now)
        self._send("POST", f"{job}/result", content=result.model_dump_json(), headers=secret)
        self.jobs += 1
        return True

    def _analyse(self) -> None:
        """Do what the process does that a service starts beside itself."""
        began_s, began_wall_s = time.process_time(), time.perf_counter()
        list(comparisons.advance_after(self.database, ""))
        confirm.follow_all(self.database)
        while pipeline.look(self.database).notes:
            pass
        list(comparisons.advance_after(self.database, ""))
        self.analysis_s += time.process_time() - began_s
        self.analysis_wall_s += time.perf_counter() - began_wall_s

    def findings(self) -> Iterator[Mapping[str, Any]]:
        """Every finding as the API has it, the oldest first."""
        answer = self._send("GET", "/findings?limit=100").json()
        yield from reversed(answer["items"])

    def finding(self, finding_id: str) -> Mapping[str, Any]:
        """One finding with its series."""
        found: Mapping[str, Any] = self._send("GET", f"/findings/{finding_id}").json()
        return found

    def confirmations(self) -> Sequence[Mapping[str, Any]]:
        """What was measured again lately."""
        found: Sequence[Mapping[str, Any]] = self._send("GET", "/confirmations?limit=100").json()[
            "items"
        ]
        return found

    def _send(
        self,
        method: str,
        path: str,
        json: Any = None,
        content: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        sent = dict(headers or {}) | (dict(self.headers) if content else {})
        answer = self.client.request(
            method, f"{API}{path}", json=json, content=content, headers=sent
        )
        if answer.is_error:
            raise RuntimeError(f"{method} {path}: {answer.status_code} {answer.text}")
        return answer


@contextmanager
def team(folder: Path, fleet: Fleet, cases: Sequence[Case]) -> Iterator[Nights]:
    """A new service with its workers, until the block ends."""
    url, clock = f"sqlite:///{folder}/nights.sqlite3", Clock(START)
    upgrade(url)
    settings = Settings(database_url=url, state_dir=folder, access=Access.OPEN, background=False)
    app = create_app(settings)
    with ExitStack() as stack:
        stack.enter_context(in_place_of_the_real_one(clock))
        client = stack.enter_context(TestClient(app))
        database = Database(url)
        stack.callback(database.close)
        yield Nights(client, database, clock, fleet, cases)
