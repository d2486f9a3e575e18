"""A schedule explores: cases near the best, within a budget, until a faster one is known."""

from __future__ import annotations

import math
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from builders.service_hand import Hand, result_of
from fastapi.testclient import TestClient
from sqlalchemy import select

from benchmarks.contracts import Case, Lease, Status
from service.database.session import Database
from service.history.best import best_cases
from service.jobs import explore, schedules
from service.jobs.requests import SubmissionRequest
from service.models import Job, Submission

START = datetime.now(UTC).replace(hour=3, minute=0, second=0, microsecond=0) - timedelta(days=12)
FAST = {"optimizer": "fused", "precision": "bf16", "workers": "4"}
EFFECTS = {"bf16": 0.4, "fused": 0.1, "channels_last": 0.05, "cache": 0.2, "default": -0.3}
NIGHT_S = 600.0


def rate(case: Case) -> float:
    return 100.0 * math.exp(sum(EFFECTS.get(value, -0.05) for value in case.axes.values()))


def scheduled(client: TestClient, **more: object) -> Database:
    client.delete("/api/v1/schedules/nightly")
    body = {"cron": "0 2 * * *", "suite": "smoke", "explore_s": NIGHT_S, **more}
    answer = client.put("/api/v1/schedules/nights", json=body)
    assert answer.is_success, answer.text
    database: Database = client.app.state.database  # type: ignore[attr-defined]
    return database


def night(database: Database, hand: Hand, number: int) -> list[Lease]:
    """One slot, all of whose jobs are measured; those that were explored."""
    now = START + timedelta(days=number)
    with database.writing() as session:
        row = session.get_one(schedules.models.Schedule, "nights")
        row.next_due_at = now
        session.flush()
        schedules.fire_due(session, now)
    explored = []
    while (lease := hand.claim()) is not None:
        hand.start(lease)
        seen = rate(lease.spec.case)
        if lease.spec.case.workload != "resnet50":
            seen = 50.0
        values = (seen * 0.999, seen, seen * 1.001)
        status = Status.PARITY_FAIL if "off" in lease.spec.case.axes.values() else Status.OK
        assert hand.post(lease, result_of(lease, values, status=status, measured_at=now)).is_success
        if lease.spec.suite is None:
            explored.append(lease)
    return explored


def test_cases_near_the_best_are_explored_until_the_planted_one_is_the_best(
    client: TestClient, hand: Hand
) -> None:
    database = scheduled(client)
    assert night(database, hand, 0) == []  # nothing was measured before
    tried: list[str] = []
    for number in range(1, 8):
        explored = night(database, hand, number)
        tried += [lease.spec.case.key for lease in explored]
        seconds = sum(
            explore.expected_s(lease.spec.case, lease.spec.protocol) for lease in explored
        )
        assert seconds <= NIGHT_S
        assert all(lease.spec.protocol.parity for lease in explored)
        assert all(lease.spec.requires["device"] == "cpu" for lease in explored)
    with database.reading() as session:
        (best,) = best_cases(session, START + timedelta(days=8), "resnet50")
        sources = set(session.scalars(select(Submission.source)))
    assert best.best.case.axes.items() >= {
        "precision": "bf16", "optimizer": "fused", "layout": "channels_last", "decode": "cache"
    }.items()  # fmt: skip
    assert sources == {"schedule:nights", "explore:nights"}
    smoke = "resnet50:tiny layout=channels_last precision=bf16 workers=4"
    assert smoke not in tried  # the suite measures it


@pytest.mark.both_databases
def test_a_schedule_explores_only_if_it_is_told_to(client: TestClient, hand: Hand) -> None:
    database = scheduled(client, explore_s=0.0)
    assert night(database, hand, 0) == night(database, hand, 1) == []


def request(**more: object) -> SubmissionRequest:
    return SubmissionRequest.model_validate({"suite": "smoke", "revision": "r", **more}).model_copy(
        update={"suite": None}
    )


@pytest.mark.parametrize(
    ("more", "explores"),
    [
        ({}, True),
        ({"requires": {"device": "cuda"}}, False),
        ({"requires": {"gpu": "NVIDIA H100"}}, True),
        ({"project": "other"}, False),
    ],
)
def test_only_hardware_and_projects_of_the_schedule_are_explored(
    client: TestClient, hand: Hand, more: dict[str, object], explores: bool
) -> None:
    database = scheduled(client, explore_s=0.0)
    night(database, hand, 0)
    with database.writing() as session:
        count = explore.explore(session, request(**more), 600.0, START + timedelta(hours=1))
    assert (count > 0) is explores


@pytest.mark.both_databases
def test_what_failed_lately_is_not_tried_again(client: TestClient, hand: Hand) -> None:
    database = scheduled(client, explore_s=0.0)
    night(database, hand, 0)
    now = START + timedelta(hours=1)
    with database.writing() as session:
        explore.explore(session, request(), 3_000.0, now)
    keys = []
    while (lease := hand.claim()) is not None:
        hand.start(lease)
        keys.append(lease.spec.case.key)
        failed = result_of(lease, status=Status.PARITY_FAIL, measured_at=now)
        assert hand.post(lease, failed).is_success
    assert keys
    with database.writing() as session:
        explore.explore(session, request(), 3_000.0, now)
        open_jobs = session.scalars(select(Job.case_key).where(Job.state == "queued")).all()
    assert open_jobs
    assert not set(open_jobs) & set(keys)


def test_a_schedule_that_is_fired_by_hand_explores_too(client: TestClient, hand: Hand) -> None:
    database = scheduled(client)
    night(database, hand, 1)  # explores what it can from what is known
    before = sources_of(client)
    with database.writing() as session:
        schedules.fire(session, "nights", START + timedelta(days=1, hours=1))
    assert sources_of(client)["explore:nights"] > before["explore:nights"]


def sources_of(client: TestClient) -> Counter[str]:
    jobs = client.get("/api/v1/submissions", params={"limit": 100}).json()["items"]
    return Counter(one["source"] for one in jobs)
