"""A pass that its data do not carry is found, whatever made it."""

import json
from typing import Any

import pytest
from builders.gate_hand import CASE, GateHand, steady
from builders.service_hand import Hand
from fastapi.testclient import TestClient
from sqlalchemy import update
from sqlalchemy.orm import Session

from benchmarks.contracts import Environment, Lease, Result, Status
from service.database.session import Database, now_of
from service.maintenance.verify.comparison_rows import GATE
from service.maintenance.verify.invariants import check
from service.maintenance.verify.values import CheckOutcome
from service.models import ComparisonJob, ComparisonRow


@pytest.fixture
def gate(client: TestClient, hand: Hand) -> GateHand:
    return GateHand(client, hand)


@pytest.fixture
def passed(gate: GateHand) -> dict[str, Any]:
    told = gate.start()
    gate.measure(steady())
    told = gate.read(told["id"])
    assert told["outcome"] == "pass"
    return told


def told_of(session: Session) -> tuple[CheckOutcome, str]:
    finding = check(session).findings[9]
    return finding.outcome, finding.sentence


def after(database: Database, change: Any, **values: Any) -> str:
    """What verify says of promise 10 once the rows of ``change`` have these values."""
    with database.writing() as session:
        session.execute(update(change).values(**values))
        outcome, sentence = told_of(session)
        session.rollback()
    assert outcome is CheckOutcome.BROKEN
    return sentence


@pytest.mark.both_databases
def test_a_pass_with_its_data_behind_it_holds(database: Database, passed: dict[str, Any]) -> None:
    assert passed["outcome"] == "pass"
    with database.reading() as session:
        assert told_of(session) == (CheckOutcome.HELD, "")


def test_a_regression_and_an_open_answer_promise_nothing(
    database: Database, gate: GateHand
) -> None:
    gate.start()
    gate.measure(steady(0.9))
    with database.reading() as session:
        assert told_of(session)[0] is CheckOutcome.NOT_APPLICABLE


def test_a_comparison_that_never_got_a_worker_is_not_half_there(
    database: Database, gate: GateHand
) -> None:
    waiting = gate.start(requires={"pool": "none"})
    with database.writing() as session:
        assert check(session).kept
        session.execute(update(ComparisonRow).values(ends_at=now_of(session)))
    gate.look()
    assert gate.read(waiting["id"])["outcome"] == "inconclusive"
    with database.writing() as session:
        assert check(session).findings[8].outcome is CheckOutcome.HELD
        session.execute(update(ComparisonRow).values(rounds=1))
        assert "no job" in check(session).findings[8].sentence
        session.rollback()


def script_of(facts: dict[str, str], flags: tuple[str, ...]) -> Any:
    """A steady worker whose results have this software, and these flags on every process."""
    good = steady()

    def script(lease: Lease) -> Result:
        result: Result = good(lease)
        told = {name: fact for name, fact in result.environment.facts.items() if name[:3] != "sw."}
        own = {name: fact.format(lease.spec.revision) for name, fact in facts.items()}
        environment = Environment(facts=told | own)
        return result.model_copy(update={"environment": environment, "flags": flags})

    return script


@pytest.mark.parametrize(
    ("facts", "flags", "said"),
    [
        ({"sw.benchmarks": "one"}, (), "both revisions ran the same code for resnet50"),
        ({}, (), "nobody knows which code ran for resnet50"),
        (
            {"sw.benchmarks": "{}"},
            ("throttled",),
            "was measured on a disturbed device (throttled) for resnet50",
        ),
    ],
)
def test_a_pass_of_what_was_not_compared_is_found(
    database: Database, gate: GateHand, facts: dict[str, str], flags: tuple[str, ...], said: str
) -> None:
    started = gate.start()
    gate.measure(script_of(facts, flags))
    told = gate.read(started["id"])["decision"]
    assert told["outcome"] == "inconclusive"
    used = [{**one, "compared": True} for one in told["used"]]
    decision = {**told, "outcome": "pass", "used": used}
    with database.writing() as session:
        session.execute(update(ComparisonRow).values(decision=decision))
        broken = {f.number: f for f in check(session).findings if f.outcome is CheckOutcome.BROKEN}
        session.rollback()
    assert said in broken[GATE].sentence


def test_a_pass_of_a_revision_against_itself_is_found(
    database: Database, passed: dict[str, Any]
) -> None:
    assert passed["outcome"] == "pass"
    said = after(database, ComparisonRow, contender="old")
    assert said.endswith("it passed, and both of its sides are one revision")


def test_a_pass_that_rests_on_nothing_is_found(database: Database, passed: dict[str, Any]) -> None:
    decision = {**passed["decision"], "used": []}
    said = after(database, ComparisonRow, decision=decision)
    assert said.endswith("it passed, and rests on no attempt at all")


def test_a_pass_on_two_devices_is_found(database: Database, passed: dict[str, Any]) -> None:
    assert passed["outcome"] == "pass"
    with database.reading() as session:
        measured = session.query(ComparisonJob.measured).filter(ComparisonJob.place == 0).scalar()
    with database.writing() as session:
        elsewhere = {**measured, "device": "GPU-2"}
        session.execute(
            update(ComparisonJob).where(ComparisonJob.place == 0).values(measured=elsewhere)
        )
        report = check(session)
        session.rollback()
    assert report.findings[9].breaches == 2
    assert "is not what its result says" in report.findings[9].sentence


@pytest.mark.both_databases
def test_a_number_that_no_result_says_is_found(database: Database, passed: dict[str, Any]) -> None:
    assert passed["outcome"] == "pass"
    with database.reading() as session:
        measured = session.query(ComparisonJob.measured).filter(ComparisonJob.place == 0).scalar()
    flattered = json.loads(json.dumps(measured).replace("100", "101"))
    said = after(database, ComparisonJob, measured=flattered)
    assert "is not what its result says for resnet50" in said


@pytest.mark.both_databases
def test_a_case_that_lacks_one_revision_is_found(
    database: Database, passed: dict[str, Any]
) -> None:
    assert passed["outcome"] == "pass"
    said = after(database, ComparisonJob, side="baseline", measured=None)
    assert "for resnet50" in said


def test_a_case_that_was_never_measured_is_found(
    database: Database, passed: dict[str, Any]
) -> None:
    cases = [{**CASE, "preset": "auto", "axes": {}}, {"workload": "unet", "axes": {}}]
    assert passed["outcome"] == "pass"
    said = after(database, ComparisonRow, cases=cases)
    assert said.endswith("it passed, and no pair of both revisions was compared for unet:auto")


def test_a_case_that_the_device_cannot_do_carries_no_pass_and_hinders_none(
    database: Database, gate: GateHand
) -> None:
    def script(lease: Lease, able: Any = steady()) -> Result:  # noqa: B008
        result: Result = able(lease)
        if lease.spec.case.workload == "unet":
            nothing = {"status": Status.UNSUPPORTED, "samples": (), "reason": "No such device."}
            result = result.model_copy(update=nothing)
        return result

    told = gate.start(cases=[CASE, {"workload": "unet"}])
    gate.measure(script)
    assert gate.read(told["id"])["outcome"] == "pass"
    with database.reading() as session:
        assert told_of(session) == (CheckOutcome.HELD, "")
