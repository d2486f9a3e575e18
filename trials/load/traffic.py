"""Heartbeats, claims and results at a real service process with tokens, each when it is due."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from heapq import merge
from itertools import cycle, islice
from math import ceil
from pathlib import Path
from statistics import fmean
from typing import Any

import psutil
from builders.measured import a_pass, a_replicate, a_result
from sqlalchemy import func, insert, select, update
from sqlalchemy.orm import Session

from benchmarks.contracts import (
    AttemptState,
    Case,
    Claim,
    Direction,
    JobSpec,
    JobState,
    Result,
    Sample,
    Worker,
)
from service.auth import signing_key as access_key
from service.auth import token_store
from service.auth.token_store import TokenRequest
from service.database.session import Database, now_of, rows
from service.jobs import workers
from service.models import Attempt, Job, Point, ResultRow
from service.schemas.access import TokenKind
from trials.chaos.__main__ import place
from trials.chaos.replica import Replica
from trials.load import bodies, queued
from trials.load.line import Answers, Due, send
from trials.load.spread import spread

HEARTBEAT_S = 10.0
LINES = 128
PORTION = 2_000
LEASE = timedelta(hours=1)
SETTINGS = {
    "ACCESS": "tokens",
    "REQUESTS_PER_S": "0",
    "LEASE_S": str(LEASE.total_seconds()),
}
"""No limit on what one client sends, and no lease that ends because nobody renews it: each attempt
here is posted once, by somebody whose other requests are not sent."""
WARM_UP_S = 2.0
"""Requests of the first seconds are sent and not timed: imports, caches, connections."""
REST_S = 5.0
"""After which a service without requests has given back the memory that it gives back."""


class Shape(StrEnum):
    """What is in a result."""

    REAL = "real"
    """What H200s measured, 8 to 55 kB, with noise of its own: see `trials.load.bodies`."""
    METRICS = "metrics"
    """200 metrics, which make as many points in as many series."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is sent."""

    results_per_s: float
    seconds: float
    shape: Shape
    replicas: int = 1
    workers: int = 1_000
    """Each beats every ten seconds."""
    claims_per_s: float = 10.0
    """Of jobs that wait in the queue; each gets one."""

    @property
    def results(self) -> int:
        """How many, those of the warm-up with them."""
        return round(self.results_per_s * (self.seconds + WARM_UP_S))

    @property
    def claims(self) -> int:
        """How many, those of the warm-up with them."""
        return round(self.claims_per_s * (self.seconds + WARM_UP_S))


@dataclass(frozen=True)
class Material:
    """What results are made of: a body each in turn, and the case that each is of."""

    cases: Sequence[Case]
    bodies: Sequence[bytes]

    @classmethod
    def of(cls, plan: Plan) -> Material:
        """Make the bodies before anything is timed."""
        if plan.shape is Shape.METRICS:
            result = of_metrics()
            return cls([result.case], [result.model_dump_json().encode()])
        mix = bodies.mix()
        turns = ceil(min(bodies.DISTINCT, plan.results) / len(mix))
        return cls([one.case for one in mix], list(bodies.bodies(mix, turns * len(mix))))


@dataclass(frozen=True, slots=True)
class LiveAttempt:
    """An attempt that a worker holds."""

    job_id: str
    secret: str
    worker: str
    token: str


def measure(kind: str, plan: Plan) -> dict[str, Any]:
    """The row of one database."""
    with place(kind) as (url, folder, _):
        database = Database(url)
        material = Material.of(plan)
        attempts = prepare(database, folder, material, plan)
        # As docs/operating.md has it: one of them analyses, the others only answer.
        replicas = [
            Replica(url, folder, STATE_DIR=str(folder), ROLE=role, **SETTINGS)
            for role in ["all", *["web"] * (plan.replicas - 1)]
        ]
        try:
            return _measured(database, replicas, attempts, material, plan) | {"database": kind}
        finally:
            for replica in replicas:
                replica.kill()
            database.close()


def _measured(
    database: Database,
    replicas: Sequence[Replica],
    attempts: Sequence[LiveAttempt],
    material: Material,
    plan: Plan,
) -> dict[str, Any]:
    for replica in replicas:
        replica.start()
    for replica in replicas:
        replica.wait()
    ports = [replica.port for replica in replicas]
    rss = [_rss_b(replicas)]
    before = psutil.cpu_times()
    answers = asyncio.run(send(list(requests(attempts, material.bodies, plan, ports)), LINES))
    stolen = _stolen(before)
    rss.append(_rss_b(replicas))
    time.sleep(REST_S)
    rss.append(_rss_b(replicas))
    cpu = [sum(process.cpu_times()[:2]) for r in replicas for process in _processes(r)]
    return {
        "bar": "traffic",
        **summarised(answers),
        "results_per_s": plan.results_per_s,
        "claims_per_s": plan.claims_per_s,
        "seconds": plan.seconds,
        "shape": plan.shape.value,
        "replicas": plan.replicas,
        "workers": plan.workers,
        "body_b": round(fmean(map(len, material.bodies))),
        "bodies": len(material.bodies),
        "stolen": stolen,
        "rss_before_sent_after_b": rss,
        "service_cpu_s": round(sum(cpu), 1),
        "stored": _stored(database),
    }


def summarised(answers: Answers) -> dict[str, Any]:
    """Counts by status, and latencies by kind."""
    rates = {kind: spread(took_s) for kind, took_s in answers.took_s.items() if kind != "early"}
    totals = {"answers": dict(answers.statuses), "wall_s": round(answers.wall_s, 2)}
    return totals | rates | {"result_p99_s_by_10_s": by_ten_seconds(answers, "result")}


def by_ten_seconds(answers: Answers, kind: str) -> list[float]:
    """The high percentile of each ten seconds by themselves: bad ones are not averaged away."""
    parts: dict[int, list[float]] = {}
    for due_s, took_s in zip(answers.due_s[kind], answers.took_s[kind], strict=True):
        parts.setdefault(int((due_s - WARM_UP_S) // 10), []).append(took_s)
    return [round(spread(of_part)["p99_s"], 4) for _, of_part in sorted(parts.items())]


def _stolen(before: Any) -> float:
    """Share of processor time since ``before`` that the machine's host gave to others."""
    spent = [now - then for now, then in zip(psutil.cpu_times(), before, strict=True)]
    whole = dict(zip(before._fields, spent, strict=True))
    return round(whole.get("steal", 0.0) / (sum(spent) or 1.0), 3)


def _rss_b(replicas: Sequence[Replica]) -> int:
    """Of the largest replica, all its processes together; pages that they share count twice."""
    return max(sum(process.memory_info().rss for process in _processes(r)) for r in replicas)


def _processes(replica: Replica) -> list[psutil.Process]:
    assert replica.process is not None
    service = psutil.Process(replica.process.pid)
    return [service, *service.children(recursive=True)]


def _stored(database: Database) -> dict[str, int]:
    with database.reading() as session:
        counted = session.scalar(select(func.count()).where(ResultRow.counted)) or 0
        points = session.scalar(select(func.count()).select_from(Point)) or 0
    return {"counted": counted, "points": points}


def requests(
    attempts: Sequence[LiveAttempt], bodies_: Sequence[bytes], plan: Plan, ports: Sequence[int]
) -> Iterator[Due]:
    """Every request, in the order in which they are due."""
    beating, posting = attempts[: plan.workers], attempts[plan.workers :]
    beats = int((plan.seconds + WARM_UP_S) * plan.workers / HEARTBEAT_S)
    every = (
        _due(
            n * HEARTBEAT_S / plan.workers,
            "heartbeat",
            ports[n % len(ports)],
            beating[n % plan.workers],
            b"{}",
        )
        for n in range(beats)
    )
    # The job of a number is of the case of the body of that number: see `queued.copies`.
    of_posting = islice(cycle(bodies_), plan.workers % len(bodies_), None)
    results = (
        _due(n / plan.results_per_s, "result", ports[n % len(ports)], one, body)
        for n, (one, body) in enumerate(zip(posting, of_posting, strict=False))
    )
    claims = (
        _claim(n / plan.claims_per_s, ports[n % len(ports)], beating[n % plan.workers])
        for n in range(plan.claims)
    )
    yield from merge(every, results, claims, key=lambda due: due.at_s)


def _claim(at_s: float, port: int, asking: LiveAttempt) -> Due:
    body = Claim(worker=asking.worker, claim_id=secrets.token_hex(16)).model_dump_json().encode()
    return _request(at_s, "claim", port, "leases", f"Bearer {asking.token}", body)


def _due(at_s: float, what: str, port: int, attempt: LiveAttempt, body: bytes) -> Due:
    shown = f"Bearer {attempt.token}\r\nLease-Secret: {attempt.secret}"
    return _request(at_s, what, port, f"jobs/{attempt.job_id}/attempts/1/{what}", shown, body)


def _request(at_s: float, what: str, port: int, path: str, shown: str, body: bytes) -> Due:
    head = (
        f"POST /api/v1/{path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: {shown}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return Due(at_s, what if at_s >= WARM_UP_S else "early", port, head.encode(), body)


def of_metrics() -> Result:
    """A plain result with 200 metrics."""
    timed = a_pass(0.1)
    result = a_result(a_replicate(timed, timed))
    samples = [
        Sample(metric=f"metric_{n}", unit="s", direction=Direction.LOWER, values=(0.1 + n,))
        for n in range(200 - len(result.samples))
    ]
    whole = result.model_copy(update={"samples": (*result.samples, *samples)})
    return Result.model_validate_json(whole.model_dump_json())


def prepare(database: Database, folder: Path, material: Material, plan: Plan) -> list[LiveAttempt]:
    """Jobs that workers hold, one for each to beat for and one for each result; others that wait.

    The job of a result is of that result's case, and each worker has a token.
    """
    names = [f"w{n}" for n in range(plan.workers)]
    tokens = _introduce(database, folder, names)
    with database.writing() as session:
        specs = [JobSpec(case=case, revision="r") for case in material.cases]
        models = queued.submit(session, specs)
    live: list[LiveAttempt] = []
    taken = plan.workers + plan.results
    for portion in _portions(range(taken)):
        with database.writing() as session:
            now = now_of(session)
            jobs = queued.copies(models, now, portion)
            holders = [names[number % plan.workers] for number in portion]
            attempts = _take(session, jobs, holders, now)
        live += [
            LiveAttempt(a["job_id"], a["secret"], a["worker"], tokens[a["worker"]])
            for a in attempts
        ]
    for portion in _portions(range(taken, taken + plan.claims)):
        with database.writing() as session:
            session.execute(insert(Job), queued.copies(models, now_of(session), portion))
    return live


def _portions(numbers: range) -> Iterator[range]:
    return (numbers[start : start + PORTION] for start in range(0, len(numbers), PORTION))


def _take(
    session: Session, jobs: Sequence[queued.Row], holders: Sequence[str], now: datetime
) -> list[dict[str, Any]]:
    """Queue jobs and let each be held and started, step by step as the guards ask."""
    made = [job["id"] for job in jobs]
    attempts = [_attempt(*pair, now) for pair in zip(made, holders, strict=True)]
    session.execute(insert(Job), jobs)
    session.execute(insert(Attempt), attempts)
    of_jobs, of_attempts = Job.id.in_(made), Attempt.job_id.in_(made)
    rows(session, update(Job).where(of_jobs).values(state=JobState.LEASED, attempt=1))
    started = {"state": AttemptState.STARTED, "started_at": now}
    rows(session, update(Attempt).where(of_attempts).values(**started))
    rows(session, update(Job).where(of_jobs).values(state=JobState.RUNNING))
    return attempts


def _introduce(database: Database, folder: Path, names: Sequence[str]) -> dict[str, str]:
    key = access_key.load(folder)
    tokens = {}
    with database.writing() as session:
        now = now_of(session)
        for name in names:
            workers.introduce(session, Worker(name=name), now)
            made = token_store.create(
                session, key, TokenRequest(kind=TokenKind.WORKER, name=name), now, None
            )
            tokens[name] = made.token
    return tokens


def _attempt(job_id: str, worker: str, now: datetime) -> dict[str, Any]:
    return {
        "job_id": job_id,
        "number": 1,
        "worker": worker,
        "claim_id": secrets.token_hex(16),
        "secret": secrets.token_hex(32),
        "state": AttemptState.GRANTED,
        "granted_at": now,
        "lease_expires_at": now + LEASE,
        "reason": "",
    }
