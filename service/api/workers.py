"""The routes of workers: introduce and list them, drain and resume them."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path
from pydantic import StringConstraints

from benchmarks.contracts import Contract, Name, Worker
from service.api import dependencies
from service.api.findings import Actor
from service.api.router import Noun
from service.auth.permissions import Permission
from service.jobs import workers
from service.schemas.errors import Invalid
from service.schemas.jobs import IntroducedWorker, Listing, WorkerView

router = Noun("/workers", "workers")


class DrainRequest(Contract):
    """The reason for giving a worker no job, and who says so."""

    reason: Annotated[str, StringConstraints(max_length=500, pattern=r"^[^\x00-\x1f]*$")] = ""
    actor: Actor | None = None
    """Null: whoever the token is of."""


@router.put("/{name}", responses=router.problems(409))
@Permission.WORK.required
def introduce(
    name: Annotated[Name, Path()],
    worker: Worker,
    session: dependencies.DatabaseSession,
    now: dependencies.Now,
    caller: dependencies.Caller,
) -> IntroducedWorker:
    """Introduce a worker, or tell what has changed about it; do so before the first claim.

    It may be asked for the commits of a range, which its next introduction lists. 409 while another
    worker of this name, which the label `folder` tells, was heard of within the last minute.
    """
    if worker.name != name:
        raise Invalid("The name in the address and the name in the body must be the same.")
    caller.be(name)
    return workers.introduce(session, worker, now)


@router.get("")
@Permission.READ.required
def list_workers(session: dependencies.DatabaseSession) -> Listing[WorkerView]:
    """List all workers, the last seen first, with the `revisions` whose own code each can run."""
    return Listing(items=workers.every(session), next_cursor=None)


@router.put("/{name}/drain", responses=router.problems(404, 409))
@Permission.ADMIN.required
def drain(
    name: Annotated[Name, Path()],
    request: DrainRequest,
    session: dependencies.DatabaseSession,
    now: dependencies.Now,
    caller: dependencies.Caller,
) -> WorkerView:
    """Give a worker no further job; it finishes what it has, and may be stopped then.

    That holds until it is resumed, also when it starts again.
    """
    return workers.drain(session, name, request.reason, request.actor or caller.name, now)


@router.delete("/{name}/drain", responses=router.problems(404))
@Permission.ADMIN.required
def resume(name: Annotated[Name, Path()], session: dependencies.DatabaseSession) -> WorkerView:
    """Give a drained worker jobs again."""
    return workers.resume(session, name)
