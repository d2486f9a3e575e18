"""How long a claim takes while many jobs are queued.

Times the real endpoint's work, `service.queue.lease` in a transaction of its own, committed, on a
database with queued jobs of 20 kinds of requirement.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from chaos.__main__ import place
from load.spread import spread
from sqlalchemy import insert, select, text

from benchmarks.contracts import Case, Claim, JobSpec, Worker
from service import queue, revisions, workers
from service.database import Database, now_of
from service.ids import new_id
from service.models import Job, Submission
from service.queue import Holder, Terms

TERMS = Terms(timedelta(seconds=60), timedelta(seconds=10), max_lost_attempts=3)
KINDS = 20
_TABLE = select(Job.__table__)
PORTION = 5_000


def fill(database: Database, jobs: int) -> None:
    """Queue ``jobs`` jobs; the first of each kind by the queue itself, the others as its copies."""
    with database.writing() as session:
        now = now_of(session)
        revisions.register(session, "r", None, now)
        session.add(Submission(id="s", suite=None, revision="r", source="api", created_at=now))
        session.flush()
        models: list[str] = []
        for kind in range(KINDS):
            case = Case(workload="unet", preset="tiny")
            spec = JobSpec(case=case, revision="r", requires={"kind": str(kind)})
            models += queue.submit(session, [spec], "s", now)
        rows = [dict(row) for row in session.execute(_TABLE.where(Job.id.in_(models))).mappings()]
    left = jobs - KINDS
    while left > 0:
        count = min(PORTION, left)
        with database.writing() as session:
            now = now_of(session)
            session.execute(insert(Job), [_copy(rows[n % KINDS], now, n) for n in range(count)])
        left -= count


def _copy(row: dict[str, object], now: datetime, place: int) -> dict[str, object]:
    return {**row, "id": new_id(now, place % 65_536), "position": place}


def claims(database: Database, count: int) -> Iterator[float]:
    """Seconds that each of ``count`` claims takes, from the transaction's begin to its commit."""
    with database.writing() as session:
        for kind in range(KINDS):
            worker = Worker(name=f"w{kind}", labels={"kind": str(kind)})
            workers.introduce(session, worker, now_of(session))
    for number in range(count):
        claim = Claim(worker=f"w{number % KINDS}", claim_id=secrets.token_hex(16))
        began_s = time.perf_counter()
        with database.writing() as session:
            lease = queue.lease(session, claim, TERMS, now_of(session))
        yield time.perf_counter() - began_s
        assert lease is not None
        with database.writing() as session:
            holder = Holder(lease.job_id, lease.attempt, lease.secret)
            queue.release(session, holder, "", now_of(session))


def measure(kind: str, jobs: int, count: int) -> dict[str, Any]:
    """The row of one database."""
    with place(kind) as (url, _, _):
        database = Database(url)
        fill(database, jobs)
        if kind == "postgresql":
            with database.writing() as session:
                session.execute(text("ANALYZE"))
        took = list(claims(database, count))
        database.close()
    return {"bar": "claims", "database": kind, "jobs": jobs, "claims": len(took)} | spread(took)
