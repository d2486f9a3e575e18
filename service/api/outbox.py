"""The routes of the outbox: what was sent to the operator's sinks."""

from __future__ import annotations

from typing import Annotated

from fastapi import Request
from pydantic import StringConstraints

from benchmarks.contracts import Contract
from service.api import dependencies
from service.api.router import Noun
from service.auth import audit
from service.auth.permissions import Permission
from service.database.paging import matching
from service.models import DeliveryRow
from service.outbox import deliveries
from service.outbox.sinks import Sinks
from service.schemas import outbox
from service.schemas.errors import NotFound
from service.schemas.jobs import Listing

router = Noun("/outbox", "outbox")


class SinkTestRequest(Contract):
    """The sink that gets a test."""

    sink: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$", max_length=64)]


@router.get("")
@Permission.READ.required
def list_deliveries(
    session: dependencies.DatabaseSession,
    state: outbox.DeliveryState | None = None,
    cursor: dependencies.Cursor = None,
    limit: dependencies.Limit = 100,
) -> Listing[outbox.DeliveryView]:
    """List the deliveries of events to sinks, the newest first."""
    conditions = matching({DeliveryRow.state: state})
    page = deliveries.list_deliveries(session, *conditions, after=cursor, limit=limit)
    return Listing.of(page)


@router.post("/tests", status_code=201, responses=router.problems(404))
@Permission.ADMIN.required
def send_test(
    body: SinkTestRequest,
    request: Request,
    session: dependencies.DatabaseSession,
    now: dependencies.Now,
) -> outbox.DeliveryView:
    """Have a test sent to a sink within seconds."""
    sinks: Sinks = request.app.state.sinks
    if sinks.named(body.sink) is None:
        raise NotFound("THROUGHLINE_OUTBOX names no such sink.")
    made = deliveries.test(session, body.sink, now)
    audit.made(session, made)
    return deliveries.load(session, made)


@router.post("/{delivery_id}/again", responses=router.problems(404, 409))
@Permission.ADMIN.required
def send_again(
    delivery_id: dependencies.Id, session: dependencies.DatabaseSession, now: dependencies.Now
) -> outbox.DeliveryView:
    """Send a dead letter again, with all its attempts."""
    deliveries.again(session, delivery_id, now)
    return deliveries.load(session, delivery_id)


@router.post("/{delivery_id}/dismiss", responses=router.problems(404, 409))
@Permission.ADMIN.required
def dismiss(
    delivery_id: dependencies.Id, session: dependencies.DatabaseSession
) -> outbox.DeliveryView:
    """Give a dead letter up: it is not sent again, and is removed like what was delivered."""
    deliveries.dismiss(session, delivery_id)
    return deliveries.load(session, delivery_id)
