"""Checks one job, its attempts, its results and its history. Pure.

The guards in the database hold the same steps, but for one: they, and the constraint on a job's
state, also let a queued job expire, and none does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from service.maintenance.verify.values import Breach, Event, JobFacts
from service.models import ResultRow

JOB_STEPS: frozenset[tuple[str | None, str]] = frozenset(
    {
        (None, "queued"),
        *(("queued", to) for to in ("leased", "cancelled")),
        *(("leased", to) for to in ("running", "queued", "cancelled", "quarantined")),
        *(("running", to) for to in ("succeeded", "failed", "cancelled", "queued", "quarantined")),
    }
)
ATTEMPT_STEPS: frozenset[tuple[str | None, str]] = frozenset(
    {
        (None, "granted"),
        *(("granted", to) for to in ("started", "lost", "rejected")),
        *(
            ("started", to)
            for to in ("succeeded", "failed", "timed_out", "cancelled", "lost", "rejected")
        ),
    }
)
FINAL = frozenset({"succeeded", "failed", "cancelled", "quarantined"})
ON_WORKER = frozenset({"leased", "running"})
LIVE = frozenset({"granted", "started"})
ANSWERED = frozenset({"succeeded", "failed", "timed_out", "cancelled"})
"""An attempt that ended so was ended by its result."""
OUTCOMES = {
    "ok": ("succeeded", "succeeded"),
    "timeout": ("timed_out", "failed"),
    "cancelled": ("cancelled", "cancelled"),
}
"""Status of a counted result -> states of its attempt and its job; any other is a failure."""
Check = Callable[[JobFacts], Iterator[Breach]]


def ends_once(job: JobFacts) -> Iterator[Breach]:
    """1: it has ended once, or can still end: held by one live attempt, or waiting."""
    places = [place for place, event in enumerate(job.log) if event.attempt is None]
    ends = [place for place in places if job.log[place].after in FINAL]
    if ends and places[-1] > ends[0]:
        after = places[places.index(ends[0]) + 1]
        yield _breach(1, job, "It went on after its end.", job.log[: after + 1])
    if (job.row.finished_at is not None) != (job.row.state in FINAL):
        yield _breach(1, job, f"It is {job.row.state}, and its time of ending says otherwise.")
    live = [attempt.number for attempt in job.attempts if attempt.state in LIVE]
    if job.row.state in ON_WORKER and not live:
        yield _breach(1, job, f"It is {job.row.state} and nobody holds it, so it can never end.")
    if job.row.state not in ON_WORKER and live:
        yield _breach(1, job, f"It is {job.row.state}, and attempt {live[0]} is still live.")


def answers_are_kept(job: JobFacts) -> Iterator[Breach]:
    """2: an attempt that a result ended has that result."""
    posted = {result.attempt for result in job.results if result.counted}
    for attempt in job.attempts:
        if attempt.state in ANSWERED and attempt.number not in posted:
            sentence = f"Attempt {attempt.number} is {attempt.state}, and its result is missing."
            yield _breach(2, job, sentence)


def counts_once(job: JobFacts) -> Iterator[Breach]:
    """3: at most one counted result, of the last attempt, from who held it."""
    counted = [result for result in job.results if result.counted]
    if len(counted) > 1:
        yield _breach(3, job, f"{len(counted)} results count.")
    for result in counted:
        yield from _rightly_counted(job, result)
    if not counted and job.row.state in ("succeeded", "failed"):
        yield _breach(3, job, f"It is {job.row.state}, and no result counts.")


def _rightly_counted(job: JobFacts, result: ResultRow) -> Iterator[Breach]:
    number = result.attempt
    if number != job.row.attempt:
        sentence = (
            f"The result of attempt {number} counts, and attempt {job.row.attempt} is the last."
        )
        yield _breach(3, job, sentence)
    holder = next((attempt for attempt in job.attempts if attempt.number == number), None)
    if holder is None:
        yield _breach(3, job, f"A result of attempt {number} counts, which there never was.")
        return
    if result.worker != holder.worker:
        sentence = f"{result.worker}'s result counts, and {holder.worker} held attempt {number}."
        yield _breach(3, job, sentence)
    expected = OUTCOMES.get(result.status, ("failed", "failed"))
    if (holder.state, job.row.state) != expected:
        sentence = (
            f"A result with status {result.status} counts, and attempt {number} is {holder.state} "
            f"and the job {job.row.state}."
        )
        yield _breach(3, job, sentence)


def attempts_are_numbered(job: JobFacts) -> Iterator[Breach]:
    """4: attempts are 1, 2, 3 ..., in the rows and in the log."""
    rows = [attempt.number for attempt in job.attempts]
    if rows != list(range(1, len(rows) + 1)) or job.row.attempt != len(rows):
        sentence = (
            f"Its attempts are {rows or 'none'}, and its latest is said to be {job.row.attempt}."
        )
        yield _breach(4, job, sentence)
    granted = [
        (place, event.attempt)
        for place, event in enumerate(job.log)
        if event.attempt is not None and event.before is None
    ]
    for expected, (place, number) in enumerate(granted, start=1):
        if number != expected:
            sentence = f"Attempt {number} was granted where {expected} was due."
            yield _breach(4, job, sentence, job.log[: place + 1])
            return
    if len(granted) != len(rows):
        yield _breach(4, job, f"{len(rows)} attempts, and {len(granted)} in the log.")


def one_holder(job: JobFacts) -> Iterator[Breach]:
    """5: an attempt begins only when the one before has ended."""
    live = [attempt.number for attempt in job.attempts if attempt.state in LIVE]
    if len(live) > 1:
        yield _breach(5, job, f"Attempts {live[0]} and {live[1]} hold it at once.")
    open_: set[int] = set()
    for place, event in enumerate(job.log):
        if event.attempt is None:
            continue
        if event.after == "granted" and open_ - {event.attempt}:
            sentence = f"Attempt {event.attempt} began while {min(open_)} was not over."
            yield _breach(5, job, sentence, job.log[: place + 1])
            return
        if event.after in LIVE:
            open_.add(event.attempt)
        else:
            open_.discard(event.attempt)


def is_explained(job: JobFacts) -> Iterator[Breach]:
    """9: every state was reached by legal steps that the log has; refused requests left none."""
    states: dict[int | None, str] = {}
    for place, event in enumerate(job.log):
        legal = JOB_STEPS if event.attempt is None else ATTEMPT_STEPS
        step = (event.before, event.after)
        if states.get(event.attempt) != event.before or step not in legal:
            sentence = f"{_name(event.attempt)} went from {event.before} to {event.after}."
            yield _breach(9, job, sentence, job.log[: place + 1])
            return
        states[event.attempt] = event.after
    rows: dict[int | None, str] = {attempt.number: attempt.state for attempt in job.attempts}
    rows[None] = job.row.state
    for number in sorted(rows.keys() | states.keys(), key=lambda attempt: attempt or 0):
        if rows.get(number) != states.get(number):
            sentence = f"{_name(number)} is {rows.get(number)}; the log says {states.get(number)}."
            yield _breach(9, job, sentence)


CHECKS: tuple[Check, ...] = (
    ends_once,
    answers_are_kept,
    counts_once,
    attempts_are_numbered,
    one_holder,
    is_explained,
)


def _name(number: int | None) -> str:
    return "The job" if number is None else f"Attempt {number}"


def _breach(
    promise: int, job: JobFacts, sentence: str, history: Sequence[Event] | None = None
) -> Breach:
    return Breach(promise, f"job {job.row.id}", sentence, job.log if history is None else history)
