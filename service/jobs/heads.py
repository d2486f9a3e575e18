"""Which commit a ref is at, as workers that fetched its repository lately say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from benchmarks.contracts import Head
from benchmarks.contracts.pins import pins_of
from service.errors import Unresolved
from service.models import WorkerRow

RULE = "ref:"
"""How the rule of a schedule begins that follows a ref: ``ref:TARGET:REF``."""
HERE = timedelta(minutes=10)
"""What a worker said is believed so long after it was heard of: it may be starting again."""


def resolve(session: Session, rule: str, requires: Mapping[str, str], now: datetime) -> Head:
    """Find the commit of ``ref:TARGET:REF``.

    Of workers that say different things the one that told something new last is right: a ref has
    moved, and the others will fetch soon. Only workers that may measure it are asked.

    Raises:
        Unresolved: no worker can say, or one would measure something else under the commit's name.
    """
    target, _, ref = rule.removeprefix(RULE).partition(":")
    order = (WorkerRow.heads_at.desc(), WorkerRow.name)
    every = session.scalars(select(WorkerRow).order_by(*order))
    allowed = [row for row in every if requires.items() <= row.labels.items()]
    here = [row for row in allowed if row.last_seen_at > now - HERE]
    builders = [row for row in here if target in (row.targets or {})]
    head = next(_heads(builders, target, ref), None)
    if head is None:
        raise Unresolved(_why_not(allowed, builders, target, ref))
    for row in () if pins_of(head.commit) else here:  # jobs of versions require a label
        if row not in builders and head.commit not in (row.revisions or ()):
            raise Unresolved(
                f"Worker {row.name} does not build {target} and would measure something else as "
                f"{head.commit[:12]}: give it the target, or require a label that it lacks."
            )
    return head


def _heads(rows: Sequence[WorkerRow], target: str, ref: str) -> Iterator[Head]:
    for row in rows:
        for said in row.heads or ():
            if said["target"] == target and said["ref"] in (ref, f"refs/heads/{ref}"):
                yield Head.model_validate(said)


def _why_not(
    allowed: Sequence[WorkerRow], builders: Sequence[WorkerRow], target: str, ref: str
) -> str:
    """Say why nobody knows where a ref is."""
    for row in builders:
        if trouble := (row.targets or {})[target]:
            return f"Worker {row.name} does not know {ref} of {target}: {trouble}"
    if builders:
        return (
            f"{target} has no ref {ref}: it is gone, its target does not allow it, or too many "
            "others changed since."
        )
    known = [row for row in allowed if target in (row.targets or {})]
    if known:
        last = max(row.last_seen_at for row in known)
        return f"No worker with the target {target} was heard of since {last:%Y-%m-%d %H:%M} UTC."
    return f"No worker that it may use has the target {target}: define it in a targets.toml."
