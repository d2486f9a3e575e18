"""`verify` finds each broken promise in a database that was corrupted by hand, and no other."""

from __future__ import annotations

import gc
import json
import os
import secrets
import subprocess
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from builders.corrupted import broken, corrupted
from builders.forked import ForkServer
from builders.service_hand import result_of
from sqlalchemy.orm import Session

from benchmarks.contracts import FINAL_STATES, Case, Claim, JobState, Lease, Purpose, Status, Worker
from service.database.session import Database, now_of
from service.jobs import attempts, expiry, leases, schedules, types, workers
from service.jobs.requests import SubmissionRequest
from service.jobs.submit import submit
from service.jobs.types import Holder, Terms
from service.maintenance.verify import CheckOutcome, guards, verify
from service.maintenance.verify.invariants import check
from service.maintenance.verify.jobs import ATTEMPT_STEPS, FINAL, JOB_STEPS
from tests.service.jobs.test_transitions import LEGAL_ATTEMPT, LEGAL_JOB

pytestmark = pytest.mark.both_databases

TERMS = Terms(timedelta(seconds=60), timedelta(seconds=10), max_lost_attempts=3)
HOUR = timedelta(hours=1)


@pytest.fixture
def healthy(database: Database) -> Database:
    """Every kind of end, a late result, a running second attempt, a comparison, two slots."""
    with database.writing() as session:
        now = now_of(session)
        workers.introduce(session, Worker(name="w1"), now)
        for _ in range(3):
            hold = held(session, now)
            attempts.start(session, hold.holder, TERMS, now)
            hold.complete(now)
        held(session, now).complete(now, status=Status.OOM)
        held(session, now, purpose=Purpose.COMPARISON).complete(now)
        late = held(session, now, rank=5)
        expiry.sweep(session, TERMS, now + HOUR)
        assert not late.complete(now + HOUR).counted
        held(session, now + 2 * HOUR, fresh=False).complete(now + 2 * HOUR)
        expiry.cancel(session, held(session, now).holder.job_id, now)
        expiry.sweep(session, TERMS, now + 3 * HOUR)
        last = held(session, now, rank=9)
        attempts.release(session, last.holder, "Stopping.", now)
        again = held(session, now + 5 * HOUR, fresh=False)
        attempts.start(session, again.holder, TERMS, now + 5 * HOUR)
        hourly = schedules.ScheduleRequest(cron="0 * * * *", suite="smoke")
        schedules.put(session, "hourly", hourly, now - 4 * HOUR)
        for ago in (3, 2):
            assert schedules.fire_due(session, now - ago * HOUR)
    return database


@dataclass
class Held:
    """A leased job and who may write to it."""

    session: Session
    lease: Lease
    holder: Holder

    def complete(self, now: datetime, **more: Any) -> types.Completion:
        return attempts.complete(self.session, self.holder, result_of(self.lease, **more), now)


def held(
    session: Session, now: datetime, *, fresh: bool = True, rank: int = 0, **more: Any
) -> Held:
    """Lease the most urgent job; a fresh one, unless there is one already."""
    if fresh:
        asked = SubmissionRequest(case=Case(workload="unet"), revision="r1", priority=rank, **more)
        submit(session, asked, now)
    claim = Claim(worker="w1", claim_id=secrets.token_hex(16))
    lease = leases.lease(session, claim, TERMS, now)
    assert lease is not None
    return Held(session, lease, Holder(lease.job_id, lease.attempt, lease.secret))


def test_a_healthy_database_keeps_every_promise(healthy: Database) -> None:
    report = verify(healthy)
    assert report.kept
    outcomes = {finding.number: finding.outcome for finding in report.findings}
    assert outcomes.pop(10) is CheckOutcome.NOT_APPLICABLE
    assert set(outcomes.values()) == {CheckOutcome.HELD}
    assert report.jobs > 8
    assert report.results > 6
    assert report.warnings == []


def test_an_empty_database_keeps_every_promise(database: Database) -> None:
    assert verify(database).kept


OK = (
    "(SELECT job_id FROM results WHERE attempt = 1 AND id IN (SELECT result_id FROM points) "
    "ORDER BY id LIMIT 1)"
)
LATE = "(SELECT job_id FROM results WHERE NOT counted ORDER BY id LIMIT 1)"
COPY = (
    "INSERT INTO job_events (job_id, attempt, from_state, to_state, at, worker, reason) "
    "SELECT job_id, {attempt}, {before}, {after}, at, worker, '' FROM job_events "
    "WHERE job_id = {job} ORDER BY id DESC LIMIT 1"
)
RERUN = COPY.format(attempt="NULL", before="'succeeded'", after="'queued'", job=OK)
SECOND = COPY.format(attempt="{0}", before="{1}", after="{2}", job=OK)

CORRUPTIONS: dict[str, tuple[int, list[str]]] = {
    "a job that went on after its end": (1, [RERUN]),
    "a job that nobody can end": (
        1,
        [f"UPDATE jobs SET state = 'running', finished_at = NULL WHERE id = {OK}"],
    ),
    "an end without a time": (1, [f"UPDATE jobs SET finished_at = NULL WHERE id = {OK}"]),
    "a job that ended under a live attempt": (
        1,
        [f"UPDATE attempts SET state = 'started' WHERE job_id = {OK}"],
    ),
    "a result that is gone": (
        2,
        [
            f"DELETE FROM points WHERE result_id IN (SELECT id FROM results WHERE job_id = {OK})",
            f"DELETE FROM results WHERE job_id = {OK}",
        ],
    ),
    "a document that was exchanged": (
        2,
        [
            "UPDATE results SET document = (SELECT document FROM results WHERE status = 'oom') "
            f"WHERE job_id = {OK}"
        ],
    ),
    "a document that is torn": (
        2,
        [f"UPDATE results SET document = substr(document, 1, 20) WHERE job_id = {OK}"],
    ),
    "a late result that counts": (
        3,
        [
            "DROP INDEX uq_results_counted",
            f"UPDATE results SET counted = true WHERE job_id = {LATE}",
        ],
    ),
    "a counted result of another worker": (
        3,
        [
            "INSERT INTO workers (name, labels, version, first_seen_at, last_seen_at) "
            "SELECT 'thief', labels, version, first_seen_at, last_seen_at FROM workers LIMIT 1",
            f"UPDATE results SET worker = 'thief' WHERE job_id = {OK}",
        ],
    ),
    "a success that was none": (3, [f"UPDATE results SET status = 'oom' WHERE job_id = {OK}"]),
    "a gap in the attempts": (4, [f"UPDATE jobs SET attempt = 7 WHERE id = {OK}"]),
    "a grant out of turn": (
        4,
        [
            COPY.format(attempt="5", before="NULL", after="'granted'", job=OK),
            COPY.format(attempt="5", before="'granted'", after="'lost'", job=OK),
        ],
    ),
    "two live attempts": (
        5,
        [
            "DROP INDEX uq_attempts_live",
            "UPDATE attempts SET state = 'started' WHERE job_id IN (SELECT job_id FROM attempts "
            "WHERE state = 'started')",
        ],
    ),
    "an attempt that began before the one before it ended": (
        5,
        [
            COPY.format(attempt="2", before="NULL", after="'granted'", job=OK),
            COPY.format(attempt="3", before="NULL", after="'granted'", job=OK),
        ],
    ),
    "a point that is gone": (
        6,
        [
            "DELETE FROM points WHERE result_id = "
            f"(SELECT id FROM results WHERE job_id = {OK}) AND series_id = (SELECT min(series_id) "
            f"FROM points WHERE result_id = (SELECT id FROM results WHERE job_id = {OK}))"
        ],
    ),
    "points of a late result": (
        6,
        [
            "INSERT INTO points (series_id, revision_at, revision, measured_at, result_id, value, "
            'low, high, "interval", replicates, environment, worker) '
            "SELECT series_id, revision_at, revision, measured_at, "
            f"(SELECT id FROM results WHERE job_id = {LATE} AND NOT counted), value, low, high, "
            '"interval", replicates, environment, worker FROM points LIMIT 1'
        ],
    ),
    "points of nothing": (
        6,
        [
            "UPDATE points SET result_id = 'none' "
            "WHERE result_id = (SELECT max(result_id) FROM points)"
        ],
    ),
    "points of a comparison": (
        6,
        [
            "UPDATE jobs SET spec = REPLACE(CAST(spec AS TEXT), '\"history\"', '\"comparison\"')"
            "::json"
        ],
    ),
    "a point that stands where it arrived": (
        7,
        ["UPDATE points SET revision_at = '2020-01-01 00:00:00.000000'"],
    ),
    "a point with another value": (7, ["UPDATE points SET value = value * 1.01"]),
    "a slot that fired twice": (
        8,
        ["UPDATE slots SET submission_id = (SELECT max(submission_id) FROM slots)"],
    ),
    "a slot that fired before its time": (
        8,
        ["UPDATE slots SET fired_at = '2020-01-01 00:00:00.000000'"],
    ),
    "a slot with somebody else's submission": (8, ["UPDATE submissions SET source = 'api'"]),
    "a state that no step explains": (
        9,
        [f"UPDATE jobs SET state = 'quarantined' WHERE id = {OK}"],
    ),
    "a step that no diagram has": (
        9,
        [
            f"UPDATE job_events SET to_state = 'expired' WHERE job_id = {OK} "
            "AND attempt IS NULL AND to_state = 'succeeded'"
        ],
    ),
    "an attempt that nobody asked for": (
        9,
        [f"DELETE FROM job_events WHERE job_id = {OK} AND attempt = 1"],
    ),
    "half of a submission": (
        9,
        [
            "INSERT INTO submissions (id, suite, revision, source, created_at) "
            "SELECT 'half', suite, revision, source, created_at FROM submissions LIMIT 1"
        ],
    ),
}


def test_every_corruption_is_caught(healthy: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guards, "_constraints", lambda _: iter(()))  # of none of these promises
    missed = {}
    for what, (number, statements) in CORRUPTIONS.items():
        with corrupted(healthy, *statements) as session:
            found = broken(check(session))
        if number not in found:
            missed[what] = found
    assert missed == {}
    assert verify(healthy).kept


def test_two_attempts_on_one_gpu_are_caught(healthy: Database) -> None:
    beside = (
        """UPDATE workers SET labels = '{"gpu_uuid": "GPU-1"}'::json""",
        "UPDATE attempts SET lease_expires_at = '2100-01-01 00:00:00.000000'",
        f"UPDATE attempts SET state = 'started' WHERE job_id = {OK}",
    )
    with corrupted(healthy, *beside) as session:
        assert "runs on GPU GPU-1 beside another attempt" in broken(check(session))[5]
    with corrupted(healthy, *beside[1:]) as session:
        assert 5 not in broken(check(session))


def test_the_shortest_history_is_the_one_that_is_shown(healthy: Database) -> None:
    with corrupted(healthy, RERUN, RERUN.replace(OK, LATE)) as session:
        worst = check(session).findings[0]
    assert worst.breaches == 2
    assert worst.shortest is not None
    assert [event.after for event in worst.shortest.history] == [
        *("queued", "granted", "leased", "started", "running", "succeeded", "succeeded"),
        "queued",
    ]


def test_the_steps_are_those_that_the_database_allows() -> None:
    assert {step for step in JOB_STEPS if step[0]} == LEGAL_JOB
    assert {after for _, after in JOB_STEPS} == set(JobState), "no state that no step leads to"
    assert set(JobState) - {before for before, _ in JOB_STEPS} == FINAL_STATES == FINAL
    assert {step for step in ATTEMPT_STEPS if step[0]} == LEGAL_ATTEMPT


Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def command(forks: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> Command:
    def run(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        folder, environment = tmp_path_factory.mktemp("command"), os.environ | settings
        words = ("cli", "verify", *arguments)
        return forks.run(*words, folder=folder, environment=environment, limit_s=120)

    return run


def test_the_command_says_what_holds_and_what_does_not(
    command: Command, healthy: Database, database_url: str
) -> None:
    told = command("--database", database_url)
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout.count("held") == 11
    assert "not applicable" in told.stdout
    with corrupted(healthy, RERUN) as session:
        session.commit()
    told = command(THROUGHLINE_DATABASE_URL=database_url)
    assert told.returncode == 1
    assert "It went on after its end." in told.stdout
    assert "job: succeeded -> queued" in told.stdout
    told = command("--database", database_url, "--format", "json")
    report = json.loads(told.stdout)
    assert not report["kept"]
    assert report["findings"][0]["outcome"] == "broken"
    assert report["findings"][0]["shortest"]["history"][-1]["after"] == "queued"


def test_a_database_that_cannot_be_read_is_another_exit_code(
    command: Command, tmp_path: Path
) -> None:
    told = command("--database", f"sqlite:///{tmp_path}/none.sqlite3")
    assert told.returncode == 3
    assert "throughline migrate" in told.stderr
    assert not list(tmp_path.iterdir())
    (tmp_path / "no.sqlite3").write_bytes(b"this is no database" * 100)
    told = command("--database", f"sqlite:///{tmp_path}/no.sqlite3")
    assert told.returncode == 3
    assert "Traceback" not in told.stderr


@pytest.fixture
def usual_collections() -> Iterator[None]:
    """Collects garbage as often as Python does by itself, which all tests together do not."""
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


@pytest.mark.both_databases(slow="postgresql")
@pytest.mark.usefixtures("usual_collections")
def test_memory_does_not_grow_with_the_database(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six times the jobs and documents, about the same peak."""
    monkeypatch.setattr("service.maintenance.verify.reading.BATCH", 10)
    peaks = []
    for count in (20, 100):
        with database.writing() as session:
            now = now_of(session)
            workers.introduce(session, Worker(name="w1"), now)
            for _ in range(count):
                held(session, now).complete(now, log_tail="x" * 30_000)
        assert verify(database).kept
        tracemalloc.start()
        verify(database)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0], peaks
