"""Fills a database for the demo, through the queue, as workers would in thirty nights."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from importlib.resources import files
from typing import Any

from sqlalchemy.orm import Session

from benchmarks import contracts
from cli.demo import nights
from service import models
from service.database.session import Database, new_id, now_of
from service.findings import pipeline
from service.history import revisions
from service.jobs import attempts, leases, types, workers

SYNTHETIC, MEASURED = "synthetic", "measured"
"""The projects of the simulated history and of our own results."""
NOTICE = (
    f"Demo. The project “{SYNTHETIC}” is a simulation, its numbers included; only the project "
    f"“{MEASURED}” was measured, on an NVIDIA H200."
)
TERMS = types.Terms(timedelta(hours=1), timedelta(seconds=10), max_lost_attempts=3)
CASE_TAKES = timedelta(minutes=3)


def fill(database: Database) -> None:
    """Store both histories in a migrated, empty database, the newest night just over; analyse."""
    with database.reading() as session:
        now = now_of(session)
    for number in range(nights.NIGHTS):
        with database.writing() as session:
            _night(session, number, now - timedelta(days=nights.NIGHTS - 1 - number, hours=3))
    with database.writing() as session:
        for row in measured_rows():
            _real(session, row)
    while pipeline.look(database, daily=0).notes:
        pass


def measured_rows() -> Iterator[dict[str, Any]]:
    """Our ladder on an H200, row by row as benchmarks/results/h200 has it."""
    packed = (files("cli.demo") / "h200-ladder.jsonl.gz").read_bytes()
    yield from map(json.loads, gzip.decompress(packed).splitlines())


def _night(session: Session, number: int, at: datetime) -> None:
    commit = nights.commit_of(number)
    revisions.register(session, commit, at - timedelta(hours=6), at)
    revisions.describe(session, commit, "simulated", nights.title_of(number))
    submission = _submission(session, commit, SYNTHETIC, at)
    for position, result in enumerate(nights.night(number, at)):
        node = nights.node_of(number, position)
        ended = at + position * CASE_TAKES
        dated = result.model_copy(update={"measured_at": ended})
        _measure(session, submission, commit, node, nights.GPU, dated, ended)


def _real(session: Session, row: dict[str, Any]) -> None:
    result = contracts.Result.model_validate(row["result"])
    at = datetime.fromisoformat(row["received_at"])
    gpu = result.environment.facts["hw.gpu.name"]
    revisions.register(session, row["revision"], None, at)
    submission = _submission(session, row["revision"], MEASURED, at)
    _measure(session, submission, row["revision"], row["worker"], gpu, result, at)


def _submission(session: Session, revision: str, project: str, at: datetime) -> str:
    named = {"suite": nights.SUITE, "revision": revision, "source": "demo", "project": project}
    made = models.Submission(id=new_id(at), created_at=at, **named)
    session.add(made)
    session.flush()
    return made.id


def _measure(
    session: Session,
    submission: str,
    revision: str,
    worker: str,
    gpu: str,
    result: contracts.Result,
    at: datetime,
) -> None:
    """Queue a job, lease it and complete it, at the times at which that happened."""
    began = at - CASE_TAKES
    if session.get(models.WorkerRow, worker) is None:
        labels = {"device": "cuda", "gpu": gpu, "host": worker}
        workers.introduce(session, contracts.Worker(name=worker, labels=labels), began)
    spec = contracts.JobSpec(
        case=result.case,
        revision=revision,
        suite=nights.SUITE,
        requires={"worker": worker},
        protocol=result.protocol,
    )
    (job_id,) = leases.submit(session, [spec], submission, began)
    lease = leases.lease(session, contracts.Claim(worker=worker, claim_id=job_id), TERMS, began)
    assert lease is not None
    holder = types.Holder(lease.job_id, lease.attempt, lease.secret)
    attempts.start(session, holder, TERMS, began)
    attempts.complete(session, holder, result, at)
