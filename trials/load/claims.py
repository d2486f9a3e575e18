"""How long a claim takes while many jobs are queued.

Times the work of the endpoint, `service.jobs.leases.lease` in a transaction of its own with its
commit, on a database with queued jobs of at least 20 label sets. Every worker meets one of the
first 20, and all of the others.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from sqlalchemy import insert, text

from benchmarks.contracts import Case, Claim, JobSpec, Worker
from service.database.session import Database, now_of
from service.jobs import attempts, leases, workers
from service.jobs.types import Holder, Terms
from service.models import Job
from trials.chaos.__main__ import place
from trials.load import queued
from trials.load.spread import spread

TERMS = Terms(timedelta(seconds=60), timedelta(seconds=10), max_lost_attempts=3)
KINDS = 20
LABELS = {f"label{number}": "x" for number in range(16)}
PORTION = 5_000


def requires(number: int) -> dict[str, str]:
    """One of up to 65,536 label sets."""
    if number < KINDS:
        return {"kind": str(number)}
    return {label: "x" for place, label in enumerate(LABELS) if number >> place & 1}


def fill(database: Database, jobs: int, sets: int) -> None:
    """Queue ``jobs`` jobs of all label sets."""
    case = Case(workload="unet", preset="tiny")
    specs = [JobSpec(case=case, revision="r", requires=requires(number)) for number in range(sets)]
    with database.writing() as session:
        rows = queued.submit(session, specs)
    for start in range(0, jobs - sets, PORTION):
        portion = range(start, min(start + PORTION, jobs - sets))
        with database.writing() as session:
            session.execute(insert(Job), queued.copies(rows, now_of(session), portion))


def claims(database: Database, count: int) -> Iterator[float]:
    """Seconds that each of ``count`` claims takes, from the transaction's begin to its commit."""
    with database.writing() as session:
        for kind in range(KINDS):
            worker = Worker(name=f"w{kind}", labels=LABELS | requires(kind))
            workers.introduce(session, worker, now_of(session))
    for number in range(count):
        claim = Claim(worker=f"w{number % KINDS}", claim_id=secrets.token_hex(16))
        began_s = time.perf_counter()
        with database.writing() as session:
            lease = leases.lease(session, claim, TERMS, now_of(session))
        yield time.perf_counter() - began_s
        assert lease is not None
        with database.writing() as session:
            holder = Holder(lease.job_id, lease.attempt, lease.secret)
            attempts.release(session, holder, "", now_of(session))


def measure(kind: str, jobs: int, count: int, sets: int = KINDS) -> dict[str, Any]:
    """The row of one database."""
    with place(kind) as (url, _, _):
        database = Database(url)
        fill(database, jobs, sets)
        if kind == "postgresql":
            with database.writing() as session:
                session.execute(text("ANALYZE"))
        took = list(claims(database, count))
        database.close()
    fields = {"bar": "claims", "database": kind, "jobs": jobs, "sets": sets, "claims": len(took)}
    return fields | spread(took)
