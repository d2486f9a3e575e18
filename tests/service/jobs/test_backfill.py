"""An idle worker measures the commits between two measured ones where a level changed."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from builders import kept_states
from builders.gate_hand import answered
from builders.service_hand import Hand, result_of
from fastapi.testclient import TestClient
from sqlalchemy import func, select, text, update

from benchmarks.contracts import JobState, Status
from service.comparisons import bisection
from service.database.session import Database, now_of
from service.findings import pipeline
from service.jobs import backfill, remeasure
from service.models import ChangeRow, FindingRow, Job, Point, Schedule, Submission

API = "/api/v1"
STEP, NIGHTS, CULPRIT = 10, 24, 156
"""Commits between two nights; the commit that makes it 5 % slower lies within the 16th."""
START = datetime(2026, 1, 1, tzinfo=UTC)
COMMITS = range(STEP * NIGHTS)


def commit_of(number: int) -> str:
    return f"{number:040x}"


def placed_at(number: int) -> datetime:
    return START + timedelta(hours=number)


def speed(number: int) -> float:
    noise = (0.0, 0.001, -0.001, 0.0005, -0.0005)[number % 5]
    return (95.0 if number >= CULPRIT else 100.0) * (1 + noise)


@dataclass
class Fleet:
    """A worker that builds every commit, and lists those between two."""

    client: TestClient
    unbuildable: Collection[int] = ()
    odd: dict[int, float] = field(default_factory=dict)
    """What the first measurement of a commit gives, where it is an odd one."""
    confirmed: bool = True
    """Whether a change was confirmed as one of the code."""
    measured: list[int] = field(default_factory=list)

    @property
    def database(self) -> Database:
        found: Database = self.client.app.state.database  # type: ignore[attr-defined]
        return found

    def introduce(self, **more: Any) -> Any:
        known = [commit_of(number) for number in COMMITS]
        body = {"name": "w1", "labels": {"device": "cpu"}, "targets": {"ours": ""}}
        answer = self.client.put(f"{API}/workers/w1", json={**body, "revisions": known, **more})
        assert answer.status_code == 200, answer.text
        return answer.json()["list_range"]

    def list_ranges(self) -> None:
        """List whatever range is asked for."""
        asked = self.introduce()
        while asked:
            good, bad = int(asked["good"], 16), int(asked["bad"], 16)
            commits = [
                {"commit": commit_of(number), "at": placed_at(number).isoformat(), "title": "x"}
                for number in range(good + 1, bad + 1)
            ]
            asked = self.introduce(listed={**asked, "commits": commits})

    def night(self, number: int, replicates: int = 1) -> None:
        """Submit a commit as the schedule does."""
        at, case = placed_at(number).isoformat(), {"workload": "unet", "preset": "tiny"}
        body = {"case": case, "revision": commit_of(number), "revision_at": at}
        body |= {"source": "schedule:nightly", "requires": {"device": "cpu"}}
        body |= {"replicates": replicates}
        answer = self.client.post(f"{API}/submissions", json=body)
        assert answer.status_code == 201, answer.text

    def measure(self) -> None:
        """Measure all that waits, then analyse it."""
        hand = Hand(self.client)
        while lease := hand.claim():
            number = int(lease.spec.revision, 16)
            self.measured.append(number)
            hand.start(lease)
            if number in self.unbuildable:
                done = result_of(lease, status=Status.UNBUILDABLE, reason="it has no uv.lock.")
            else:
                done = result_of(lease, (self.odd.pop(number, speed(number)),))
            assert hand.post(lease, done).status_code == 201
        pipeline.look(self.database, daily=0)
        if self.confirmed:
            with self.database.writing() as session:
                session.execute(update(FindingRow).values(cause="code", certainty="confirmed"))

    def measure_pair(self) -> None:
        """Measure the next pair of a bisection."""
        hand = Hand(self.client)
        lease = hand.must_claim()
        hand.start(lease)
        done = answered(lease, lambda one: result_of(one, (speed(int(one.spec.revision, 16)),)))
        assert hand.post(lease, done).status_code == 201

    def fill(self, daily: int = 100, later: timedelta = timedelta()) -> str | None:
        with self.database.writing() as session:
            return backfill.fill(session, daily, now_of(session) + later)

    def fill_all(self) -> list[int]:
        """Fill, list and measure until nothing is left; give the commits in their order."""
        before = len(self.measured)
        for _ in range(20):
            made = self.fill()
            self.list_ranges()
            if not (made or self.fill()):
                break
            self.measure()
        return self.measured[before:]

    def ends(self) -> tuple[int, int]:
        """The commits between which the level changed."""
        with self.database.reading() as session:
            row = session.scalars(select(ChangeRow).where(ChangeRow.present)).one()
            return int(row.last_good, 16), int(row.first_bad, 16)


@pytest.fixture
def fleet(client: TestClient) -> Fleet:
    """A history of nights with one change."""
    return lived_in(client)


def lived_in(client: TestClient, replicates: int = 1) -> Fleet:
    """A fleet with that history, in so many processes a night."""
    made = Fleet(client)

    def nights() -> list[int]:
        live(made, replicates)
        return made.measured

    kept = kept_states.bring(made.database, f"nights to fill up, {replicates}", nights)
    made.measured = [*kept]
    return made


def live(made: Fleet, replicates: int) -> None:
    made.introduce()
    with made.database.writing() as session:
        session.execute(text("DELETE FROM schedules"))
    nightly = {"cron": "0 2 1 1 *", "suite": "smoke", "revision_rule": "ref:ours:main"}
    assert made.client.put(f"{API}/schedules/nightly", json=nightly).status_code == 200
    slot(made, timedelta(days=30))
    for number in range(NIGHTS):
        made.night(number * STEP, replicates)
    made.measure()
    assert made.ends() == (150, 160)


def slot(fleet: Fleet, ahead: timedelta) -> None:
    with fleet.database.writing() as session:
        session.execute(update(Schedule).values(next_due_at=now_of(session) + ahead))


@pytest.mark.both_databases(slow="postgresql")
def test_the_range_is_halved_until_it_is_one_commit(fleet: Fleet) -> None:
    filled = fleet.fill_all()
    assert fleet.ends() == (155, 156)
    assert filled == [155, 157, 156, 156, 155], "both ends twice"
    assert fleet.fill() is None
    [finding] = fleet.client.get(f"{API}/findings").json()["items"]
    ends = {"last_good": commit_of(155), "first_bad": commit_of(156)}
    assert fleet.client.get(f"{API}/findings/{finding['id']}").json()["narrowed"] == ends
    said = "By what was measured since, it changed between"
    assert said in fleet.client.get(f"/findings/{finding['id']}").text
    with fleet.database.reading() as session:
        query = select(Point.revision).order_by(Point.revision_at)
        order = [int(name, 16) for name in dict.fromkeys(session.scalars(query))]
        sources = set(session.scalars(select(Submission.source)))
    assert all(one < other for one, other in pairwise(order)), "first-parent order"
    assert sources == {"schedule:nightly", "backfill:nightly"}


@pytest.mark.parametrize("odd", [{155: 95.0}, {157: 100.0}, {154: 94.0, 156: 101.0}])
def test_one_odd_measurement_narrows_no_finding_wrongly(
    fleet: Fleet, odd: dict[int, float]
) -> None:
    fleet.odd = dict(odd)
    [finding] = fleet.client.get(f"{API}/findings").json()["items"]
    ends = {"last_good": commit_of(155), "first_bad": commit_of(156)}
    said = []
    for _ in range(40):
        made = fleet.fill()
        fleet.list_ranges()
        if not (made or fleet.fill()):
            break
        fleet.measure()
        said.append(fleet.client.get(f"{API}/findings/{finding['id']}").json()["narrowed"])
    assert said[-1] == ends
    for one in filter(None, said):  # what was said on the way holds the culprit too
        assert int(one["last_good"], 16) < CULPRIT <= int(one["first_bad"], 16)


def test_what_cannot_be_built_is_stepped_around_until_nothing_is_left(fleet: Fleet) -> None:
    fleet.unbuildable = range(152, 158)
    filled = fleet.fill_all()
    assert fleet.ends() == (151, 158)
    between = [number for number in filled if number not in fleet.ends()]
    assert len(between) == len(set(between)), "each once"
    assert [filled.count(end) for end in fleet.ends()] == [2, 2], "and the ends twice"
    assert set(filled) >= set(range(152, 158))
    assert fleet.fill() is None


def test_a_commit_that_fails_in_the_first_of_its_processes_is_not_tried_again(
    client: TestClient,
) -> None:
    fleet = lived_in(client, replicates=2)
    fleet.unbuildable = [155]
    assert fleet.fill_all().count(155) == 1
    assert fleet.ends() in ((154, 156), (154, 157))


def test_what_a_person_cancelled_is_not_submitted_again(fleet: Fleet) -> None:
    fleet.fill()
    fleet.list_ranges()
    assert fleet.fill()
    with fleet.database.reading() as session:
        job = session.scalars(select(Job.id).where(Job.state == JobState.QUEUED)).one()
    assert fleet.client.post(f"{API}/jobs/{job}/cancel").status_code == 200
    assert fleet.fill()
    assert Hand(fleet.client).must_claim().spec.revision != commit_of(155)


def test_a_commit_that_was_only_compared_has_no_point_and_is_measured(fleet: Fleet) -> None:
    fleet.fill()
    fleet.list_ranges()
    ends = {"baseline": commit_of(154), "contender": commit_of(155)}
    what = {"case": {"workload": "unet", "preset": "tiny"}, "worker": "w1"}
    begun = fleet.client.post(f"{API}/comparisons", json={**ends, **what})
    assert begun.status_code == 201, begun.text
    fleet.measure_pair()
    assert fleet.client.post(f"{API}/comparisons/{begun.json()['id']}/cancel").status_code == 200
    pipeline.look(fleet.database, daily=0)
    assert fleet.fill()
    assert Hand(fleet.client).must_claim().spec.revision == commit_of(155)


def test_it_waits_behind_everything_and_asks_the_worker_that_measured(fleet: Fleet) -> None:
    assert fleet.fill() is None, "the commits between are not known yet"
    fleet.list_ranges()
    assert fleet.fill()
    with fleet.database.reading() as session:
        job = session.scalars(select(Job).where(Job.state == JobState.QUEUED)).one()
    assert (job.rank, job.revision) == (100, commit_of(155))
    assert job.spec["requires"] == {"device": "cpu", "worker": "w1"}
    assert fleet.fill() is None, "one after the other"


def not_idle(fleet: Fleet, why: str) -> None:
    if why == "something waits":
        fleet.night(0)
    elif why == "it measures":
        fleet.night(0)
        assert Hand(fleet.client).claim()
    elif why == "it is between two pairs of a bisection":
        ends = [{"revision": commit_of(number)} for number in range(150, 161)]
        what = {"case": {"workload": "unet", "preset": "tiny"}, "commits": ends, "worker": "w1"}
        assert fleet.client.post(f"{API}/bisections", json=what).status_code == 201
        list(bisection.advance_after(fleet.database))
        fleet.measure_pair()
        assert Hand(fleet.client).claim() is None
    elif why == "it is away":
        fleet.introduce()
        assert fleet.fill(later=timedelta(minutes=2)) is None
        with fleet.database.writing() as session:
            session.execute(text("UPDATE workers SET last_seen_at = '2026-01-01 00:00:00+00:00'"))
    elif why == "it does not build the commit":
        fleet.introduce(revisions=[commit_of(150), commit_of(160)])
    elif why == "a slot is near":
        slot(fleet, timedelta(minutes=29))
    else:
        assert fleet.client.delete(f"{API}/schedules/nightly").status_code == 204


@pytest.mark.parametrize(
    "why",
    [
        "something waits",
        "it measures",
        "it is between two pairs of a bisection",
        "it is away",
        "it does not build the commit",
        "a slot is near",
        "the schedule is gone",
    ],
)
def test_nothing_is_begun(fleet: Fleet, why: str) -> None:
    fleet.fill()
    fleet.list_ranges()
    not_idle(fleet, why)
    assert fleet.fill() is None


@pytest.mark.both_databases
def test_what_waits_makes_way_for_a_slot_and_comes_later(fleet: Fleet) -> None:
    fleet.fill()
    fleet.list_ranges()
    assert fleet.fill()
    slot(fleet, timedelta(minutes=29))
    assert fleet.fill() is None
    assert Hand(fleet.client).claim() is None
    slot(fleet, timedelta(days=1))
    assert fleet.fill(daily=1), "what was cancelled took no time"
    assert Hand(fleet.client).must_claim().spec.revision == commit_of(155)


def test_a_range_that_cannot_be_listed_is_left_alone(fleet: Fleet) -> None:
    fleet.fill()
    asked = fleet.introduce()
    assert fleet.introduce(listed={**asked, "reason": "It is no ancestor."}) is None
    assert fleet.fill() is None
    assert fleet.introduce() is None, "it is not asked for again"


def test_a_days_jobs_are_counted_over_restarts(fleet: Fleet) -> None:
    fleet.fill()
    fleet.list_ranges()
    assert fleet.fill(daily=1)
    fleet.measure()
    fleet.fill(daily=2)
    fleet.list_ranges()
    assert fleet.fill(daily=1) is None
    fleet.introduce()
    with fleet.database.reading() as session:
        jobs = session.scalar(select(func.count()).select_from(Job))
    assert jobs == NIGHTS + 1
    assert fleet.fill(daily=2)


def test_nothing_is_filled_until_results_are_analysed(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.fill()
    fleet.list_ranges()
    assert fleet.fill()
    look: Callable[..., object] = pipeline.look
    monkeypatch.setattr(pipeline, "look", lambda *_, **__: None)
    fleet.measure()
    assert fleet.fill() is None
    look(fleet.database, daily=0)
    fleet.fill()
    fleet.list_ranges()
    assert fleet.fill()


@pytest.mark.both_databases
def test_a_change_that_nobody_confirmed_may_be_the_machine_s_and_is_not_narrowed(
    fleet: Fleet,
) -> None:
    with fleet.database.writing() as session:
        session.execute(update(FindingRow).values(certainty="standing"))
    assert fleet.fill() is None
    with fleet.database.writing() as session:
        session.execute(update(FindingRow).values(certainty="confirmed", cause="environment"))
    assert (fleet.fill(), fleet.fill_all()) == (None, [])


def test_nothing_is_measured_again_before_every_gap_is_filled(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(remeasure, "without_new_commit", lambda session: ["nightly"])
    monkeypatch.setattr(remeasure, "chosen", lambda _, schedules, *__: asked.extend(schedules))
    monkeypatch.setattr(backfill, "_submit_again", lambda *_: None)
    assert fleet.fill() is None, "the range is not listed yet"
    fleet.list_ranges()
    assert fleet.fill()
    assert asked == []
    fleet.measure()
    fleet.fill_all()
    assert asked


def test_nobody_else_spends_what_a_day_allows(client: TestClient) -> None:
    case = {"workload": "unet", "preset": "tiny"}
    body = {"case": case, "revision": "x", "source": "backfill:nightly"}
    answer = client.post(f"{API}/submissions", json=body)
    assert answer.status_code == 422
    assert "The source backfill:nightly stands for what nobody asked for" in answer.text
    ends = [{"revision": "a"}, {"revision": "b"}]
    asked = {"case": case, "commits": ends, "source": "automatic"}
    answer = client.post(f"{API}/bisections", json=asked)
    assert answer.status_code == 422
    assert "The source automatic stands" in answer.text
