"""Which commit a ref is at, as workers that fetched its repository lately say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from sqlalchemy import select
from sqlalchemy.orm import Session

from benchmarks.contracts import Head, Worker, meets
from benchmarks.contracts.pins import pins_of
from service.models import WorkerRow
from service.schemas.errors import Unresolved

RULE = "ref:"
"""How the rule of a schedule begins that follows a ref: ``ref:TARGET:REF``."""
HERE = timedelta(minutes=10)
"""A worker is believed there so long after it was heard of, as it may be starting again; and where
refs are, so long after it told them."""

_Kept: TypeAlias = dict[str, Any]


def kept(worker: Worker, known: Sequence[_Kept], now: datetime) -> list[_Kept]:
    """What a worker tells, each with the time since when, by what is known of it already.

    Those of a target that it cannot reach now stay known: when it does again they did not move.
    """
    since = {(one["target"], one["ref"], one["commit"]): one["moved_at"] for one in known}
    told = [
        head.model_dump(mode="json")
        | {"moved_at": since.get((head.target, head.ref, head.commit), now.isoformat())}
        for head in worker.heads
    ]
    away = {target for target, trouble in worker.targets.items() if trouble}
    away -= {head.target for head in worker.heads}
    return told + [one for one in known if one["target"] in away]


def resolve(session: Session, rule: str, requires: Mapping[str, str], now: datetime) -> Head:
    """Find the commit of ``ref:TARGET:REF``.

    Of workers that say different things the one that saw the ref move last is right, and the others
    will fetch soon. Only workers that may measure it are asked.

    Raises:
        Unresolved: no worker can say, or one would measure something else under the commit's name.
    """
    target, _, ref = rule.removeprefix(RULE).partition(":")
    every = session.scalars(select(WorkerRow).order_by(WorkerRow.name))
    allowed = [row for row in every if meets(row.labels, requires)]
    here = [row for row in allowed if row.last_seen_at > now - HERE]
    builders = [row for row in here if target in (row.targets or {})]
    tellers = [row for row in builders if row.heads_told_at and row.heads_told_at > now - HERE]
    head = _newest(tellers, target, ref)
    if head is None:
        raise Unresolved(_why_not(allowed, builders, tellers, target, ref))
    for row in () if pins_of(head.commit) else here:  # jobs of versions require a label
        if row not in builders and head.commit not in (row.revisions or ()):
            raise Unresolved(
                f"Worker {row.name} does not build {target} and would measure something else as "
                f"{head.commit[:12]}: give it the target, or require a label that it lacks."
            )
    return head


def _newest(rows: Sequence[WorkerRow], target: str, ref: str) -> Head | None:
    """Where the worker that saw a ref move last sees it."""
    names = {(target, ref), (target, f"refs/heads/{ref}")}
    known = [one for row in rows if not (row.targets or {})[target] for one in row.heads or ()]
    said = [one for one in known if (one["target"], one["ref"]) in names]
    if not said:
        return None
    newest = max(said, key=lambda one: datetime.fromisoformat(one["moved_at"]))
    return Head.model_validate({name: newest[name] for name in Head.model_fields})


def _why_not(
    allowed: Sequence[WorkerRow],
    builders: Sequence[WorkerRow],
    tellers: Sequence[WorkerRow],
    target: str,
    ref: str,
) -> str:
    """Say why nobody knows where a ref is."""
    for row in tellers:
        if trouble := (row.targets or {})[target]:
            return f"Worker {row.name} does not know {ref} of {target}: {trouble}"
    if tellers:
        return (
            f"{target} has no ref {ref}: it is gone, its target does not allow it, or too many "
            "others changed since."
        )
    if builders:
        silent = max(builders, key=lambda row: row.heads_told_at or row.first_seen_at)
        at = silent.heads_told_at or silent.first_seen_at
        return (
            f"Worker {silent.name} has not told where the refs of {target} are since "
            f"{at:%Y-%m-%d %H:%M} UTC; its log may say why."
        )
    known = [row for row in allowed if target in (row.targets or {})]
    if known:
        last = max(row.last_seen_at for row in known)
        return f"No worker with the target {target} was heard of since {last:%Y-%m-%d %H:%M} UTC."
    return f"No worker that it may use has the target {target}: define it in a targets.toml."
