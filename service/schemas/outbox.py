"""The outbox: what is told to other programs, and how far each delivery came."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from service.schemas.document import Document


class EventKind(StrEnum):
    """The kinds of events, by their names in a sink's rules and in a webhook's body."""

    FINDING_OPENED = "finding.opened"
    FINDING_REOPENED = "finding.reopened"
    FINDING_RECOVERED = "finding.recovered"
    FINDING_WITHDRAWN = "finding.withdrawn"
    FINDING_ASSIGNED = "finding.assigned"
    COMPARISON_STARTED = "comparison.started"
    """Of a pull request; so is the next."""
    COMPARISON_CANCELLED = "comparison.cancelled"
    COMPARISON_DECIDED = "comparison.decided"
    BISECTION_ENDED = "bisection.ended"
    COMMAND_ANSWERED = "command.answered"
    """The answer to somebody's comment on a pull request."""
    NIGHT_REPORTED = "night.reported"
    WORKER_LOST = "worker.lost"
    WORKER_BACK = "worker.back"
    NODE_ILL = "node.ill"
    NODE_WELL = "node.well"
    DIGEST = "digest"
    TEST = "test"


FOR_FORGES = frozenset(
    {EventKind.COMPARISON_STARTED, EventKind.COMPARISON_CANCELLED, EventKind.COMMAND_ANSWERED}
)
"""Only sinks that write on pull requests hear these unasked."""


class DeliveryState(StrEnum):
    """How far a delivery came."""

    WAITING = "waiting"
    """It is sent when it is due; also while it is being sent."""
    DELIVERED = "delivered"
    GATHERED = "gathered"
    """It is told in a digest, which is a delivery of its own."""
    DEAD = "dead"
    """Every attempt failed: it is sent again only if somebody asks."""
    DISMISSED = "dismissed"
    """It was dead, and somebody said that nobody needs it."""


class DeliveryView(Document):
    """One event on its way to one sink."""

    id: str
    event_id: str
    """The ``webhook-id`` of every attempt."""
    event: EventKind
    sink: str
    state: DeliveryState
    attempts: int
    due_at: datetime
    """When it is sent next, if it waits."""
    delivered_at: datetime | None
    error: str
    """Why the last attempt failed; empty if none has."""
    headline: str
    project: str
