"""Checks what claims rely on: each worker's label sets, and the place of each set's first job."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import select
from sqlalchemy.orm import Session

from service.jobs import eligibility
from service.maintenance.verify.agreement import ROWS
from service.maintenance.verify.values import Breach
from service.models import Eligibility, LabelSet, WorkerRow


def eligible_workers(session: Session) -> Iterator[Breach]:
    """11: a worker has a row for each label set that it meets, and no row hides a job from it."""
    sets = session.execute(select(LabelSet.digest, LabelSet.labels)).all()
    for worker, labels in session.execute(select(WorkerRow.name, WorkerRow.labels)).all():
        rows = eligibility.sets_of(session, worker)
        has = {row.requires for row in rows}
        met = {name for name, required in sets if eligibility.meets(labels, required)}
        for name in sorted(met - has):
            yield Breach(ROWS, f"eligibilities {name}", f"Worker {worker} meets it and has no row.")
        for name in sorted(has - met):
            yield Breach(ROWS, f"eligibilities {name}", f"Worker {worker} does not meet it.")
        for row in rows:
            if eligibility.hides(row):
                sentence = f"It hides job {row.head} from worker {worker}."
                yield Breach(ROWS, f"eligibilities {row.requires}", sentence)
    known = select(WorkerRow.name).where(WorkerRow.name == Eligibility.worker).exists()
    for name, worker in session.execute(
        select(Eligibility.requires, Eligibility.worker).where(~known)
    ):
        yield Breach(ROWS, f"eligibilities {name}", f"There is no worker {worker}.")


def devices_of_workers(session: Session) -> Iterator[Breach]:
    """11: the GPU by which a claim knows a worker is the one that the worker's labels name."""
    columns = (WorkerRow.name, WorkerRow.labels, WorkerRow.gpu_uuid)
    for name, labels, gpu_uuid in session.execute(select(*columns)):
        if labels.get("gpu_uuid") != gpu_uuid:
            yield Breach(ROWS, f"workers {name}", f"Its GPU is {gpu_uuid}, unlike in its labels.")
