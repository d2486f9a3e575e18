"""Checks that a job's row and its attempts agree with its submission and its log. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from benchmarks.contracts import Case, JobSpec
from service.database.session import new_id
from service.history import record
from service.maintenance.verify.jobs import FINAL, LIVE, ON_WORKER
from service.maintenance.verify.values import Breach, Event, JobFacts
from service.models import Attempt
from service.schemas.series import ImportedCase

ROWS = 11
_ALONE = frozenset({(None, "queued"), ("queued", "cancelled")})
"""Steps of a job that no attempt is part of."""


def key_of(case: Any) -> str | None:
    """The key of a case as it is stored; None if it is none."""
    try:
        kind = ImportedCase if isinstance(case, dict) and "source" in case else Case
        return kind.model_validate(case).key
    except ValidationError:
        return None


def names_moment(name: str, at: datetime, position: int | None = None) -> bool:
    """Return True if an id was drawn at that time, and for that place if one is given."""
    drawn = new_id(at, position or 0)
    return name[:12] == drawn[:12] and (position is None or name[12:16] == drawn[12:16])


def as_submitted(job: JobFacts) -> Iterator[Breach]:
    """11: the row repeats what its spec and its submission say."""
    try:
        spec = JobSpec.model_validate(job.row.spec)
    except ValidationError:
        yield _breach(job, "Its spec is none that this version can read.")
        return
    of_spec = {
        "case_key": spec.case.key,
        "revision": spec.revision,
        "requires": record.facts_digest(spec.needs),
        "rank": -spec.priority,
        "rerun_of": spec.rerun_of,
    }
    place = job.row.position if job.row.replicate == 1 else None
    if not names_moment(job.row.id, job.row.created_at, place):
        sentence = (
            f"It was not made at {job.row.created_at} for place {job.row.position}: see its name."
        )
        yield _breach(job, sentence)
    for name, expected in of_spec.items():
        if getattr(job.row, name) != expected:
            yield _breach(job, f"Its {name} is {getattr(job.row, name)}; its spec says {expected}.")
    said = job.submission
    project, revision, suite = (said.project, said.revision, said.suite) if said else (None,) * 3
    if (job.row.project, job.row.revision, spec.suite) != (project, revision, suite):
        yield _breach(
            job,
            f"It is of project {job.row.project!r}, revision {job.row.revision} and suite "
            f"{spec.suite}; its submission is of {project!r}, {revision} and {suite}.",
        )
    yield from _in_its_group(job, spec)


def _in_its_group(job: JobFacts, spec: JobSpec) -> Iterator[Breach]:
    replicates = spec.protocol.replicates
    if job.row.replicate != spec.replicate or job.row.replicate > replicates:
        yield _breach(
            job,
            f"It is replicate {job.row.replicate}; its spec says {spec.replicate} of {replicates}.",
        )
    if (job.row.replicate == 1) != (job.row.id == job.row.group_id):
        yield _breach(job, f"It is replicate {job.row.replicate} of the group {job.row.group_id}.")
    if job.row.kept_for is not None and replicates == 1:
        yield _breach(job, f"It is kept for {job.row.kept_for}, and its case has one replicate.")


def as_counted(job: JobFacts) -> Iterator[Breach]:
    """11: what the row counts and says of its end follows from its attempts."""
    lost = [attempt.state == "lost" for attempt in job.attempts]
    # A job that was to be cancelled is, when its worker is lost: that loss is not counted.
    ends = [e for e in job.log if e.attempt is None and e.after == "cancelled"]
    uncounted = any(lost[-1:]) and any(end.before in ON_WORKER for end in ends)
    if job.row.lost_attempts != sum(lost) - uncounted:
        yield _breach(job, f"It is said to have lost {job.row.lost_attempts} attempts.")
    counted = any(result.counted for result in job.results)
    if job.row.state == "queued" and job.row.cancel_requested:
        yield _breach(job, "It is queued, and was to be cancelled.")
    if job.row.state == "cancelled" and not counted and not job.row.cancel_requested:
        yield _breach(job, "It was cancelled, and nobody asked for that.")
    if job.row.state not in FINAL and job.row.reason:
        yield _breach(job, "It goes on, and gives a reason for its end.")
    for attempt in job.attempts:
        if (attempt.state in LIVE) != (attempt.ended_at is None):
            sentence = f"Attempt {attempt.number} is {attempt.state}, and its times say otherwise."
            yield _breach(job, sentence)
        started = any(e.attempt == attempt.number and e.after == "started" for e in job.log)
        if started != (attempt.started_at is not None):
            yield _breach(job, f"Attempt {attempt.number} and the log differ on its start.")


def in_pairs(job: JobFacts) -> Iterator[Breach]:
    """9: a step of an attempt and the step of its job that it leads to are lines together."""
    unpaired: Event | None = None
    for event in job.log:
        of_attempt = event.attempt is not None
        alone = (event.before, event.after) in _ALONE and not of_attempt
        if of_attempt == (unpaired is not None) and not alone:
            sentence = (
                f"It became {event.after}, and job and attempt did not take the step together."
            )
            yield Breach(9, f"job {job.row.id}", sentence, job.log)
            return
        unpaired = event if of_attempt else None
    if unpaired is not None:
        sentence = f"Attempt {unpaired.attempt} became {unpaired.after}, and the job took no step."
        yield Breach(9, f"job {job.row.id}", sentence, job.log)


def as_logged(job: JobFacts) -> Iterator[Breach]:
    """11: the log and the rows give the same times, workers and reasons."""
    holders = {attempt.number: attempt for attempt in job.attempts}
    last: dict[int | None, int] = {event.attempt: n for n, event in enumerate(job.log)}
    latest = 0
    for number, event in enumerate(job.log):
        latest += event.attempt is None and event.after == "leased"
        holder = holders.get(latest if event.attempt is None else event.attempt)
        if event.attempt is None:
            expected = _of_job(job, event, holder)
        elif holder is not None:
            reason = holder.reason if number == last[event.attempt] else ""
            expected = (_at(holder, event.after), holder.worker, reason)
        else:
            continue  # another promise tells of an attempt without a row
        said = (event.at, event.worker, event.reason)
        if said != expected and expected[0] is not None:
            sentence = (
                f"The log tells of {event.after} {_worded(said)}; the rows say {_worded(expected)}."
            )
            yield _breach(job, sentence)


def _of_job(
    job: JobFacts, event: Event, holder: Attempt | None
) -> tuple[datetime | None, str | None, str]:
    """Time, worker and reason of one of the job's own steps, as the rows have them."""
    if event.before is None:
        return job.row.created_at, None, ""
    worker = holder.worker if holder else None
    if event.after in FINAL:
        return job.row.finished_at, None if event.before == "queued" else worker, job.row.reason
    if holder is None:
        return None, None, ""
    named = {"leased": "granted", "running": "started"}.get(event.after, "ended")
    return _at(holder, named), worker, ""


def _at(holder: Attempt, step: str) -> datetime | None:
    times = {"granted": holder.granted_at, "started": holder.started_at}
    return times.get(step, holder.ended_at)


def _worded(said: tuple[datetime | None, str | None, str]) -> str:
    at, worker, reason = said
    return f"at {at} by {worker or 'nobody'}" + (f" ({reason})" if reason else "")


CHECKS = (as_submitted, as_counted, in_pairs, as_logged)


def _breach(job: JobFacts, sentence: str) -> Breach:
    return Breach(ROWS, f"job {job.row.id}", sentence, job.log)
