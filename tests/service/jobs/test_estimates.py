"""A suite says beforehand how long it takes, from its protocol and from what it took before."""

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from builders.service_hand import Hand, result_of
from fastapi.testclient import TestClient
from sqlalchemy import select

from benchmarks.catalog import suites
from benchmarks.catalog.duration import expected_s, pair_s
from benchmarks.catalog.precision_tiers import Tier, timed
from benchmarks.contracts import Case, Protocol
from cli import estimate
from cli.durations import seconds
from service.database.session import Database
from service.jobs.estimates import expectations, taken_before
from service.models import Attempt
from service.schemas.catalog import Catalog
from service.schemas.jobs import Submitted
from service.wording import formats

SMOKE = suites.suite("smoke")


def test_more_processes_longer_windows_and_compiling_take_longer() -> None:
    case, quick = Case(workload="unet"), suites.QUICK
    assert expected_s(case, timed(Tier.STANDARD)) > 2 * expected_s(case, quick)
    assert expected_s(case, suites.NIGHT) > expected_s(case, quick) + 30  # phases, profile, parity
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
        assert taken_before(session, SMOKE) == {}
    found = expectations(SMOKE, {})
    assert not any(each.measured_before for each in found)
    assert [each.expected_s for each in found] == [
        pytest.approx(expected_s(case, SMOKE.protocol)) for case in SMOKE.cases
    ]


def _submit(client: TestClient) -> Submitted:
    body = {"suite": "smoke", "revision": "r1"}
    return Submitted.model_validate(client.post("/api/v1/submissions", json=body).json())


def _in_catalog(client: TestClient, name: str) -> dict[str, Any]:
    told = client.get("/api/v1/catalog").json()["suites"]
    return next(each for each in told if each["name"] == name)


def _took(database: Database, seconds: float) -> None:
    """As if every attempt so far had taken so long."""
    with database.writing() as session:
        for attempt in session.scalars(select(Attempt)):
            assert attempt.started_at is not None
            attempt.ended_at = attempt.started_at + timedelta(seconds=seconds)


@pytest.mark.both_databases
def test_what_cases_took_before_is_what_they_are_expected_to_take(
    client: TestClient, hand: Hand, database: Database
) -> None:
    submission = _submit(client)
    for _ in range(2):
        lease = hand.must_claim()
        hand.start(lease)
        assert hand.post(lease, result_of(lease)).status_code == 201
    _took(database, 1000)
    told = Catalog.model_validate(client.get("/api/v1/catalog").json())
    smoke = _in_catalog(client, "smoke")
    others = sum(expected_s(case, SMOKE.protocol) for case in SMOKE.cases[2:])
    assert smoke["expected_s"] == pytest.approx(2000 + others, rel=0.01)
    assert smoke["cases_measured_before"] == 2
    assert smoke["expected_s"] == sum(each["expected_s"] for each in smoke["cases_expected"])
    said = estimate.sentence(submission, told, None)
    assert said is not None
    assert "for 6 cases on one worker (2 of them as measured before" in said


def test_a_case_that_is_being_measured_says_nothing_yet(client: TestClient) -> None:
    _submit(client)
    worker = Hand(client)
    worker.introduce([])
    worker.start(worker.must_claim())
    answer = client.get("/api/v1/catalog")
    assert answer.status_code == 200
    (smoke,) = [each for each in answer.json()["suites"] if each["name"] == "smoke"]
    assert smoke["cases_measured_before"] == 0


def test_more_replicates_than_the_suite_has_are_reckoned_in(client: TestClient) -> None:
    submission = _submit(client)
    told = Catalog.model_validate(client.get("/api/v1/catalog").json())
    once = estimate.sentence(submission, told, None)
    often = estimate.sentence(submission, told, 10)
    assert once is not None
    assert "told from the protocol, for a GPU" in once
    assert often is not None
    assert "min" in often
    assert once.split(" for ")[0] != often.split(" for ")[0]


def test_a_part_of_a_suite_takes_its_part_of_the_time(client: TestClient) -> None:
    submission = _submit(client)
    told = Catalog.model_validate(client.get("/api/v1/catalog").json())
    half = submission.model_copy(update={"jobs": submission.jobs[:3]})
    part = sum(expected_s(job.case, SMOKE.protocol) for job in half.jobs)
    said = estimate.sentence(half, told, None)
    assert said is not None
    assert said.startswith(f"About {formats.duration(part)} for 3 cases")


@pytest.mark.both_databases
def test_of_a_part_that_was_measured_the_time_is_what_its_own_cases_took(
    client: TestClient, hand: Hand, database: Database
) -> None:
    assert hand.name, "it has a CPU, which refuses 11 of the 43 cases"
    body = {"suite": "nightly", "revision": "r1", "replicates": 1}
    answer = client.post("/api/v1/submissions", json=body).json()  # one turn is all of a case
    for _ in answer["jobs"]:
        hand.measure()
    _took(database, 600)
    submission = Submitted.model_validate(
        client.post("/api/v1/submissions", json=body | {"replicates": 3}).json()
    )
    told = Catalog.model_validate(client.get("/api/v1/catalog").json())
    took = formats.duration(600.0 * len(answer["jobs"]))
    assert estimate.sentence(submission, told, 1) == (
        f"About {took} for {len(answer['jobs'])} cases on one worker (as measured before)."
    )


@pytest.mark.parametrize(
    ("asked", "again"),
    [({"replicates": 3}, (3, None)), ({"tier": "gate"}, (None, Tier.GATE))],
)
def test_what_was_measured_for_longer_than_the_suite_asks_takes_as_long_again(
    client: TestClient,
    hand: Hand,
    database: Database,
    asked: dict[str, Any],
    again: tuple[int | None, Tier | None],
) -> None:
    body = {"suite": "smoke", "revision": "r1", **asked}
    submission = Submitted.model_validate(client.post("/api/v1/submissions", json=body).json())
    processes = 0
    while (lease := hand.claim()) is not None:
        hand.start(lease)
        assert hand.post(lease, result_of(lease, (100.0,))).status_code == 201
        processes += 1
    assert processes >= len(submission.jobs)
    _took(database, 60)
    told = Catalog.model_validate(client.get("/api/v1/catalog").json())
    said = estimate.sentence(submission, told, *again)
    took = formats.duration(60.0 * processes)
    assert said == f"About {took} for 6 cases on one worker (as measured before)."
    usual = estimate.sentence(submission, told)
    assert usual is not None
    assert usual.partition(" for ")[0] != said.partition(" for ")[0]


def test_a_case_of_a_suite_is_known_again_however_the_suite_writes_it(
    client: TestClient, hand: Hand, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = (Case(workload="unet", axes={"precision": "fp32", "workers": "4"}),)
    odd = replace(SMOKE, name="odd", cases=(*written, Case(workload="resnet50")))
    monkeypatch.setattr(suites, "suites", lambda: {"odd": odd})
    monkeypatch.setattr(suites, "suite", lambda name: odd)
    made = client.post("/api/v1/submissions", json={"suite": "odd", "revision": "r1"}).json()
    assert "precision" not in made["jobs"][0]["case"]["axes"]
    for _ in made["jobs"]:
        hand.measure()
    _took(database, 600)
    told = Catalog.model_validate(client.get("/api/v1/catalog").json())
    said = estimate.sentence(Submitted.model_validate(made), told)
    took = formats.duration(1200.0)
    assert said == f"About {took} for 2 cases on one worker (as measured before)."


def test_a_service_that_does_not_tell_case_by_case_leaves_it_to_the_protocol(
    client: TestClient,
) -> None:
    submission = _submit(client)
    told = client.get("/api/v1/catalog").json()
    for suite in told["suites"]:
        suite["cases_expected"] = []
    total = sum(expected_s(job.case, SMOKE.protocol) for job in submission.jobs)
    said = estimate.sentence(submission, Catalog.model_validate(told))
    assert said is not None
    assert said.startswith(f"About {formats.duration(total)} for 6 cases")
    assert "told from the protocol" in said


def test_a_single_case_is_told_by_its_own_protocol() -> None:
    assert expected_s(Case(workload="unet"), Protocol()) > 0


def test_how_many_cases_a_device_lets_out_is_told(client: TestClient) -> None:
    def submit(**more: object) -> Submitted:
        body = {"suite": "nightly", "revision": "r1", **more}
        answer = client.post("/api/v1/submissions", json=body)
        return Submitted.model_validate(answer.json())

    whole, part = submit(), submit(requires={"device": "cpu"})
    some = submit(requires={"device": "cpu"}, only=["nanogpt"])
    assert estimate.left_out(whole) is None
    assert estimate.left_out(part) == (
        f"{len(whole.cases) - len(part.cases)} of its {len(whole.cases)} cases are left out: they "
        "cannot run on the device that is asked for, or that all workers of the last day have."
    )
    asked = sum(job.case.workload == "nanogpt" for job in whole.cases)
    told = estimate.left_out(some)
    assert told is not None
    assert told.startswith(f"{asked - len(some.cases)} of its {asked} cases are left out")


def gate_request(**more: Any) -> dict[str, Any]:
    return {"suite": "smoke", "budget_s": 7_200.0, "policy": {}, **more}


def test_a_gate_says_beforehand_how_long_its_pairs_take(client: TestClient) -> None:
    told = Catalog.model_validate(client.get("/api/v1/catalog").json())
    first, later = map(sum, zip(*map(pair_s, SMOKE.cases), strict=True))
    few, many = (formats.duration(first + (pairs - 1) * later) for pairs in (3, 12))
    assert estimate.of_gate(gate_request(), told) == (
        f"6 cases x 3 to 12 pairs need about {few} to {many} on an idle worker (told from the "
        "protocol, for a GPU); the budget is 2 h."
    ).replace(formats.NBSP, " ")
    policy = {"min_pairs": 4, "max_pairs": 5}
    assert "6 cases x 4 to 5 pairs" in estimate.of_gate(gate_request(policy=policy), told)


def test_pairs_whose_sides_follow_each_other_take_longer(client: TestClient) -> None:
    told = Catalog.model_validate(client.get("/api/v1/catalog").json())
    one = sum(expected_s(case, SMOKE.protocol) for case in SMOKE.cases)
    few, many = (formats.duration(2 * pairs * one) for pairs in (3, 12))
    apart = f"need about {few} to {many} on an idle worker".replace(formats.NBSP, " ")
    assert apart in estimate.of_gate(gate_request(duet=False), told)
    energy = {"rules": [{"limits": [{"metric": "energy_per_item"}]}]}
    assert apart in estimate.of_gate(gate_request(policy=energy), told)


@pytest.mark.both_databases
def test_a_gate_goes_by_what_its_cases_took_before_in_one_process_each(
    client: TestClient, hand: Hand, database: Database
) -> None:
    for _ in _submit(client).jobs:
        hand.measure()
    _took(database, 60)
    told = Catalog.model_validate(client.get("/api/v1/catalog").json())
    said = estimate.of_gate(gate_request(duet=False), told)
    assert "need about 36 min to 2 h 24 min on an idle worker (as measured before)" in said


def test_a_budget_that_cannot_suffice_is_told_at_the_start(client: TestClient) -> None:
    told = Catalog.model_validate(client.get("/api/v1/catalog").json())
    said = estimate.of_gate(gate_request(budget_s=300.0), told)
    assert said.endswith(
        "the budget is 5 min. That is too little for 3 pairs of every case: raise --budget, or "
        "name fewer."
    )
    case = {"suite": None, "cases": [{"workload": "unet"}], "budget_s": 60.0}
    assert "1 case x 3 to 12 pairs" in estimate.of_gate(gate_request(**case), told)
    assert estimate.of_gate(gate_request(suite="of-a-newer-service"), told) == ""


def test_the_budget_of_the_documents_example_suffices(client: TestClient) -> None:
    """For the seven pairs that most equal cases need, by the service's own estimate."""
    text = (Path(__file__).parents[3] / "docs" / "gate.md").read_text()
    [budget] = re.findall(r"--suite smoke --budget (\S+)", text)
    told = Catalog.model_validate(client.get("/api/v1/catalog").json())
    policy = {"min_pairs": 7}
    said = estimate.of_gate(gate_request(budget_s=seconds(budget), policy=policy), told)
    assert "too little" not in said
