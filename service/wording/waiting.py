"""Says why no worker takes a job that waits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from benchmarks.contracts import meets
from service.schemas.jobs import Drain, WorkerView
from service.wording import formats

AWAY = timedelta(minutes=2)
"""A worker that lives is heard of every few seconds."""
MOST_NAMED = 5
"""Workers that a sentence names; a team may have hundreds."""


def drained(worker: str, drain: Drain) -> str:
    """Name who drained a worker, and why; a clause without its full stop."""
    reason = drain.reason.rstrip(". ")
    return f"{worker} is drained by {drain.actor}" + (f": {reason}" if reason else "")


def why_queued(
    workers: Iterable[WorkerView], requires: Mapping[str, str], seen_since: datetime, now: datetime
) -> str:
    """Say why no worker can take a job; empty if one can.

    Args:
        workers: all that there are.
        requires: the labels that the job's worker must have.
        seen_since: a worker that was last seen before is away.
        now: the time.
    """
    able = [one for one in workers if meets(one.labels, requires)]
    if any(one.drain is None and one.last_seen_at >= seen_since for one in able):
        return ""
    if not able:
        return "No worker can take this job: none has its labels."
    said = [
        drained(one.name, one.drain)
        if one.drain
        else f"{one.name} was last seen {formats.ago(one.last_seen_at, now)}"
        for one in able[:MOST_NAMED]
    ]
    more = [f"{len(able) - MOST_NAMED} more are drained or away"] if len(able) > MOST_NAMED else []
    return f"No worker can take this job: {'; '.join(said + more)}."
