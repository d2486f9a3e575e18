"""A claim costs the same however many label sets wait, and gives the job that it always gave."""

import secrets
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from random import Random
from typing import Any, TypeVar

import pytest
from builders.long_forms import long_but
from builders.service_hand import result_of
from sqlalchemy import event, select
from sqlalchemy.orm import Session

from benchmarks.contracts import Case, Claim, JobSpec, JobState, Lease, Worker
from service.database.failures import passes
from service.database.session import Database, now_of
from service.jobs import attempts, candidates, eligibility, expiry, leases, workers
from service.jobs.requests import SubmissionRequest
from service.jobs.submit import submit
from service.jobs.types import Holder, Terms
from service.models import Attempt, Eligibility, Job, LabelSet, WorkerRow
from trials.load import queued

pytestmark = pytest.mark.both_databases

T = TypeVar("T")
TERMS = Terms(timedelta(seconds=60), timedelta(seconds=10), max_lost_attempts=100)
CASE = Case(workload="unet", preset="tiny")
LETTERS = {f"label{number}": "x" for number in range(10)}
MANY = range(40, 700)
START = datetime(2026, 11, 20, 10, tzinfo=UTC)


def met(number: int) -> dict[str, str]:
    """One of 1,024 label sets, all of which a worker with all `LETTERS` meets."""
    return {name: "x" for place, name in enumerate(LETTERS) if number >> place & 1}


def unmet(number: int) -> dict[str, str]:
    return {"elsewhere": str(number)} if number else {}


def lease(session: Session, worker: str = "w", now: datetime | None = None) -> Lease | None:
    claim = Claim(worker=worker, claim_id=secrets.token_hex(16))
    return leases.lease(session, claim, TERMS, now or now_of(session))


def put(session: Session, requires: Mapping[str, str], priority: int = 0) -> str:
    """Submit one job; give its id."""
    asked = SubmissionRequest(case=CASE, revision="r", requires=dict(requires), priority=priority)
    made = submit(session, asked, now_of(session)).submission_id
    return session.scalars(select(Job.id).where(Job.submission_id == made)).one()


@dataclass
class Cost:
    """What was asked of the database."""

    statements: int = 0
    steps: int = 0
    """Thousands of instructions of SQLite's virtual machine; none on PostgreSQL."""


@contextmanager
def counting(database: Database) -> Iterator[Cost]:
    cost = Cost()

    def one(*_: object) -> None:
        cost.statements += 1

    def step() -> None:
        cost.steps += 1

    with database.engine.connect() as connection:
        raw = connection.connection.driver_connection
    if isinstance(raw, sqlite3.Connection):
        raw.set_progress_handler(step, 10)
    event.listen(database.engine, "before_cursor_execute", one)
    try:
        yield cost
    finally:
        event.remove(database.engine, "before_cursor_execute", one)
        if isinstance(raw, sqlite3.Connection):
            raw.set_progress_handler(None, 10)


def claim_and_return(database: Database) -> None:
    with database.writing() as session:
        given = lease(session)
    assert given is not None
    with database.writing() as session:
        holder = Holder(given.job_id, given.attempt, given.secret)
        attempts.release(session, holder, "", now_of(session))


def cost_of_a_claim(database: Database, sets: Callable[[int], dict[str, str]], count: int) -> Cost:
    with database.writing() as session:
        workers.introduce(session, Worker(name="w", labels=LETTERS), now_of(session))
        specs = [JobSpec(case=CASE, revision="r", requires=sets(n)) for n in range(count)]
        queued.submit(session, specs)
    for _ in range(3):
        claim_and_return(database)
    with counting(database) as cost:
        for _ in range(5):
            claim_and_return(database)
    return cost


@pytest.mark.parametrize("sets", [met, unmet])
def test_a_claim_costs_the_same_however_many_label_sets_wait(
    database: Database, sets: Callable[[int], dict[str, str]]
) -> None:
    few = cost_of_a_claim(database, sets, 40)
    with database.writing() as session:
        further = (JobSpec(case=CASE, revision="r", requires=sets(n), priority=-1) for n in MANY)
        leases.submit(session, list(further), "s", now_of(session), MANY.start)
    with counting(database) as many:
        for _ in range(5):
            claim_and_return(database)
    assert many.statements <= few.statements
    assert many.steps <= 1.5 * few.steps


def test_sets_that_were_emptied_are_passed_once_and_together(database: Database) -> None:
    with database.writing() as session:
        workers.introduce(session, Worker(name="w", labels=LETTERS), now_of(session))
        jobs = [put(session, met(number)) for number in range(1, 300)]
        last = put(session, {}, priority=-5)
    with database.writing() as session:
        for job in jobs:
            expiry.cancel(session, job, now_of(session))
    with counting(database) as first, database.writing() as session:
        given = lease(session)
    assert given is not None
    assert given.job_id == last
    assert first.statements < 40  # three for each page, and what any claim takes
    with database.reading() as session:
        awake = select(Eligibility).where(Eligibility.rank.is_not(None))
        assert len(session.scalars(awake).all()) <= eligibility.FEW


def test_a_claim_for_a_gpu_looks_at_no_other_worker(database: Database) -> None:
    """Every claim asks who shares its GPU, and there may be thousands of workers."""

    def introduce(first: int, last: int) -> None:
        with database.writing() as session:
            for number in range(first, last):
                labels = {"gpu_uuid": f"GPU-{number}"}
                workers.introduce(session, Worker(name=f"w{number}", labels=labels), START)

    def cost() -> int:
        with counting(database) as counted, database.writing() as session:
            for _ in range(5):
                assert lease(session, "w0") is None
        return counted.steps

    introduce(0, 5)
    cost()
    few = cost()
    introduce(5, 500)
    assert cost() <= 1.5 * few


def expected(session: Session, worker: str, now: datetime) -> list[str]:
    """The jobs that a claim may be given, found by looking at everything; empty for none.

    Sets go by their first open job. A job that this worker let go waits one lease for another. One
    that is drained gets none, and nothing waits for it.
    """
    own_row = session.get_one(WorkerRow, worker)
    if own_row.drained_at is not None:
        return []
    has = own_row.labels
    long_ago = now - TERMS.lease
    others = [
        row.labels
        for row in session.scalars(select(WorkerRow).where(WorkerRow.last_seen_at > long_ago))
        if row.name != worker and row.drained_at is None
    ]
    let_go = set(
        session.execute(
            select(Attempt.job_id)
            .where(Attempt.worker == worker)
            .where(Attempt.state.in_(("lost", "rejected")))
        ).scalars()
    )
    open_jobs = [
        job
        for job in session.scalars(select(Job).where(Job.state == JobState.QUEUED))
        if job.kept_for in (None, worker)
    ]
    open_jobs.sort(key=lambda job: (job.rank, job.id))
    sets = {row.digest: row.labels for row in session.scalars(select(LabelSet))}
    for requires in dict.fromkeys(job.requires for job in open_jobs):
        if not sets[requires].items() <= has.items():
            continue
        own = [job for job in open_jobs if job.requires == requires]
        welcome = [job for job in own if job.id not in let_go or job.queued_at <= long_ago]
        if not welcome and not any(sets[requires].items() <= labels.items() for labels in others):
            welcome = own
        if welcome:
            return [welcome[0].id]
    return []


class Everybody:
    """Workers and clients that do anything at any time."""

    def __init__(self, session: Session, random: Random) -> None:
        self.session, self.random, self.now = session, random, START
        self.held: list[Lease] = []
        self.workers = {f"w{number}": self._labels() for number in range(3)}
        for name in self.workers:
            self._introduce(name)

    def step(self) -> None:
        self.now += timedelta(seconds=self.random.choice((0, 1, 30)))
        what = (self.put, self.claim, self.end, self.change, self.drain, self.cancel, self.sweep)
        self.random.choices(what, (6, 12, 3, 1, 1, 1, 1))[0]()
        self.session.expire_all()

    def put(self) -> None:
        count = self.random.choice((1, 1, 3))
        asked = SubmissionRequest(
            cases=[Case(workload=name) for name in ("unet", "resnet50", "nanogpt")[:count]],
            revision="r",
            requires=self._labels(most=3),
            priority=self.random.choice((-1, 0, 0, 2)),
            replicates=self.random.choice((1, 2)),
        )
        submit(self.session, asked, self.now)

    def claim(self) -> None:
        worker = self.random.choice(list(self.workers))
        hoped = expected(self.session, worker, self.now)
        assert candidates.has_work(self.session, worker) or not hoped
        given = lease(self.session, worker, self.now)
        assert ([given.job_id] if given else []) == hoped
        if given is not None:
            self.held.append(given)

    def end(self) -> None:
        if not self.held:
            return
        given = self.held.pop(self.random.randrange(len(self.held)))
        holder = Holder(given.job_id, given.attempt, given.secret)
        attempt = self.session.get_one(Attempt, (given.job_id, given.attempt))
        if attempt.state not in ("granted", "started"):
            return
        if self.random.random() < 0.3:
            attempts.release(self.session, holder, "", self.now)
        else:
            attempts.complete(self.session, holder, result_of(given, (1.0,)), self.now)

    def change(self) -> None:
        name = self.random.choice(list(self.workers))
        self.workers[name] = self._labels()
        self._introduce(name)

    def drain(self) -> None:
        name = self.random.choice(list(self.workers))
        if self.session.get_one(WorkerRow, name).drained_at is None:
            workers.drain(self.session, name, "", "ada", self.now)
        else:
            workers.resume(self.session, name)

    def cancel(self) -> None:
        jobs = self.session.scalars(select(Job.id).where(Job.state == JobState.QUEUED)).all()
        if jobs:
            expiry.cancel(self.session, self.random.choice(jobs), self.now)

    def sweep(self) -> None:
        self.now += timedelta(seconds=self.random.choice((20, 120, 2_000)))
        expiry.sweep(self.session, TERMS, self.now)

    def _labels(self, most: int = 5) -> dict[str, str]:
        names = self.random.sample("abcde", self.random.randint(0, most))
        return {name: self.random.choice("xxy") for name in names}

    def _introduce(self, name: str) -> None:
        workers.introduce(self.session, Worker(name=name, labels=self.workers[name]), self.now)


@pytest.mark.parametrize(("seed", "page"), long_but([(0, 1), (1, 1), (2, 2), (3, 32)], 0, 3))
def test_every_claim_gets_the_job_that_comes_of_looking_at_all(
    database: Database, seed: int, page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eligibility, "FEW", page)
    monkeypatch.setattr(eligibility, "MANY", page + 1)
    with database.writing() as session:
        everybody = Everybody(session, Random(seed))
        for _ in range(100):
            everybody.step()


def during(first: Callable[[Session], object], second: Callable[[Session], object]) -> Callable:
    """Run ``second`` in a transaction that begins while that of ``first`` is still open."""

    def run(database: Database) -> None:
        def other() -> None:
            with database.writing() as session:
                second(session)

        with database.writing() as session:
            first(session)
            thread = threading.Thread(target=other)
            thread.start()
            thread.join(0.5)
        thread.join(20)
        assert not thread.is_alive()

    return run


def once_emptied(database: Database, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A set without jobs that worker ``w`` still takes for one that has some."""
    monkeypatch.setattr(eligibility, "FEW", 1)
    wanted = {"label1": "x"}
    with database.writing() as session:
        workers.introduce(session, Worker(name="w", labels=LETTERS), now_of(session))
        expiry.cancel(session, put(session, wanted), now_of(session))
    return wanted


def test_a_job_that_is_queued_while_its_set_is_found_empty_is_not_lost(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = once_emptied(database, monkeypatch)
    during(lease, lambda s: put(s, wanted))(database)
    with database.writing() as session:
        assert lease(session) is not None


def test_a_set_that_is_found_empty_while_a_job_is_queued_loses_none(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = once_emptied(database, monkeypatch)
    during(lambda s: put(s, wanted), lease)(database)
    with database.writing() as session:
        lease(session)  # on SQLite the claim came after, and was given the job
        jobs = session.scalars(select(Job.state).where(Job.state == JobState.QUEUED)).all()
    assert jobs == []


@pytest.mark.parametrize("turned", [False, True])
def test_a_worker_and_a_set_that_are_new_at_once_find_each_other(
    database: Database, turned: bool
) -> None:
    def come(session: Session) -> None:
        workers.introduce(session, Worker(name="w", labels=LETTERS), now_of(session))

    def ask(session: Session) -> None:
        put(session, {"label3": "x"})

    during(*((ask, come) if turned else (come, ask)))(database)
    with database.writing() as session:
        assert lease(session) is not None


def again(database: Database, work: Callable[[Session], T]) -> T:
    """Do some work as a client does it, who sends once more what the database put off."""
    for _ in range(20):
        try:
            with database.writing() as session:
                return work(session)
        except Exception as error:
            if not passes(error):
                raise
    raise AssertionError("the database puts everything off")


@dataclass
class Crowd:
    """Clients and workers of one database, each in a thread of its own."""

    database: Database
    faults: list[Exception] = field(default_factory=list)

    def come(self, name: str) -> None:
        worker = Worker(name=name, labels=LETTERS)
        again(self.database, lambda s: workers.introduce(s, worker, now_of(s)))

    def ask(self, first: int) -> None:
        for number in range(first, first + 20):
            again(self.database, partial(put, requires=met(number % 7), priority=number % 3))

    def work(self, name: str) -> None:
        self.come(name)
        random = Random(name)
        for _ in range(40):
            given = again(self.database, partial(lease, worker=name))
            if given is not None:
                again(self.database, partial(self._end, given, random.random() < 0.4))

    def drain(self, name: str) -> None:
        """Take all that there is."""
        while again(self.database, partial(lease, worker=name)) is not None:
            pass

    def start(self, what: Callable[[Any], None], told: object) -> threading.Thread:
        def kept() -> None:
            try:
                what(told)
            except Exception as error:
                self.faults.append(error)

        thread = threading.Thread(target=kept)
        thread.start()
        return thread

    @staticmethod
    def _end(given: Lease, back: bool, session: Session) -> None:
        holder = Holder(given.job_id, given.attempt, given.secret)
        if back:
            attempts.release(session, holder, "", now_of(session))
        else:
            attempts.complete(session, holder, result_of(given), now_of(session))


def test_with_many_at_once_no_job_becomes_invisible(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Claims raise bounds all the time, beside submissions, jobs given back and new workers."""
    monkeypatch.setattr(eligibility, "FEW", 1)
    monkeypatch.setattr(eligibility, "MANY", 2)
    crowd, names = Crowd(database), ("w0", "w1", "w2")
    threads = [crowd.start(crowd.ask, first) for first in (0, 3)]
    threads += [crowd.start(crowd.work, name) for name in names]
    for thread in threads:
        thread.join()
    assert crowd.faults == []
    crowd.come("last")
    for name in (*names, "last"):
        crowd.drain(name)
    with database.reading() as session:
        left = select(Job.id).where(Job.state == JobState.QUEUED)
        assert session.scalars(left).all() == []
