"""What the service could not hear is no worker's fault: restarts, outages, clocks that are set."""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta

import pytest
from sqlalchemy import select

from benchmarks.contracts import Case, Claim, JobState, Worker
from service.database.session import Database, now_of
from service.jobs import expiry, leases, workers
from service.jobs.requests import SubmissionRequest
from service.jobs.submit import submit
from service.jobs.types import Terms
from service.maintenance import background
from service.maintenance.background import Background, WallClock
from service.models import Job

pytestmark = pytest.mark.both_databases

TERMS = Terms(timedelta(seconds=60), timedelta(seconds=10), max_lost_attempts=3)


class Clock:
    """The database's clock, as far as the background sees it; and time itself."""

    def __init__(self) -> None:
        self.wall = timedelta()
        self.elapsed_s = 0.0

    def now_of(self, session: object) -> datetime:
        return START + timedelta(seconds=self.elapsed_s) + self.wall

    def clock_gettime(self, which: int) -> float:
        return self.elapsed_s


START = datetime.fromisoformat("2026-11-20T10:00:00+00:00")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(background, "now_of", clock.now_of)
    monkeypatch.setattr(background.time, "clock_gettime", clock.clock_gettime)
    return clock


@pytest.fixture
def watch(database: Database, clock: Clock) -> Background:
    """A background that has looked once while a worker holds a job."""
    with database.writing() as session:
        workers.introduce(session, Worker(name="w1"), now_of(session))
        submit(session, SubmissionRequest(case=Case(workload="unet"), revision="r"), START)
        claim = Claim(worker="w1", claim_id=secrets.token_hex(16))
        assert leases.lease(session, claim, TERMS, START)
    watch = Background(database, TERMS, 5.0)
    watch._look()
    return watch


def state(database: Database) -> str | None:
    with database.reading() as session:
        return session.scalar(select(Job.state))


@pytest.mark.parametrize("jump", [timedelta(hours=1), -timedelta(hours=1)])
def test_a_clock_that_is_set_ends_no_live_lease_and_keeps_no_dead_one(
    database: Database, watch: Background, clock: Clock, jump: timedelta
) -> None:
    clock.elapsed_s, clock.wall = 5.0, jump
    watch._look()
    assert state(database) == JobState.LEASED
    clock.elapsed_s = 60.0
    watch._look()
    assert state(database) == JobState.LEASED
    clock.elapsed_s = 70.0
    watch._look()
    assert state(database) == JobState.QUEUED


def test_a_database_that_was_away_longer_than_a_lease_costs_no_attempt(
    database: Database, watch: Background, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as away:
        away.setattr(expiry, "sweep", lambda *_: 1 / 0)
        watch._every_s = 0.0
        away.setattr(watch._stop, "wait", lambda _: watch._stop.set())
        watch._repeat()
    watch._stop.clear()
    clock.elapsed_s = 600.0
    watch._look()
    assert state(database) == JobState.LEASED


def test_without_any_of_that_a_lease_ends_in_its_time(
    database: Database, watch: Background, clock: Clock
) -> None:
    clock.elapsed_s = 59.0
    watch._look()
    assert state(database) == JobState.LEASED
    clock.elapsed_s = 61.0
    watch._look()
    assert state(database) == JobState.QUEUED


def test_a_slow_clock_is_no_set_clock(clock: Clock) -> None:
    watch = WallClock(timedelta(seconds=15))
    assert not watch.jumped(clock.now_of(None))
    clock.elapsed_s, clock.wall = 100.0, timedelta(seconds=14)
    assert not watch.jumped(clock.now_of(None))
    clock.elapsed_s, clock.wall = 200.0, timedelta(seconds=-2)
    assert watch.jumped(clock.now_of(None))
