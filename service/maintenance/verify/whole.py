"""Checks several rows together: devices, labels, groups, schedules, artifacts, missing parts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from sqlalchemy import select
from sqlalchemy.orm import Session

from benchmarks.artifact_kinds import ArtifactKind
from benchmarks.contracts import AttemptState
from service.database.session import now_of
from service.history.artifacts import ArtifactStore
from service.jobs import eligibility
from service.maintenance.verify.agreement import ROWS
from service.maintenance.verify.reading import history_of
from service.maintenance.verify.values import Breach
from service.models import ArtifactRow, Attempt, LabelSet, WorkerRow


def one_job_per_device(session: Session) -> Iterator[Breach]:
    """5: no two running attempts, with leases that have not expired, on one GPU."""
    device = WorkerRow.labels["gpu_uuid"].as_string()
    running = (
        select(device.label("device"), Attempt.job_id, Attempt.number)
        .join(WorkerRow, WorkerRow.name == Attempt.worker)
        .where(Attempt.state == AttemptState.STARTED, Attempt.lease_expires_at > now_of(session))
        .where(device.is_not(None))
        .order_by(device, Attempt.granted_at)
    )
    before: str | None = None
    for row in session.execute(running):
        if row.device == before:
            sentence = f"Attempt {row.number} runs on GPU {row.device} beside another attempt."
            log = history_of(session, row.job_id)
            yield Breach(5, f"job {row.job_id}", sentence, log)
        before = row.device


def eligible_workers(session: Session) -> Iterator[Breach]:
    """11: a worker has a row for each label set that it meets, and no row hides a job from it.

    One that is drained has no row.
    """
    sets = session.execute(select(LabelSet.digest, LabelSet.labels)).all()
    for one in session.scalars(select(WorkerRow)).all():
        worker = one.name
        rows = eligibility.sets_of(session, worker)
        has = {row.requires for row in rows}
        met = {name for name, required in sets if eligibility.takes(one, required)}
        for name in sorted(met - has):
            yield Breach(ROWS, f"eligibilities {name}", f"Worker {worker} meets it and has no row.")
        for name in sorted(has - met):
            sentence = f"Worker {worker} does not meet it, or is drained."
            yield Breach(ROWS, f"eligibilities {name}", sentence)
        for row in rows:
            if eligibility.hides(row):
                sentence = f"It hides job {row.head} from worker {worker}."
                yield Breach(ROWS, f"eligibilities {row.requires}", sentence)


def devices_of_workers(session: Session) -> Iterator[Breach]:
    """11: the GPU by which a claim knows a worker is the one that the worker's labels name."""
    columns = (WorkerRow.name, WorkerRow.labels, WorkerRow.gpu_uuid)
    for name, labels, gpu_uuid in session.execute(select(*columns)):
        if labels.get("gpu_uuid") != gpu_uuid:
            yield Breach(ROWS, f"workers {name}", f"Its GPU is {gpu_uuid}, unlike in its labels.")


def every_artifact(session: Session, artifacts: ArtifactStore) -> Iterator[Breach]:
    """Yield a breach for each artifact that differs from its row; one at a time is in memory."""
    own = ArtifactRow
    names = select(own.kind, own.result_id, own.digest, own.size_b)
    for kind, result_id, digest, size_b in session.execute(names.order_by(own.result_id)).all():
        body = artifacts.get(digest)
        subject = f"the {kind} of result {result_id}"
        if kind not in set(ArtifactKind):
            yield Breach(2, subject, "There is no such kind.")
        if body is None:
            yield Breach(2, subject, "It is not among the artifacts.")
        elif hashlib.sha256(body).hexdigest() != digest or len(body) != size_b:
            yield Breach(2, subject, "It is not what was answered for: digest or size differs.")
