"""A suite says beforehand how long it takes, from its protocol and from what it took before."""

from datetime import timedelta

import pytest
from builders.service_hand import Hand, result_of
from fastapi.testclient import TestClient
from sqlalchemy import select

from benchmarks import suites
from benchmarks.contracts import Case, Protocol
from benchmarks.duration import expected_s
from cli import forecast
from cli.answers import CatalogView, SubmissionView
from service import formats
from service.database import Database
from service.durations import expectation, taken_before
from service.models import Attempt

SMOKE = suites.suite("smoke")


def test_more_processes_longer_windows_and_compiling_take_longer() -> None:
    case, quick = Case(workload="unet"), suites.QUICK
    assert expected_s(case, suites.STANDARD) > 2 * expected_s(case, quick)
    compiled = Case(workload="unet", axes={"compile": "default"})
    assert expected_s(compiled, quick) > expected_s(case, quick) + 20
    three = quick.model_copy(update={"replicates": 3})
    once, thrice = expected_s(compiled, quick), expected_s(compiled, three)
    assert 2 * once < thrice < 3 * once  # a warm cache compiles faster


def test_what_the_ladder_took_on_an_h200_is_met_within_a_quarter() -> None:
    # Seconds from lease to result of its 16 measured cases, of 17: 741 s on 2026-11-20.
    cases = [case for case in suites.suite("ladder").cases if case.workload != "unet"]
    cases += [case for case in suites.suite("ladder").cases if case.workload == "unet"][:-1]
    told = sum(expected_s(case, suites.QUICK) for case in cases)
    assert told == pytest.approx(741, rel=0.25)


def test_without_history_the_protocol_tells(database: Database) -> None:
    with database.reading() as session:
        assert taken_before(session, "smoke") == {}
    found = expectation(SMOKE, {})
    assert found.cases_measured_before == 0
    assert found.expected_s == pytest.approx(
        sum(expected_s(case, SMOKE.protocol) for case in SMOKE.cases)
    )


def _submit(client: TestClient) -> SubmissionView:
    body = {"suite": "smoke", "revision": "r1"}
    return SubmissionView.model_validate(client.post("/api/v1/submissions", json=body).json())


def test_what_cases_took_before_is_what_they_are_expected_to_take(
    client: TestClient, hand: Hand, database: Database
) -> None:
    submission = _submit(client)
    for _ in range(2):
        lease = hand.must_claim()
        hand.start(lease)
        assert hand.post(lease, result_of(lease)).status_code == 201
    with database.writing() as session:
        for attempt in session.scalars(select(Attempt)):
            assert attempt.started_at is not None
            attempt.ended_at = attempt.started_at + timedelta(seconds=1000)
    told = CatalogView.model_validate(client.get("/api/v1/catalog").json())
    smoke = next(each for each in told.suites if each.name == "smoke")
    others = sum(expected_s(case, SMOKE.protocol) for case in SMOKE.cases[2:])
    assert smoke.expected_s == pytest.approx(2000 + others, rel=0.01)
    assert smoke.cases_measured_before == 2
    said = forecast.sentence(submission, told, None)
    assert said is not None
    assert "for 6 cases on one worker (2 of the suite's 6 as measured before" in said


def test_more_replicates_than_the_suite_has_are_reckoned_in(client: TestClient) -> None:
    submission = _submit(client)
    told = CatalogView.model_validate(client.get("/api/v1/catalog").json())
    once = forecast.sentence(submission, told, None)
    often = forecast.sentence(submission, told, 10)
    assert once is not None
    assert "told from the protocol, for a GPU" in once
    assert often is not None
    assert "min" in often
    assert once.split(" for ")[0] != often.split(" for ")[0]


def test_a_part_of_a_suite_takes_its_part_of_the_time(client: TestClient) -> None:
    submission = _submit(client)
    told = CatalogView.model_validate(client.get("/api/v1/catalog").json())
    smoke = next(each for each in told.suites if each.name == "smoke")
    half = submission.model_copy(update={"jobs": submission.jobs[:3]})
    part = sum(expected_s(job.case, SMOKE.protocol) for job in half.jobs)
    said = forecast.sentence(half, told, None)
    assert said is not None
    assert smoke.expected_s is not None
    assert said.startswith(f"About {formats.duration(part)} for 3 cases")


def test_a_single_case_is_told_by_its_own_protocol() -> None:
    assert expected_s(Case(workload="unet"), Protocol()) > 0
