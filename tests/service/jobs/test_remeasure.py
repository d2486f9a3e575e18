"""A night that finds no new commit measures again what is least certain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from builders import kept_states
from builders.service_hand import Hand, result_of
from fastapi.testclient import TestClient
from sqlalchemy import select, text, update

from benchmarks.catalog import suites
from service.database.session import Database, now_of
from service.findings import pipeline
from service.jobs import backfill, schedules
from service.models import Job, Schedule, Submission

API = "/api/v1"
SMOKE = suites.suite("smoke")
LOUD = "nanogpt:auto workers=4"


def commit_of(number: int) -> str:
    return f"{number:040x}"


@dataclass
class Team:
    """Workers that build every commit, and a schedule that follows the newest."""

    client: TestClient
    workers: tuple[str, ...] = ("w1", "w2", "w3")
    newest: int = 0

    @property
    def database(self) -> Database:
        found: Database = self.client.app.state.database  # type: ignore[attr-defined]
        return found

    def introduce(self) -> None:
        """Introduce all workers, each with the newest commit."""
        at = f"2026-11-{self.newest + 1:02d}T01:00:00Z"
        commit = commit_of(self.newest)
        head = {"target": "ours", "ref": "refs/heads/main", "commit": commit, "at": at}
        for name in self.workers:
            body: dict[str, Any] = {
                "name": name,
                "labels": {"device": "cpu"},
                "targets": {"ours": ""},
            }
            body |= {"revisions": [commit], "heads": [head]}
            assert self.client.put(f"{API}/workers/{name}", json=body).status_code == 200

    def slot(self) -> list[schedules.Fired]:
        """Fire the schedule's slot; the next one is far."""
        self.introduce()
        with self.database.writing() as session:
            now = now_of(session)
            session.execute(update(Schedule).values(next_due_at=now - timedelta(minutes=1)))
        with self.database.writing() as session:
            fired = schedules.fire_due(session, now_of(session))
            far = now_of(session) + timedelta(days=1)
            session.execute(update(Schedule).values(next_due_at=far))
        return fired

    def measure(self, values: Callable[[Any], float] = lambda _: 100.0, **more: Any) -> list[str]:
        """Let each worker measure what waits for it; give the cases with their workers."""
        done = []
        for name in self.workers:
            hand = Hand(self.client, name)
            while lease := hand.claim():
                hand.start(lease)
                result = result_of(lease, (values(lease.spec),), **more)
                assert hand.post(lease, result).status_code == 201
                done.append(f"{lease.spec.case.key} on {name}")
        pipeline.look(self.database, daily=0)
        return done

    def night(self, values: Callable[[Any], float] = lambda _: 100.0, **more: Any) -> None:
        """Measure a new commit."""
        self.newest += 1
        assert self.slot()[0].submission_id
        self.measure(values, **more)

    def fill(self, daily: int = 100, later: timedelta = timedelta()) -> str | None:
        with self.database.writing() as session:
            return backfill.fill(session, daily, now_of(session) + later)

    def asked(self) -> list[Job]:
        """The jobs that wait because nothing else is known to do."""
        with self.database.reading() as session:
            source = Submission.source == "backfill:uncertain:nightly"
            query = select(Job).join(Submission).where(source, Job.state == "queued")
            return list(session.scalars(query.order_by(Job.id)))


@pytest.fixture
def team(client: TestClient) -> Team:
    """Some nights with one commit each, then a slot that finds no new one."""
    made = Team(client)
    with made.database.writing() as session:
        session.execute(text("DELETE FROM schedules"))
    nightly = {"cron": "0 2 1 1 *", "suite": "smoke", "revision_rule": "ref:ours:main"}
    assert client.put(f"{API}/schedules/nightly", json=nightly).status_code == 200
    return made


def noisy(spec: Any) -> float:
    """Every case varies by 1 % from night to night, and the loud one by 20 %."""
    step = int(spec.revision, 16) // 3 % 2
    return 100.0 + step * (20.0 if spec.case.key == LOUD else 1.0)


def live(team: Team) -> None:
    """Measure some nights, each on one worker, then find no new commit."""

    def made() -> int:
        measure_nights(team, "12312121212")
        return team.newest

    team.newest = kept_states.bring(team.database, "nights to be measured again", made)


def measure_nights(team: Team, nights: str) -> None:
    """Measure nights, each on the worker with this number, then find no new commit."""
    everybody = team.workers
    for number in nights:
        team.workers = (f"w{number}",)
        at = datetime(2026, 11, team.newest + 1, 2, tzinfo=UTC)
        team.night(noisy, measured_at=at)
    team.workers = everybody
    assert [fired.submission_id for fired in team.slot()] == [None]


@pytest.mark.both_databases(slow="postgresql")
def test_the_widest_is_measured_again_where_it_was_measured_least(team: Team) -> None:
    live(team)
    assert team.fill()
    jobs = team.asked()
    where = {job.case_key: job.spec["requires"]["worker"] for job in jobs}
    assert where[LOUD] == "w3"
    assert sorted(where.values()) == ["w1", "w2", "w3"]
    assert {job.revision for job in jobs} == {commit_of(team.newest)}
    assert {job.rank for job in jobs} == {100}
    [shown] = team.client.get(f"{API}/schedules").json()["items"]
    assert "No new commit: remeasured what is least certain" in shown["note"]
    assert team.fill() is None, "nobody idles"


def test_it_goes_on_until_each_worker_measured_each_case_once_a_night(team: Team) -> None:
    live(team)
    made: list[str] = []
    while team.fill():
        made += team.measure(noisy)
    assert len(made) == len(set(made))
    assert len(made) == len(SMOKE.cases) * len(team.workers)


@pytest.mark.parametrize("daily", [0, 1, 2, 5])
def test_never_more_than_a_day_allows(team: Team, daily: int) -> None:
    live(team)
    made: list[str] = []
    while team.fill(daily):
        made += team.measure(noisy)
    assert len(made) == daily


def disturb(team: Team, why: str) -> None:
    if why == "its newest commit is not measured yet":
        team.newest += 1
        team.introduce()
    elif why == "its newest slot submitted a commit":
        team.night(noisy)
    elif why == "it is told to measure in every slot":
        with team.database.writing() as session:
            session.execute(update(Schedule).values(again=True))
    elif why == "it follows no ref":
        with team.database.writing() as session:
            session.execute(update(Schedule).values(revision_rule="date"))
    elif why == "a slot is near":
        with team.database.writing() as session:
            session.execute(update(Schedule).values(next_due_at=now_of(session)))
    else:
        with team.database.writing() as session:
            session.execute(update(Schedule).values(suite="nightly"))


@pytest.mark.parametrize(
    "why",
    [
        "its newest commit is not measured yet",
        "its newest slot submitted a commit",
        "it is told to measure in every slot",
        "it follows no ref",
        "a slot is near",
        "its suite is another one now",
    ],
)
def test_nothing_is_measured_again(team: Team, why: str) -> None:
    live(team)
    disturb(team, why)
    assert team.fill() is None


def test_a_worker_of_other_hardware_or_without_the_commit_measures_nothing(team: Team) -> None:
    live(team)
    team.workers = ("w1", "w2", "w3", "w4")
    team.introduce()
    body = {"name": "w1", "labels": {"device": "cpu"}, "targets": {"ours": ""}, "revisions": []}
    assert team.client.put(f"{API}/workers/w1", json=body).status_code == 200
    assert team.fill()
    assert {job.spec["requires"]["worker"] for job in team.asked()} == {"w2", "w3"}


def test_what_makes_way_for_a_slot_is_cancelled(team: Team) -> None:
    live(team)
    assert team.fill()
    with team.database.writing() as session:
        soon = now_of(session) + timedelta(minutes=29)
        session.execute(update(Schedule).values(next_due_at=soon))
    assert team.fill() is None
    assert team.asked() == []


def test_a_case_that_left_the_catalog_stands_in_no_others_way(team: Team) -> None:
    live(team)
    with team.database.writing() as session:
        for job in session.scalars(select(Job).where(Job.case_key == LOUD)):
            job.spec = job.spec | {"case": job.spec["case"] | {"workload": "gone"}}
    assert team.fill()
    assert len({job.case_key for job in team.asked()} - {LOUD}) == len(team.workers)
