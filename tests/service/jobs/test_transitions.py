"""The log tells every transition, and the database refuses what no queue would do."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from builders.service_hand import result_of
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select, text
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.orm import Session

from benchmarks.contracts import AttemptState, Case, Claim, JobState, Lease, Worker
from service.database.session import Database, now_of
from service.jobs import attempts, expiry, leases, workers
from service.jobs.requests import SubmissionRequest
from service.jobs.submit import submit
from service.jobs.types import Holder, Terms
from service.models import JobEvent

pytestmark = pytest.mark.both_databases

TERMS = Terms(timedelta(seconds=60), timedelta(seconds=10), max_lost_attempts=2)
LATER = timedelta(hours=1)


@pytest.fixture
def session(database: Database) -> Iterator[Session]:
    with database.session(write=True) as session:
        workers.introduce(session, Worker(name="w1"), now_of(session))
        yield session
        session.rollback()


def put(session: Session, count: int = 1) -> None:
    cases = (Case(workload="unet"),) * count
    submit(session, SubmissionRequest(cases=cases, revision="r1"), now_of(session))


def hold(session: Session, now: datetime | None = None) -> tuple[Lease, Holder]:
    claim = Claim(worker="w1", claim_id=secrets.token_hex(16))
    lease = leases.lease(session, claim, TERMS, now or now_of(session))
    assert lease is not None
    return lease, Holder(lease.job_id, lease.attempt, lease.secret)


def told(session: Session) -> list[tuple[int | None, str | None, str, str | None]]:
    rows = session.execute(
        select(JobEvent.attempt, JobEvent.from_state, JobEvent.to_state, JobEvent.worker).order_by(
            JobEvent.id
        )
    )
    return [tuple(row) for row in rows]


def test_the_log_tells_a_job_from_its_queueing_to_its_end(session: Session) -> None:
    put(session)
    now = now_of(session)
    lease, holder = hold(session, now)
    attempts.start(session, holder, TERMS, now + timedelta(seconds=1))
    attempts.complete(session, holder, result_of(lease), now + timedelta(seconds=9))
    assert told(session) == [
        (None, None, "queued", None),
        (1, None, "granted", "w1"),
        (None, "queued", "leased", "w1"),
        (1, "granted", "started", "w1"),
        (None, "leased", "running", "w1"),
        (1, "started", "succeeded", "w1"),
        (None, "running", "succeeded", "w1"),
    ]
    at = session.scalars(select(JobEvent.at).order_by(JobEvent.id)).all()
    assert at[1:] == [
        *(now, now),
        *(now + timedelta(seconds=1),) * 2,
        *(now + timedelta(seconds=9),) * 2,
    ]


def test_a_result_without_a_start_has_one_in_its_history(session: Session) -> None:
    put(session)
    lease, holder = hold(session)
    attempts.complete(session, holder, result_of(lease), now_of(session))
    assert [row[1:3] for row in told(session) if row[0] == 1] == [
        (None, "granted"),
        ("granted", "started"),
        ("started", "succeeded"),
    ]


def test_the_log_tells_of_losses_and_of_quarantine_and_why(session: Session) -> None:
    put(session)
    for _ in range(2):
        hold(session, now_of(session) + LATER)
        expiry.sweep(session, TERMS, now_of(session) + 3 * LATER)
    assert [row[2] for row in told(session)] == [
        *("queued", "granted", "leased", "lost", "queued"),
        *("granted", "leased", "lost", "quarantined"),
    ]
    reason = session.scalars(select(JobEvent.reason).order_by(JobEvent.id.desc())).first()
    assert reason is not None
    assert "2 attempts were lost" in reason


def test_what_is_undone_is_not_told(database: Database) -> None:
    with database.session(write=True) as session:
        put(session)
        session.rollback()
    with database.reading() as session:
        assert told(session) == []


def refused(session: Session, statement: str) -> None:
    words = r"cannot go|stays as|only grows"
    with pytest.raises(IntegrityError, match=words), session.begin_nested():
        session.execute(text(statement))


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE job_events SET reason = 'I was never here'",
        "UPDATE job_events SET to_state = to_state",
        "DELETE FROM job_events",
        "DELETE FROM results",
        "DELETE FROM attempts",
        "DELETE FROM jobs",
        "UPDATE results SET counted = NOT counted",
        "UPDATE results SET digest = 'x'",
        "UPDATE results SET project = 'another'",
        "UPDATE results SET received_at = received_at",
        "UPDATE attempts SET secret = 'x'",
        "UPDATE attempts SET worker = 'w2'",
        "UPDATE jobs SET attempt = attempt + 1",
        "INSERT INTO attempts SELECT job_id, 2, worker, 'c', secret, 'granted', granted_at, "
        "started_at, lease_expires_at, NULL, '', NULL, NULL FROM attempts",
    ],
)
def test_what_would_rewrite_the_past_is_refused(session: Session, statement: str) -> None:
    workers.introduce(session, Worker(name="w2"), now_of(session))
    put(session)
    lease, holder = hold(session)
    attempts.complete(session, holder, result_of(lease), now_of(session))
    before = told(session)
    refused(session, statement)
    assert told(session) == before


def test_a_log_cannot_be_truncated(postgres_url: str) -> None:
    database = Database(postgres_url)
    for table in ("job_events", "results", "attempts", "jobs"):
        with database.session(write=True) as session, pytest.raises(DBAPIError):
            session.execute(text(f"TRUNCATE {table} CASCADE"))
    database.close()


LEGAL_JOB = {
    ("queued", "leased"),
    ("queued", "cancelled"),
    ("leased", "running"),
    *(("leased", end) for end in ("queued", "cancelled", "quarantined")),
    *(("running", end) for end in ("queued", "cancelled", "quarantined", "succeeded", "failed")),
}
LEGAL_ATTEMPT = {
    *(("granted", to) for to in ("started", "lost", "rejected")),
    *(
        ("started", to)
        for to in ("succeeded", "failed", "timed_out", "cancelled", "lost", "rejected")
    ),
}


def reach(session: Session, table: str, state: str) -> None:
    """Bring one job, or its attempt, into ``state`` by legal steps alone."""
    legal = LEGAL_JOB if table == "jobs" else LEGAL_ATTEMPT
    put(session)
    if table == "attempts":
        hold(session)
    path: dict[str, list[str]] = {"queued": []} if table == "jobs" else {"granted": []}
    while state not in path:
        for before, after in legal:
            if before in path and after not in path:
                path[after] = [*path[before], after]
    for step in path[state]:
        step_to(session, table, step)


def step_to(session: Session, table: str, state: str) -> None:
    more = ", attempt = attempt + 1" if (table, state) == ("jobs", "leased") else ""
    session.execute(text(f"UPDATE {table} SET state = '{state}'{more}"))


@pytest.mark.parametrize("table", ["jobs", "attempts"])
def test_every_pair_of_states_is_refused_unless_the_diagram_has_it(
    database: Database, table: str
) -> None:
    states = [each.value for each in (JobState if table == "jobs" else AttemptState)]
    legal = LEGAL_JOB if table == "jobs" else LEGAL_ATTEMPT
    for before in states:
        with database.session(write=True) as session:
            workers.introduce(session, Worker(name="w1"), now_of(session))
            reach(session, table, before)
            for after in states:
                if after == before:
                    continue
                if (before, after) in legal:
                    point = session.begin_nested()
                    step_to(session, table, after)
                    point.rollback()
                else:
                    with pytest.raises(IntegrityError), session.begin_nested():
                        step_to(session, table, after)
            session.rollback()


OTHERS = (
    *("submission_id", "position", "replicate", "case_key", "spec", "revision", "requires", "rank"),
    *("attempt", "lost_attempts", "cancel_requested", "reason", "rerun_of", "created_at"),
    "queued_at",
)


def test_a_job_begins_queued_and_an_attempt_granted(session: Session) -> None:
    put(session)
    copied = (
        "INSERT INTO jobs (id, state, group_id, {others}) "
        "SELECT 'other', '{{}}', 'other', {others} FROM jobs".format(others=", ".join(OTHERS))
    )
    refused(session, copied.format("succeeded"))
    session.execute(text(copied.format("queued")))


def story(session: Session) -> list[tuple[object, ...]]:
    fields = (JobEvent.job_id, JobEvent.attempt, JobEvent.from_state, JobEvent.to_state)
    rows = session.execute(
        select(*fields, JobEvent.at, JobEvent.worker, JobEvent.reason).order_by(
            JobEvent.job_id, JobEvent.id
        )
    )
    return [tuple(row) for row in rows]


@given(st.lists(st.sampled_from(["lease", "start", "complete", "release", "sweep"]), max_size=12))
def test_the_told_steps_join_without_a_gap(sqlite_template: object, steps: list[str]) -> None:
    database = Database(f"sqlite:///file:{sqlite_template}?mode=rw&uri=true")
    with database.session(write=True) as session:
        workers.introduce(session, Worker(name="w1"), now_of(session))
        put(session)
        now, held = now_of(session), None
        for step in steps:
            now += timedelta(minutes=2)
            held = act(session, step, held, now)
        last: dict[tuple[str, int | None], str] = {}
        for job, attempt, before, after, *_ in story(session):
            assert last.get((job, attempt)) == before
            last[job, attempt] = after
        found = session.execute(text("SELECT id, state FROM jobs")).all()
        assert [last[job, None] for job, _ in found] == [state for _, state in found]
        session.rollback()
    database.close()


def act(
    session: Session, step: str, held: tuple[Lease, Holder] | None, now: datetime
) -> tuple[Lease, Holder] | None:
    if step == "lease":
        claim = Claim(worker="w1", claim_id=secrets.token_hex(16))
        lease = leases.lease(session, claim, TERMS, now)
        return (lease, Holder(lease.job_id, lease.attempt, lease.secret)) if lease else held
    if step == "sweep":
        expiry.sweep(session, TERMS, now + LATER)
        return None
    if held is None:
        return None
    lease, holder = held
    if step == "start":
        attempts.start(session, holder, TERMS, now)
        return held
    if step == "complete":
        attempts.complete(session, holder, result_of(lease), now)
    else:
        attempts.release(session, holder, "", now)
    return None
