"""Bisections of the service: pair by pair to the culprit."""

from __future__ import annotations

from typing import Any

import pytest
from builders.bisected import BisectionHand, commits, stepped
from builders.gate_hand import GPU, GateHand, measured
from builders.service_hand import Hand
from fastapi.testclient import TestClient

from benchmarks.contracts import Environment, Status
from service.maintenance.verify.invariants import check
from service.maintenance.verify.values import CheckOutcome


@pytest.fixture
def bisecting(client: TestClient, hand: Hand) -> BisectionHand:
    return BisectionHand(GateHand(client, hand))


def faults(bisecting: BisectionHand) -> list[str]:
    with bisecting.gate.client.app.state.database.reading() as session:  # type: ignore[attr-defined]
        return [
            one.sentence for one in check(session).findings if one.outcome is CheckOutcome.BROKEN
        ]


def named(told: dict[str, Any]) -> tuple[Any, ...]:
    return told["state"], told["outcome"], told["first"], told["last"]


def test_the_culprit_is_named_with_author_title_and_cost(bisecting: BisectionHand) -> None:
    told = bisecting.start()
    assert (told["state"], told["stage"]) == ("running", "verifying_ends")
    assert told["next"] == "Measure the bad end c8 beside the good end c0."
    pairs = bisecting.measure(stepped(5))
    told = bisecting.read(told["id"])
    assert named(told) == ("done", "culprit", 5, 5)
    assert told["sentence"].startswith('c5 (Ada 5, "Change number 5") changed it. Probability ')
    assert told["sentence"].endswith(f"{2 * pairs} processes.")
    assert told["processes"] == 2 * pairs == 2 * len(told["probes"])
    assert told["commits"][5]["probability"] > 0.99
    assert {(one["commit"], one["beside"]) for one in told["probes"]} >= {(8, 0), (5, 4)}
    assert all(one["job_id"] and one["comparison"] for one in told["probes"])
    assert (told["next"], told["stage"]) == ("", "done")


def test_a_probe_is_one_pair_and_every_other_one_is_turned_round(
    bisecting: BisectionHand,
) -> None:
    bisecting.start()
    bisecting.measure(stepped(5))
    duets = [lease.spec.duet for lease in bisecting.gate.seen]
    assert [duet and duet.baseline_first for duet in duets[:4]] == [True, False, True, False]
    assert len({lease.job_id for lease in bisecting.gate.seen}) == len(duets)


def test_without_a_difference_today_nobody_is_blamed(bisecting: BisectionHand) -> None:
    told = bisecting.start()
    bisecting.measure(stepped(None))
    told = bisecting.read(told["id"])
    assert named(told) == ("done", "environment", None, None)
    assert told["sentence"].startswith("The ends do not differ today:")


def test_ends_that_ran_the_same_code_say_so(bisecting: BisectionHand) -> None:
    told = bisecting.start()
    steady = stepped(None)
    same = {**GPU, "sw.benchmarks": "installed"}

    def script(lease: Any) -> Any:
        result = steady(lease)
        return result.model_copy(update={"environment": Environment(facts=same)})

    bisecting.measure(script)
    told = bisecting.read(told["id"])
    assert told["outcome"] == "environment"
    assert told["note"].startswith("Both ends ran the same code")


@pytest.mark.parametrize(("rolls_at", "told_of"), [(5, True), (4, False)])
def test_a_culprit_that_moved_a_package_is_told_as_a_dependency_roll(
    bisecting: BisectionHand, rolls_at: int, told_of: bool
) -> None:
    told = bisecting.start()
    slower = stepped(5)

    def script(lease: Any) -> Any:
        result = slower(lease)
        torch = "2.12.0" if int(lease.spec.revision.removeprefix("c")) >= rolls_at else "2.10.0"
        facts = {**result.environment.facts, "sw.torch": torch}
        return result.model_copy(update={"environment": Environment(facts=facts)})

    bisecting.measure(script)
    told = bisecting.read(told["id"])
    assert named(told) == ("done", "culprit", 5, 5)
    said = (
        "A dependency roll: torch moved from 2.10.0 to 2.12.0. Search the release: "
        f"throughline bisect torch==2.10.0..torch==2.12.0 {told['case_key']}"
    )
    assert told["note"] == (said if told_of else "")
    assert (said in bisecting.gate.client.get(told["page"]).text) is told_of
    assert faults(bisecting) == []


def test_two_culprits_are_told_apart_and_the_larger_is_the_outcome(
    bisecting: BisectionHand,
) -> None:
    told = bisecting.start(12)
    bisecting.measure(stepped(4, 0.06, others={9: 0.03}), most=8)
    stages = {bisecting.read(told["id"])["stage"]}
    while bisecting.measure(stepped(4, 0.06, others={9: 0.03}), most=1):
        stages.add(bisecting.read(told["id"])["stage"])
    told = bisecting.read(told["id"])
    assert named(told) == ("done", "culprit", 4, 4)
    (other,) = told["others"]
    assert (other["first"], other["last"]) == (9, 9)
    assert told["share"] + other["share"] == pytest.approx(1.0, abs=0.05)
    assert 'of the change, c9 (Ada 9, "Change number 9") ' in told["sentence"]
    assert min(told["commits"][place]["probability"] for place in (4, 9)) > 0.99
    assert "searching_rest" in stages
    assert {(one["commit"], one["beside"]) for one in told["probes"]} >= {(4, 3), (9, 8)}
    assert faults(bisecting) == []


def test_commits_that_do_not_build_are_stepped_around(bisecting: BisectionHand) -> None:
    told = bisecting.start()
    bisecting.measure(stepped(5, unbuildable=(4, 5)))
    told = bisecting.read(told["id"])
    assert named(told) == ("done", "range", 4, 6)
    assert told["sentence"].startswith("One of 3 commits changed it, up to c6 (Ada 6, ")
    assert [one["place"] for one in told["commits"] if not one["usable"]] == [4, 5]
    failed = [one for one in told["probes"] if one["unusable"] is not None]
    assert failed[0]["note"] == "it has no uv.lock."
    assert told["processes"] == 2 * (len(told["probes"]) - len(failed))


def test_ends_that_the_worker_has_no_more_end_it_with_the_reason(bisecting: BisectionHand) -> None:
    told = bisecting.start()
    bisecting.gate.worker.introduce(revisions=["another"])
    bisecting.measure(stepped(5))
    told = bisecting.read(told["id"])
    assert named(told)[:2] == ("done", "undecided")
    assert told["note"].startswith("No worker has c0 or c8; known are another.")


def test_an_end_that_does_not_build_ends_it_at_once(bisecting: BisectionHand) -> None:
    told = bisecting.start()
    assert bisecting.measure(stepped(5, unbuildable=(0,))) == 1
    told = bisecting.read(told["id"])
    assert named(told) == ("done", "undecided", None, None)
    assert told["note"] == "it has no uv.lock."


def test_a_commit_that_crashes_twice_is_stepped_around(bisecting: BisectionHand) -> None:
    steady = stepped(6)

    def script(lease: Any) -> Any:
        if lease.spec.revision == "c4":
            return measured(lease, 1.0, status=Status.CRASHED, reason="It crashed.")
        return steady(lease)

    told = bisecting.start()
    bisecting.measure(script)
    told = bisecting.read(told["id"])
    assert named(told) == ("done", "culprit", 6, 6)
    assert [one["commit"] for one in told["probes"] if one["note"] == "It crashed."] == [4, 4]


def test_looking_again_and_again_asks_no_pair_twice(bisecting: BisectionHand) -> None:
    told = bisecting.start()
    for _ in range(3):
        bisecting.look()
    assert len(bisecting.read(told["id"])["probes"]) == 1


def test_cancelling_ends_the_pair_under_way(bisecting: BisectionHand) -> None:
    told = bisecting.start()
    address = f"/api/v1/bisections/{told['id']}/cancel"
    assert bisecting.gate.client.post(address).json()["state"] == "cancelled"
    assert bisecting.gate.worker.claim() is None
    assert bisecting.gate.client.post(address).json()["note"] == "Cancelled."


@pytest.mark.both_databases(slow="postgresql")
def test_verify_finds_nothing_wrong_with_what_was_bisected(bisecting: BisectionHand) -> None:
    bisecting.start()
    bisecting.measure(stepped(5, unbuildable=(4,)))
    bisecting.start(4)
    assert faults(bisecting) == []


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"finding": "0" * 32}, "There is no such finding"),
        ({"metric": "made_up"}, "There is no metric made_up"),
        ({"commits": [*commits(2), commits(2)[0]]}, "a commit stands twice"),
        ({"commits": commits(0)}, "at least 2"),
        ({"most_processes": 2}, "6"),
    ],
)
def test_what_cannot_be_bisected_is_refused_with_a_sentence(
    bisecting: BisectionHand, more: dict[str, Any], words: str
) -> None:
    answer = bisecting.post(**more)
    assert answer.status_code in (404, 422)
    assert words in answer.text


def test_ends_that_no_worker_has_are_refused(bisecting: BisectionHand) -> None:
    bisecting.gate.worker.introduce(["c0"])
    answer = bisecting.post()
    assert (answer.status_code, answer.json()["type"]) == (422, "unknown-name")
    assert "No worker has c8" in answer.json()["detail"]


def test_a_commit_that_no_worker_has_is_stepped_around(bisecting: BisectionHand) -> None:
    bisecting.gate.worker.introduce([f"c{place}" for place in range(9) if place != 4])
    told = bisecting.start()
    bisecting.measure(stepped(4))
    told = bisecting.read(told["id"])
    assert named(told) == ("done", "range", 4, 5)
    assert any("No worker has c4" in one["note"] for one in told["probes"])
