"""The pages of what is measured by the clock, and of what workers can build."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from fastapi import Request
from fastapi.responses import HTMLResponse
from sqlalchemy import select
from sqlalchemy.orm import Session

from benchmarks.catalog.suites import suites
from benchmarks.contracts import Head
from service import models
from service.api.dependencies import Now, Reading
from service.auth.permissions import Permission
from service.dashboard import queries, rendering
from service.jobs import schedules, workers
from service.jobs.heads import RULE
from service.schemas.jobs import ScheduleView

router = rendering.page_router(rendering.COUNTED)

BRANCH = "refs/heads/"
MOST_REFS = 50
"""Refs of a target that are shown, those that moved last."""


@router.get("/schedules")
@Permission.READ.required
def list_schedules(request: Request, session: Reading, now: Now) -> HTMLResponse:
    """Show what is measured regularly."""
    return rendering.render(
        request,
        "schedules.html",
        now=now,
        schedules=schedules.every(session),
        last=queries.last_slots(session),
        suites=list(suites()),
    )


@router.get("/targets")
@Permission.READ.required
def list_targets(request: Request, session: Reading, now: Now) -> HTMLResponse:
    """Show what workers can build, where its refs are, and what became of their commits."""
    reader = request.state.principal
    known = () if reader.project else session.scalars(select(models.WorkerRow)).all()
    refs = _refs(session, known)
    return rendering.render(
        request,
        "targets.html",
        now=now,
        workers=[one for one in workers.every(session) if one.targets],
        refs=refs,
        most=MOST_REFS,
        suites=list(suites()),
    )


@dataclass(frozen=True, slots=True)
class ShownRef:
    """A ref of a target, where it is, and the newest job at that commit."""

    head: Head
    moved_at: datetime
    job: tuple[str, str, str] | None
    """Its id, its state and its reason."""
    schedules: Sequence[ScheduleView]

    @property
    def name(self) -> str:
        """A name for a schedule that follows it."""
        words = f"{self.head.target}-{self.head.ref.removeprefix(BRANCH)}".lower()
        return re.sub(r"[^a-z0-9_.-]+", "-", words).strip("-")[:64]

    @property
    def rule(self) -> str:
        """The rule of a schedule that follows it."""
        return f"{RULE}{self.head.target}:{self.head.ref.removeprefix(BRANCH)}"


def _refs(session: Session, rows: Sequence[models.WorkerRow]) -> list[ShownRef]:
    """The refs of each target, as the worker says that saw them move last."""
    newest: dict[tuple[str, str], tuple[datetime, Head]] = {}
    for told in (one for row in rows for one in row.heads or ()):
        head = Head.model_validate({name: told[name] for name in Head.model_fields})
        seen = datetime.fromisoformat(told["moved_at"]), head
        place = head.target, head.ref
        newest[place] = max(newest.get(place, seen), seen, key=lambda one: one[0])
    by_target: dict[str, list[tuple[datetime, Head]]] = {}
    for seen in sorted(newest.values(), key=lambda one: one[0], reverse=True):
        by_target.setdefault(seen[1].target, []).append(seen)
    shown = [one for name in sorted(by_target) for one in by_target[name][:MOST_REFS]]
    return _with_jobs(session, shown)


def _with_jobs(session: Session, shown: Sequence[tuple[datetime, Head]]) -> list[ShownRef]:
    commits = {head.commit for _, head in shown}
    query = select(models.Job.revision, models.Job.id, models.Job.state, models.Job.reason).where(
        models.Job.revision.in_(commits)
    )
    newest = {revision: job for revision, *job in session.execute(query.order_by(models.Job.id))}
    every = schedules.every(session)
    refs = []
    for moved_at, head in shown:
        job = newest.get(head.commit)
        one = ShownRef(head, moved_at, (job[0], job[1], job[2]) if job else None, ())
        names = {one.rule, f"{RULE}{head.target}:{head.ref}"}
        follow = [each for each in every if each.revision_rule in names]
        refs.append(replace(one, schedules=follow))
    return refs
