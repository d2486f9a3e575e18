"""Starts bisections over made-up commits, and plays the worker that measures their pairs."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from builders.gate_hand import CASE, GateHand, Script, measured
from builders.service_hand import result_of
from sqlalchemy import select

from benchmarks.contracts import Lease, Result, Status
from service.comparisons import bisection
from service.database.session import Database
from service.history import revisions
from service.models import FindingRow


def commits(count: int) -> list[dict[str, str]]:
    """The good end c0 and ``count`` commits after it."""
    return [
        {"revision": f"c{place}", "author": f"Ada {place}", "title": f"Change number {place}"}
        for place in range(count + 1)
    ]


@dataclass
class BisectionHand:
    """A client that asks for bisections, and a worker that measures their pairs."""

    gate: GateHand
    seen: list[Lease] = field(default_factory=list)

    def post(self, count: int = 8, **more: Any) -> Any:
        what = {} if "finding" in more else {"case": CASE}
        body = {"commits": commits(count), **what, **more}
        return self.gate.client.post("/api/v1/bisections", json=body)

    def start(self, count: int = 8, **more: Any) -> dict[str, Any]:
        answer = self.post(count, **more)
        assert answer.status_code == 201, answer.text
        told: dict[str, Any] = answer.json()
        return told

    def read(self, bisection_id: str) -> dict[str, Any]:
        answer = self.gate.client.get(f"/api/v1/bisections/{bisection_id}")
        assert answer.status_code == 200, answer.text
        told: dict[str, Any] = answer.json()
        return told

    def look(self) -> None:
        """What the background does every few seconds."""
        self.gate.look()
        list(bisection.advance_after(self.gate.client.app.state.database))  # type: ignore[attr-defined]

    def measure(self, script: Script, most: int = 60) -> int:
        """Measure pair after pair until nothing is asked any more; give how many there were."""
        for count in range(most):
            if not self.gate.measure(script, most=1):
                return count
            self.look()
        return most


def end_at(database: Database, good: str, bad: str) -> str:
    """Let the regression of an analysed history lie between two commits; return its id."""
    at = datetime(2026, 11, 20, tzinfo=UTC)
    with database.writing() as session:
        for name in (good, bad):
            revisions.register(session, name, at, at)
        finding = session.scalars(select(FindingRow).where(FindingRow.kind == "regression")).one()
        finding.last_good, finding.first_bad = good, bad
        return finding.id


def stepped(
    culprit: int | None,
    slower: float = 0.03,
    unbuildable: Collection[int] = (),
    others: Mapping[int, float] = MappingProxyType({}),
) -> Script:
    """Throughput 100 before commit ``culprit``, and less by the share ``slower`` from it on.

    ``others`` are further commits that make it slower, each by its share.
    """
    every = dict(others) if culprit is None else {culprit: slower, **others}
    counts = iter(range(10_000))

    def script(lease: Lease) -> Result:
        place = int(lease.spec.revision.removeprefix("c"))
        if place in unbuildable:
            return result_of(lease, status=Status.UNBUILDABLE, reason="it has no uv.lock.")
        wave = (0.0, 0.001, -0.001, 0.0005)[next(counts) % 4]
        left = math.prod(1 - share for commit, share in every.items() if commit <= place)
        return measured(lease, 100.0 * left * (1 + wave))

    return script
