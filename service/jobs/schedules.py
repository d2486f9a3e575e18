"""Schedules: a cron expression in a time zone submits a suite, each slot once.

There is no leader. Every replica looks; the one that inserts a slot's row submits in the same
transaction, the others find the row there. After downtime only the newest missed slot fires: an
older one would measure today's software under yesterday's name.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, cast
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from pydantic import Field
from sqlalchemy import ColumnElement, Table, select, update
from sqlalchemy.orm import Session

from benchmarks import contracts
from benchmarks.catalog import catalog, suites
from benchmarks.contracts import pins
from service import models
from service.database.failures import passes
from service.database.session import found, insert_if_absent, now_of
from service.history import revisions
from service.jobs import heads, submit
from service.jobs.explore import explore
from service.jobs.measured_commits import AlreadyMeasured, measured_of
from service.jobs.requests import SubmissionRequest
from service.schemas import errors
from service.schemas.jobs import ScheduleView

log = logging.getLogger(__name__)

_SLOTS = cast(Table, models.ScheduleRun.__table__)
_RULE = (
    rf"^(date|latest|fixed:([A-Za-z0-9][A-Za-z0-9_./+-]{{0,99}}|{pins.PATTERN})"
    r"|ref:[a-z0-9][a-z0-9_-]{0,63}:[A-Za-z0-9][A-Za-z0-9_./+@-]{0,119})$"
)
_GAP = timedelta(days=2)
_SLACK = timedelta(minutes=1)
"""Replicas that look at the same time may have times of day that far apart."""


class ScheduleRequest(contracts.Contract):
    """A schedule as requested: the suite to submit, the times and the revision."""

    cron: Annotated[
        str,
        Field(max_length=200, pattern=r"^[0-9A-Za-z*,/#\- ]+$"),
        contracts.Worded(
            "must be five fields such as '0 2 * * *', of letters, digits and *,/#- only"
        ),
    ]
    """Five fields: minute, hour, day of month, month, day of week."""
    timezone: Annotated[
        str,
        Field(max_length=64, pattern=r"^[A-Za-z0-9_+/-]+$"),
        contracts.Worded("must be the IANA name of a time zone, such as Europe/Berlin"),
    ] = "UTC"
    """An IANA name such as ``Europe/Berlin``."""
    suite: contracts.Name
    revision_rule: Annotated[
        str,
        Field(max_length=200, pattern=_RULE),
        contracts.Worded(
            "must be 'date', 'latest' or 'fixed:' with a revision, such as fixed:v1.2; or 'ref:' "
            "with a target and a ref, such as ref:nanogpt:main"
        ),
    ] = "date"
    """``date``: named after the slot's local date. ``latest``: the newest revision known in its
    project. ``fixed:REVISION``: that one. ``ref:TARGET:REF``: the commit that the ref of a worker's
    target is at when the slot fires; once the schedule has measured it, it waits for the next."""
    again: contracts.Flag = False
    """Measure a commit of a ref also when the schedule has measured it, or is about to."""
    requires: contracts.Labels = Field(default_factory=dict)
    explore_s: Annotated[float, Field(strict=True, ge=0, le=86_400)] = 0.0
    """Seconds of the devices that each slot may spend, after the suite, on cases near the fastest
    ones that nobody has measured, or that came close. 0: none."""
    enabled: contracts.Flag = True
    project: contracts.Name | None = None
    """Whose its submissions are; without it nobody's."""


@dataclass(frozen=True, slots=True)
class Fired:
    """A slot that was this replica's to fire."""

    schedule: str
    due_at: datetime
    submission_id: str | None
    """None if nothing was submitted; the schedule's note says why."""


def slots(cron: str, timezone: str, after: datetime) -> Iterator[datetime]:
    """The times after ``after`` at which ``cron`` fires, in UTC, in order.

    A time that a clock change skips fires when the clock has jumped; one that comes twice fires
    the first time.
    """
    for slot in CronSim(cron, after.astimezone(ZoneInfo(timezone))):
        due_at = slot.astimezone(UTC)
        if due_at > after:  # on an autumn night cronsim may begin with the hour that was
            yield due_at


def newest_due(cron: str, timezone: str, first: datetime, now: datetime) -> datetime | None:
    """The newest slot from ``first`` (a slot itself) up to ``now``; None if ``first`` is ahead."""
    if first > now:
        return None
    newest = first
    if now - first > _GAP:  # not every minute of a long downtime one by one
        local = (now - _GAP / 2).astimezone(ZoneInfo(timezone))
        before = next(CronSim(cron, local, reverse=True), None)
        if before is not None:
            newest = max(newest, before.astimezone(UTC))
    for slot in slots(cron, timezone, newest):
        if slot > now:
            break
        newest = slot
    return newest


def put(session: Session, name: str, request: ScheduleRequest, now: datetime) -> ScheduleView:
    """Make a schedule or change it; it fires next at the first slot after now.

    What leaves the times as they are leaves a slot that is due already, too.

    Raises:
        Invalid: the cron expression or the time zone is none.
        UnknownChoice: there is no such suite.
    """
    due_at = _first_slot(request, now)
    row = session.get(models.Schedule, name)
    if row is None:
        row = models.Schedule(name=name, created_at=now)
        session.add(row)
    times = (row.cron, row.timezone, row.enabled)
    for field, value in request.model_dump().items():
        setattr(row, field, value)
    row.project, row.note = request.project or "", ""
    if times != (row.cron, row.timezone, row.enabled):
        row.next_due_at = due_at if request.enabled else None
    session.flush()
    return _view(row, now)


def load(session: Session, name: str) -> ScheduleView:
    """One schedule.

    Raises:
        NotFound: there is none of that name.
    """
    return _view(found(session, models.Schedule, name), now_of(session))


def every(session: Session) -> list[ScheduleView]:
    """All schedules, by name."""
    now = now_of(session)
    return [
        _view(row, now)
        for row in session.scalars(select(models.Schedule).order_by(models.Schedule.name))
    ]


def delete(session: Session, name: str) -> None:
    """Forget a schedule; what it submitted stays.

    Raises:
        NotFound: there is none of that name.
    """
    session.delete(found(session, models.Schedule, name))
    session.flush()


def fire(session: Session, name: str, now: datetime) -> submit.AcceptedSubmission:
    """Submit a schedule's suite now, beside its slots and whatever it has measured, and explore.

    Raises:
        NotFound: there is none of that name.
        Unresolved: no worker says where its ref is.
    """
    row = found(session, models.Schedule, name)
    request = _request(session, row, now, now)
    submitted = _submit(session, row, request, now)
    _explore(session, row, request, now)
    return submitted


def fire_due(session: Session, now: datetime) -> list[Fired]:
    """Fire every slot that is due and that no other replica fired."""
    _set_back(session, now)
    due = select(models.Schedule).where(
        models.Schedule.enabled.is_(True),
        (models.Schedule.next_due_at <= now) | models.Schedule.next_due_at.is_(None),
    )
    outcomes = [
        _fire_row(session, row, now) for row in session.scalars(due.order_by(models.Schedule.name))
    ]
    return [fired for fired in outcomes if fired is not None]


def _set_back(session: Session, now: datetime) -> None:
    """Undo what a clock that was ahead did: a schedule waits for no later than its next slot.

    The slots that it fired meanwhile are known, and do not fire again.
    """
    ahead = select(models.Schedule).where(
        models.Schedule.enabled.is_(True), models.Schedule.next_due_at > now + _SLACK
    )
    for row in session.scalars(ahead.order_by(models.Schedule.name)):
        latest = next(slots(row.cron, row.timezone, now + _SLACK), None)
        if latest is None or row.next_due_at is None or row.next_due_at <= latest:
            continue
        following = next(slots(row.cron, row.timezone, now))
        seen = (models.Schedule.name == row.name, models.Schedule.next_due_at == row.next_due_at)
        log.warning(
            "schedule %s waited for %s, as after a clock that was ahead; it fires next at %s",
            *(row.name, row.next_due_at.isoformat(), following.isoformat()),
        )
        session.execute(update(models.Schedule).where(*seen).values(next_due_at=following))


def _fire_row(session: Session, row: models.Schedule, now: datetime) -> Fired | None:
    seen = row.next_due_at
    still = (
        models.Schedule.name == row.name,
        models.Schedule.next_due_at.is_not_distinct_from(seen),
    )
    due_at = newest_due(row.cron, row.timezone, seen, now) if seen is not None else None
    following = next(slots(row.cron, row.timezone, now), None)
    try:
        request = None if due_at is None else _request(session, row, due_at, now)
    except errors.Unresolved as error:
        _note(session, f"It waits. {error.detail}", *still)
        return None
    advance = update(models.Schedule).where(*still).values(next_due_at=following)
    slot = {"schedule": row.name, "due_at": due_at, "fired_at": now, "submission_id": None}
    won = due_at is not None and insert_if_absent(session, _SLOTS, slot)
    session.execute(advance.execution_options(synchronize_session=False))
    if not won or due_at is None or request is None:
        return None
    return Fired(row.name, due_at, _submit_slot(session, row, request, due_at, now))


def _submit_slot(
    session: Session,
    row: models.Schedule,
    request: SubmissionRequest,
    due_at: datetime,
    now: datetime,
) -> str | None:
    submission_id, note = None, ""
    follows = row.revision_rule.startswith(heads.RULE) and not row.again
    try:
        with session.begin_nested():
            measured = measured_of(session, request, now) if follows else AlreadyMeasured()
            if measured.why_all:
                note = f"It submitted nothing: {measured.why_all}"
            else:
                submission_id = _submit(session, row, request, now, measured.cases).submission_id
            _explore(session, row, request, now)
    except errors.ServiceError as error:
        log.error("schedule %s could not submit: %s", row.name, error.detail)
        submission_id, note = None, f"It could not submit: {error.detail}"
    _note(session, note, models.Schedule.name == row.name)
    if submission_id is None:
        return None
    filled = update(models.ScheduleRun).where(
        models.ScheduleRun.schedule == row.name, models.ScheduleRun.due_at == due_at
    )
    session.execute(filled.values(submission_id=submission_id))
    return submission_id


def _note(session: Session, text: str, *seen: ColumnElement[bool]) -> None:
    """Let the schedule, if it is still as it was seen, say what became of its newest slot."""
    said = contracts.line(text)
    noted = update(models.Schedule).where(*seen, models.Schedule.note != said).values(note=said)
    session.execute(noted.execution_options(synchronize_session=False))


def _request(
    session: Session, row: models.Schedule, due_at: datetime, now: datetime
) -> SubmissionRequest:
    """Ask for the suite at the revision that the rule names now.

    Raises:
        Unresolved: no worker says where its ref is.
    """
    return SubmissionRequest(
        suite=row.suite,
        requires=row.requires,
        project=row.project or None,
        source=f"schedule:{row.name}"[:64],
        **_version(session, row, due_at, now),
    )


def _version(
    session: Session, row: models.Schedule, due_at: datetime, now: datetime
) -> dict[str, Any]:
    """The revision, as fields of the request."""
    if not row.revision_rule.startswith(heads.RULE):
        revision, revision_at = _revision(session, row, due_at)
        return {"revision": revision, "revision_at": revision_at}
    head = heads.resolve(session, row.revision_rule, row.requires, now)
    return {
        "revision": head.commit,
        # Each worker sees a release at another time; a repetition is not to move it.
        "revision_at": None if pins.pins_of(head.commit) else head.at,
        "revision_author": head.author or None,
        "revision_title": head.title or None,
    }


def _explore(
    session: Session, row: models.Schedule, request: SubmissionRequest, now: datetime
) -> None:
    if row.explore_s == 0:
        return
    beside = {"suite": None, "source": f"explore:{row.name}"[:64]}
    try:
        with session.begin_nested():
            cases = explore(session, request.model_copy(update=beside), row.explore_s, now)
    except Exception as error:
        if passes(error):  # the database, not what was chosen
            raise
        log.exception("schedule %s could not explore", row.name)
    else:
        log.info("schedule %s explores %d cases", row.name, cases)


def _submit(
    session: Session,
    row: models.Schedule,
    request: SubmissionRequest,
    now: datetime,
    measured: Collection[str] = (),
) -> submit.AcceptedSubmission:
    accepted = submit.submit(session, request, now, without=measured)
    if accepted.left_out:
        log.warning(
            "schedule %s: %d cases of the suite %s are left out: they cannot run on the device "
            "that it requires, or that all workers of the last day have",
            *(row.name, accepted.left_out, row.suite),
        )
    return accepted


def _revision(
    session: Session, row: models.Schedule, due_at: datetime
) -> tuple[str, datetime | None]:
    if row.revision_rule.startswith("fixed:"):
        return row.revision_rule.removeprefix("fixed:"), None
    newest = revisions.latest(session, row.project) if row.revision_rule == "latest" else None
    if newest is not None:
        return newest, None
    local = due_at.astimezone(ZoneInfo(row.timezone))
    midnight = local.replace(hour=0, minute=0, second=0, microsecond=0)
    return local.date().isoformat(), midnight


def _first_slot(request: ScheduleRequest, now: datetime) -> datetime:
    try:
        ZoneInfo(request.timezone)
    except (KeyError, ValueError, OSError):  # a folder of zones is an OSError
        raise errors.Invalid(
            "timezone is not one that is known; give an IANA name such as Europe/Berlin."
        ) from None
    try:
        suites.suite(request.suite)
    except catalog.UnknownName as error:
        raise errors.UnknownChoice(str(error)) from error
    if len(request.cron.split()) != 5:
        raise errors.Invalid(
            "cron needs five fields: minute, hour, day of month, month, day of week."
        )
    try:
        due_at = next(slots(request.cron, request.timezone, now), None)
    except CronSimError as error:
        raise errors.Invalid(f"cron is not understood: {error}.") from error
    if due_at is None:
        raise errors.Invalid("cron names a day that never comes; no slot was found in fifty years.")
    return due_at


def _view(row: models.Schedule, now: datetime) -> ScheduleView:
    """Show a schedule. One that the migration made has no time until the first look for due ones,
    which gives it this one."""
    due_at = row.next_due_at
    if row.enabled and due_at is None:
        due_at = next(slots(row.cron, row.timezone, now), None)
    return ScheduleView.of(row, next_due_at=due_at)
