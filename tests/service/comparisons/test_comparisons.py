"""Comparisons: two revisions in turn on one worker until a decision stands, on both databases."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from builders.gate_hand import CASE, GateHand, asked, measured, steady
from builders.measured import a_pass, a_replicate
from builders.service_hand import Hand
from fastapi.testclient import TestClient
from sqlalchemy import update

from benchmarks.contracts import Lease, Replicate, Result, Status
from service.database.session import now_of
from service.models import ComparisonRow, WorkerRow


@pytest.fixture
def gate(client: TestClient, hand: Hand) -> GateHand:
    return GateHand(client, hand)


def refusal(gate: GateHand, **more: Any) -> str:
    """Why a comparison is refused; nothing of it is kept."""
    answer = gate.client.post("/api/v1/comparisons", json=asked(**more))
    assert (answer.status_code, answer.json().get("type")) == (422, "unknown-name"), answer.text
    assert gate.client.get("/api/v1/comparisons").json()["items"] == []
    detail: str = answer.json()["detail"]
    return detail


def test_revisions_that_no_worker_has_are_refused_at_once(gate: GateHand) -> None:
    gate.worker.introduce(["old", "older"])
    assert refusal(gate, contender="made-up") == (
        "No worker has made-up; known are old and older. Deploy it where "
        "THROUGHLINE_WORKER_TARGET says, or correct the name."
    )
    assert "No worker has made-up or so-too; known are" in refusal(
        gate, baseline="made-up", contender="so-too"
    )
    assert "No worker has new;" in refusal(gate, contender="new", worker="w1")
    said = refusal(gate, contender=f"{'1' * 40}+dirty")
    assert "+dirty: its changes are in no commit. Commit and push them, or take them back." in said
    assert gate.start(contender="older")["worker"] == "w1"


def test_a_commit_that_was_pushed_a_moment_ago_is_left_to_a_worker_that_builds_commits(
    gate: GateHand,
) -> None:
    old, new = "a" * 40, "b" * 40
    fields = {"name": "w1", "revisions": [old], "targets": {"upstream": ""}}
    gate.client.put("/api/v1/workers/w1", json=fields)
    assert f"No worker has {new}" in refusal(gate, baseline=old, contender=new)
    gate.client.put("/api/v1/workers/w1", json=fields | {"targets": {"ours": ""}})
    assert "No worker has made-up" in refusal(gate, baseline=old, contender="made-up")
    assert gate.start(baseline=old, contender=new)["worker"] == "w1"
    gate.client.put("/api/v1/workers/w2", json={"name": "w2", "revisions": [old, new]})
    assert gate.start(baseline=old, contender=new)["worker"] == "w2", "which has it already"


def test_a_commit_that_was_pushed_a_moment_ago_is_left_to_a_worker_of_its_repository(
    gate: GateHand,
) -> None:
    old, new = "a" * 40, "b" * 40
    for name, target, known in (("w1", "theirs", "c" * 40), ("w2", "ours", old)):
        fields = {"name": name, "revisions": [known], "targets": {target: ""}}
        gate.client.put(f"/api/v1/workers/{name}", json=fields)
    assert gate.start(baseline=old, contender=new)["worker"] == "w2"


def test_installed_code_is_no_two_revisions_and_may_be_held_against_itself(gate: GateHand) -> None:
    gate.worker.introduce([])
    said = refusal(gate, baseline="totally-made-up", contender="also-made-up")
    assert said.startswith("No worker has totally-made-up or also-made-up: w1 runs what is install")
    assert "THROUGHLINE_WORKER_TARGET" in said
    told = gate.start(baseline="main", contender="main")
    gate.measure(steady())
    assert gate.read(told["id"])["outcome"] == "inconclusive"


def test_both_revisions_have_to_be_on_one_worker(gate: GateHand) -> None:
    gate.worker.introduce(["old"])
    other = Hand(gate.client, "w2")
    other.introduce(["new"], device="cpu")
    assert "No worker has both old and new, and both sides are measured on one" in refusal(gate)
    third = Hand(gate.client, "w3")
    third.introduce(["old", "new"])
    assert gate.start()["worker"] == "w3"


def test_who_does_not_say_what_it_has_is_asked(gate: GateHand) -> None:
    other = Hand(gate.client, "a-worker")
    other.introduce([])
    assert gate.start()["worker"] == "w1", "the installed code of the other is no two revisions"


def test_a_worker_that_comes_without_the_revisions_does_not_get_the_comparison(
    gate: GateHand,
) -> None:
    told = gate.start(requires={"pool": "new"})
    assert "Waits for a worker with pool=new" in told["note"]
    other = Hand(gate.client, "w2")
    other.introduce(["old"], pool="new")
    gate.look()
    told = gate.read(told["id"])
    assert told["worker"] is None
    assert told["note"].startswith("No worker has new; known are old.")
    spend_budget(gate.client)
    gate.look()
    decision = gate.read(told["id"])["decision"]
    assert decision["outcome"] == "inconclusive"
    assert decision["warnings"][1].startswith("No worker has new; known are old.")


TWO_CASES = [CASE, {"workload": "unet"}]


def with_gpus(gate: GateHand, *names: str) -> dict[str, GateHand]:
    """Workers with equal GPUs that have both revisions; the gate's own is the first."""
    hands = [gate.worker, *(Hand(gate.client, name) for name in names)]
    for hand in hands:
        hand.introduce(["old", "new"], device="cuda", gpu="H200")
    return {hand.name: GateHand(gate.client, hand) for hand in hands}


def not_heard_of(gate: GateHand, *names: str) -> None:
    """These workers have not been heard of for an hour."""
    with gate.client.app.state.database.writing() as session:  # type: ignore[attr-defined]
        there = update(WorkerRow).where(WorkerRow.name.in_(names))
        session.execute(there.values(last_seen_at=now_of(session) - timedelta(hours=1)))


def cases_of(gate: GateHand) -> set[str]:
    return {lease.spec.case.workload for lease in gate.seen}


@pytest.mark.both_databases
def test_cases_spread_over_idle_workers_with_equal_gpus_and_each_stays_on_its_own(
    gate: GateHand,
) -> None:
    hands = with_gpus(gate, "w2", "w3")
    told = gate.start(cases=TWO_CASES)
    assert sorted(told["workers"]) == ["w1", "w2"], "as many as there are cases"
    script = {name: steady(facts={"hw.gpu.uuid": name}) for name in hands}
    while sum(hand.measure(script[name], most=1) for name, hand in hands.items()):
        pass
    told = gate.read(told["id"])
    assert told["outcome"] == "pass", told["decision"]["sentence"]
    assert [cases_of(hand) for hand in hands.values()] == [{"resnet50"}, {"unet"}, set()]
    by_case = {
        (one["case_key"].partition(":")[0], one["worker"]) for one in told["decision"]["used"]
    }
    assert by_case == {("resnet50", "w1"), ("unet", "w2")}


def test_who_is_free_first_takes_the_case_that_nobody_has_begun(gate: GateHand) -> None:
    hands = with_gpus(gate, "w2")
    told = gate.start(cases=[*TWO_CASES, {"workload": "nanogpt"}])
    hands["w2"].measure(steady())
    assert cases_of(hands["w2"]) == {"unet", "nanogpt"}
    hands["w1"].measure(steady())
    assert cases_of(hands["w1"]) == {"resnet50"}
    assert gate.read(told["id"])["outcome"] == "pass"


@pytest.mark.parametrize(
    "why", ["one was asked for", "another GPU", "no GPU", "at work", "drained"]
)
def test_cases_stay_together_where_no_other_worker_will_do(gate: GateHand, why: str) -> None:
    with_gpus(gate)
    other = Hand(gate.client, "w2")
    kind = {"device": "cuda", "gpu": "H100" if why == "another GPU" else "H200"}
    if why == "no GPU":
        kind = {"device": "cpu"}
        gate.worker.introduce(["old", "new"], **kind)
    other.introduce(["old", "new"], **kind)
    if why == "at work":
        gate.start(worker="w2")
        assert other.start(other.must_claim()).status_code == 204
    if why == "drained":
        body = {"reason": "repair", "actor": "ada"}
        assert gate.client.put("/api/v1/workers/w2/drain", json=body).status_code == 200
    more = {"worker": "w1"} if why == "one was asked for" else {}
    told = gate.start(cases=TWO_CASES, requires={"device": kind["device"]}, avoid=[], **more)
    assert told["workers"] in (["w1"], ["w2"]), told


def test_half_a_pair_settles_nothing_while_another_worker_is_free(gate: GateHand) -> None:
    """The contender crashes twice, the second time before the baseline's turn of its pair."""
    hands = with_gpus(gate, "w2")
    told = gate.start(cases=TWO_CASES)
    apart = hands["w1"]

    def crashing(lease: Lease) -> Result:
        crashes = lease.spec.revision == "new"
        return measured(lease, 100.0, **({"status": Status.CRASHED} if crashes else {}))

    assert apart.measure(crashing, most=2) == 2
    hands["w2"].measure(steady())
    assert apart.measure(crashing, most=1) == 1, "the second pair begins with the contender"
    assert gate.read(told["id"])["state"] == "running"
    apart.measure(lambda lease: measured(lease, 100.0, status=Status.CRASHED))
    assert gate.read(told["id"])["outcome"] != "regression"


def test_a_worker_that_measures_a_case_of_another_comparison_is_not_idle(gate: GateHand) -> None:
    with_gpus(gate, "w2")
    first = gate.start(cases=TWO_CASES)
    assert sorted(first["workers"]) == ["w1", "w2"]
    with_gpus(gate, "w2", "w3")
    assert gate.start(cases=TWO_CASES)["workers"] == ["w3"]


def test_a_gang_is_left_to_a_worker_with_as_many_gpus(gate: GateHand) -> None:
    two = {"device": "cuda", "gpu": "H200", "gpus": "2"}
    gate.worker.introduce(["old", "new"], device="cuda", gpu="H200")
    Hand(gate.client, "w2").introduce(["old", "new"], **two)
    gang = {"workload": "unet", "axes": {"gpus": "2", "parallel": "ddp"}}
    assert gate.start(cases=[CASE, gang])["workers"] == ["w2"]


def test_a_case_waits_for_its_own_worker_and_the_others_go_on(gate: GateHand) -> None:
    hands = with_gpus(gate, "w2")
    told = gate.start(cases=TWO_CASES)
    hands["w1"].measure(steady())
    assert cases_of(hands["w1"]) == {"resnet50"}
    not_heard_of(gate, "w2")
    note = gate.read(told["id"])["note"]
    assert note.startswith("Worker w2 was last heard of")
    assert note.endswith("This waits for it.")


@pytest.mark.both_databases
@pytest.mark.parametrize("before", [1, 2])
def test_another_worker_takes_the_case_of_one_that_is_gone(gate: GateHand, before: int) -> None:
    """The same holds when the second worker goes. Jobs that were taken back count as no failure."""
    hands = with_gpus(gate, "w2", "w3")
    script = {name: steady(facts={"hw.gpu.uuid": name}) for name in hands}
    told = gate.start(cases=TWO_CASES)
    for name in ("w2", "w3")[:before]:
        not_heard_of(gate, name)
        gate.look()
    assert hands["w1"].measure(script["w1"]), "its own case goes on"
    gate.look()
    hands["w1"].measure(script["w1"])
    takes = "w3" if before == 1 else "w1"
    hands[takes].measure(script[takes])
    assert "unet" in cases_of(hands[takes])
    told = gate.read(told["id"])
    assert (told["outcome"], told["note"]) == ("pass", "")
    assert "Cancelled" not in json.dumps(told["decision"])
    pairs = {(one["case_key"], one["pair"]): set() for one in told["decision"]["used"]}
    for one in told["decision"]["used"]:
        if one["compared"]:
            pairs[one["case_key"], one["pair"]].add(one["worker"])
    assert max(map(len, pairs.values())) == 1, "both sides of a pair are of one worker"
    assert hands["w2"].measure(steady()) == 0, "nothing is left for who comes back"


@pytest.mark.parametrize("measured_before", [1, 2])
def test_a_case_of_which_something_was_measured_waits_for_its_worker(
    gate: GateHand, measured_before: int
) -> None:
    """Its device counts: another one would leave the case without an answer."""
    hands = with_gpus(gate, "w2")
    script = {name: steady(facts={"hw.gpu.uuid": name}) for name in hands}
    told = gate.start(cases=TWO_CASES)
    hands["w2"].measure(script["w2"], most=measured_before)
    not_heard_of(gate, "w2")
    hands["w1"].measure(script["w1"])
    gate.look()
    assert cases_of(hands["w1"]) == {"resnet50"}
    assert gate.read(told["id"])["note"].endswith("This waits for it.")
    hands["w2"].measure(script["w2"])
    assert gate.read(told["id"])["outcome"] == "pass"


def test_an_idle_worker_takes_the_case_of_one_that_is_gone_while_the_first_is_at_work(
    gate: GateHand,
) -> None:
    hands = with_gpus(gate, "w2")
    gate.start(cases=TWO_CASES)
    not_heard_of(gate, "w2")
    Hand(gate.client, "w3").introduce(["old", "new"], device="cuda", gpu="H200")
    hands["w3"] = GateHand(gate.client, Hand(gate.client, "w3"))
    gate.look()
    hands["w3"].measure(steady())
    assert cases_of(hands["w3"]) == {"unet"}


@pytest.mark.parametrize("state", ["measures", "alone"])
def test_a_case_stays_with_a_drained_worker(gate: GateHand, state: str) -> None:
    """It finishes what it measures; and where nobody else may take the case, it is waited for."""
    hands = with_gpus(gate, *(["w2"] if state == "measures" else []))
    told = gate.start(cases=TWO_CASES if state == "measures" else [CASE])
    hand = hands[told["workers"][-1]].worker
    lease = hand.must_claim() if state == "measures" else None
    body = {"reason": "repair", "actor": "ada"}
    assert gate.client.put(f"/api/v1/workers/{hand.name}/drain", json=body).status_code == 200
    for other in hands.values():
        if other.worker is not hand:
            other.measure(steady())
    gate.look()
    assert gate.read(told["id"])["note"].startswith(f"Worker {hand.name} is drained")
    if lease is not None:
        assert hand.start(lease).status_code == 204


@pytest.mark.both_databases
def test_what_was_started_is_answered_again_though_its_revision_is_gone(gate: GateHand) -> None:
    gate.worker.introduce(["old", "new"])
    answers = []
    for known in (["old", "new"], ["old"]):
        gate.worker.introduce(known)
        headers = {"Idempotency-Key": "ci-1"}
        answers.append(gate.client.post("/api/v1/comparisons", json=asked(), headers=headers))
    assert [answer.status_code for answer in answers] == [201, 200]


def spend_budget(client: TestClient) -> None:
    """Let the budget of every comparison be spent."""
    with client.app.state.database.writing() as session:  # type: ignore[attr-defined]
        session.execute(update(ComparisonRow).values(ends_at=now_of(session)))


def verdicts(told: dict[str, Any]) -> list[str]:
    return [case["verdict"] for case in told["decision"]["cases"]]


def test_equal_revisions_pass_and_a_slower_one_does_not(gate: GateHand) -> None:
    same = gate.start()
    gate.measure(steady())
    told = gate.read(same["id"])
    assert (told["state"], told["outcome"], verdicts(told)) == ("decided", "pass", ["same"])
    slower = gate.start()
    gate.measure(steady(0.95))
    told = gate.read(slower["id"])
    assert (told["state"], told["outcome"], verdicts(told)) == ("decided", "regression", ["worse"])
    assert told["decision"]["cases"][0]["answer"] == "different"
    assert told["decision"] == told["so_far"]


def test_both_sides_are_measured_in_turn_on_one_worker_in_one_process_each(gate: GateHand) -> None:
    other = Hand(gate.client, "w2")
    other.introduce(device="cpu")
    told = gate.start(cases=[CASE, {"workload": "unet"}], requires={"device": "cpu"})
    assert told["worker"] == "w1"
    assert other.claim() is None
    gate.measure(steady())
    order = [(lease.spec.case.workload, lease.spec.revision) for lease in gate.seen[:8]]
    assert order == [
        *(("resnet50", "old"), ("resnet50", "new"), ("resnet50", "new"), ("resnet50", "old")),
        *(("resnet50", "old"), ("resnet50", "new"), ("unet", "old"), ("unet", "new")),
    ]
    assert {lease.spec.protocol.replicates for lease in gate.seen} == {1}


def test_the_attempts_used_are_named(gate: GateHand) -> None:
    told = gate.start()
    jobs = gate.measure(steady())
    used = gate.read(told["id"])["decision"]["used"]
    assert len(used) == jobs
    assert {(one["attempt"], one["worker"], one["device"]) for one in used} == {(1, "w1", "GPU-1")}
    assert [one["side"] for one in used[:4]] == ["baseline", "contender", "contender", "baseline"]
    assert all(one["compared"] and one["result_id"] for one in used)


def test_what_is_compared_makes_no_point_in_any_history(gate: GateHand) -> None:
    gate.start()
    gate.measure(steady())
    assert gate.client.get("/api/v1/series").json()["items"] == []


def test_a_case_that_is_decided_is_not_measured_further(gate: GateHand) -> None:
    def script(lease: Lease) -> Result:
        loud = lease.spec.case.workload == "unet"
        return (noisy if loud else quiet)(lease)

    quiet, noisy = steady(noise=0.0001), steady(noise=0.1)
    told = gate.start(cases=[CASE, {"workload": "unet"}])
    gate.measure(script)
    told = gate.read(told["id"])
    few, most = (case["pairs"] for case in told["decision"]["cases"])
    assert few < most < 12, "no twelve pairs would decide the loud one"
    assert (told["outcome"], verdicts(told)) == ("inconclusive", ["same", "unclear"])


def test_nothing_measured_when_the_budget_ends_is_no_pass(gate: GateHand) -> None:
    told = gate.start()
    spend_budget(gate.client)
    assert gate.look() == [told["id"]]
    told = gate.read(told["id"])
    assert (told["outcome"], verdicts(told)) == ("inconclusive", ["missing"])
    [case] = told["decision"]["cases"]
    assert case["sentence"] == "No pair was measured before the budget ended."
    assert told["decision"]["warnings"] == [
        "The budget of 20 min ended before every case was decided."
    ]
    assert gate.worker.claim() is None, "its jobs are cancelled"


def test_a_job_that_runs_when_the_budget_ends_is_stopped(gate: GateHand) -> None:
    gate.start()
    lease = gate.worker.must_claim()
    gate.worker.start(lease)
    spend_budget(gate.client)
    gate.look()
    assert gate.worker.beat(lease).json()["cancel"] is True


def test_a_worker_that_disappears_ends_in_a_sentence_that_names_it(gate: GateHand) -> None:
    told = gate.start()
    with gate.client.app.state.database.writing() as session:  # type: ignore[attr-defined]
        long_ago = now_of(session) - timedelta(hours=1)
        session.execute(update(WorkerRow).values(last_seen_at=long_ago))
    note = gate.read(told["id"])["note"]
    assert "Worker w1 was last heard of" in note
    assert note.endswith("This waits for it.")
    spend_budget(gate.client)
    gate.look()
    told = gate.read(told["id"])
    assert told["outcome"] == "inconclusive"
    [_, warning] = told["decision"]["warnings"]
    assert "Worker w1 was last heard of" in warning
    assert "waits" not in warning, "it is over"


def test_an_attempt_that_was_lost_is_named_when_the_budget_ends(
    gate: GateHand, expire: Callable[[], Any]
) -> None:
    told = gate.start(budget_s=90)
    lease = gate.worker.must_claim()
    gate.worker.start(lease)
    expire()
    spend_budget(gate.client)
    gate.look()
    decision = gate.read(told["id"])["decision"]
    assert decision["warnings"] == [
        "The budget of 1 min 30 s ended before every case was decided.",
        f"Worker w1 lost attempt 1 of job {lease.job_id}: "
        "No heartbeat came before the lease expired.",
    ]
    jobs = [gate.client.get(f"/api/v1/jobs/{used['job_id']}") for used in decision["used"]]
    assert [job.json()["reason"] for job in jobs] == [
        "Cancelled before another attempt began.",
        "Cancelled before it ran.",
    ]


def test_a_comparison_that_was_decided_in_time_says_nothing_of_its_budget(gate: GateHand) -> None:
    told = gate.start()
    gate.measure(lambda lease: measured(lease, 0.0, status=Status.OOM))
    decision = gate.read(told["id"])["decision"]
    assert decision["outcome"] == "inconclusive"
    assert not any("budget" in warning for warning in decision["warnings"])


def test_a_comparison_that_found_no_worker_says_so(gate: GateHand) -> None:
    told = gate.start(requires={"pool": "none"})
    spend_budget(gate.client)
    gate.look()
    assert gate.read(told["id"])["decision"]["warnings"][1:] == [
        "No worker with pool=none was heard of."
    ]


def test_it_waits_for_a_worker_that_may_and_avoids_those_that_may_not(gate: GateHand) -> None:
    told = gate.start(avoid=["w1"])
    assert told["worker"] is None
    assert "Waits for a worker" in told["note"]
    other = Hand(gate.client, "w2")
    other.introduce(device="cpu")
    gate.look()
    assert gate.read(told["id"])["worker"] == "w2"
    assert gate.start(worker="w9")["worker"] == "w9"


def failing(side: str, times: int, **how: Any) -> Any:
    good, left = steady(), [times]

    def script(lease: Lease) -> Result:
        if lease.spec.revision == side and left[0]:
            left[0] -= 1
            return measured(lease, 0.0, **how)
        return good(lease)

    return script


OOM = {"status": Status.OOM, "reason": "The batch does not fit."}
UNBUILDABLE = {"status": Status.UNBUILDABLE, "reason": "`uv sync` failed: no wheel."}


@pytest.mark.parametrize(
    ("side", "times", "how", "outcome", "verdict"),
    [
        ("new", 99, OOM, "regression", "broken"),
        ("new", 1, OOM, "pass", "same"),
        ("old", 99, OOM, "inconclusive", "failed"),
        ("new", 99, {"status": Status.INFRA_ERROR, "reason": "Disk."}, "inconclusive", "missing"),
        ("new", 99, {"status": Status.UNSUPPORTED, "reason": "No."}, "regression", "broken"),
        ("old", 99, {"status": Status.UNSUPPORTED, "reason": "No."}, "inconclusive", "failed"),
        ("new", 99, UNBUILDABLE, "inconclusive", "unbuildable"),
        ("old", 99, UNBUILDABLE, "inconclusive", "unbuildable"),
    ],
)
def test_a_side_that_fails_never_passes(
    gate: GateHand, side: str, times: int, how: Any, outcome: str, verdict: str
) -> None:
    told = gate.start()
    gate.measure(failing(side, times, **how))
    told = gate.read(told["id"])
    assert (told["outcome"], verdicts(told)) == (outcome, [verdict])
    assert how["reason"].rstrip(".") in told["decision"]["cases"][0]["sentence"]


def test_accidents_late_in_a_comparison_do_not_end_it(gate: GateHand) -> None:
    good = steady()

    def script(lease: Lease) -> Result:
        if len(gate.seen) in (5, 8):
            return measured(lease, 0.0, status=Status.INFRA_ERROR, reason="The GPU was busy.")
        return good(lease)

    told = gate.start()
    gate.measure(script)
    told = gate.read(told["id"])
    assert (told["outcome"], verdicts(told)) == ("pass", ["same"])


def test_what_no_revision_supports_neither_passes_nor_fails(gate: GateHand) -> None:
    def script(lease: Lease) -> Result:
        if lease.spec.case.workload == "unet":
            return measured(lease, 0.0, status=Status.UNSUPPORTED, reason="Not on this device.")
        return good(lease)

    good = steady()
    told = gate.start(cases=[CASE, {"workload": "unet"}])
    gate.measure(script)
    assert gate.read(told["id"])["outcome"] == "pass"
    told = gate.start(case={"workload": "unet"})
    gate.measure(script)
    told = gate.read(told["id"])
    assert (told["outcome"], verdicts(told)) == ("inconclusive", ["unsupported"])


def test_a_case_that_fails_parity_fails_the_gate_however_fast(gate: GateHand) -> None:
    def script(lease: Lease) -> Result:
        flags = ("parity_fail",) if lease.spec.revision == "new" else ()
        return measured(lease, 200.0, flags=flags)

    told = gate.start()
    gate.measure(script)
    told = gate.read(told["id"])
    assert (told["outcome"], verdicts(told)) == ("regression", ["parity"])


def test_only_the_first_pair_of_a_case_is_held_against_fp32(gate: GateHand) -> None:
    gate.start(protocol={"parity": True})
    gate.measure(steady())
    asked_for = [lease.spec.protocol.parity for lease in gate.seen]
    assert asked_for[:2] == [True, True]
    assert len(asked_for) > 2
    assert not any(asked_for[2:])


@pytest.mark.parametrize("side", ["old", "new"])
def test_parity_is_asked_again_after_an_accident_in_the_first_pair(
    gate: GateHand, side: str
) -> None:
    accident = failing(side, 1, status=Status.INFRA_ERROR, reason="The GPU was busy.")

    def script(lease: Lease) -> Result:
        if lease.spec.revision == "new" and lease.spec.protocol.parity and len(gate.seen) > 2:
            return measured(lease, 0.0, status=Status.PARITY_FAIL, reason="The loss is off.")
        return accident(lease)

    told = gate.start(protocol={"parity": True})
    gate.measure(script)
    told = gate.read(told["id"])
    assert (told["outcome"], verdicts(told)) == ("regression", ["parity"])
    assert [lease.spec.protocol.parity for lease in gate.seen] == [True] * 4


def test_parity_is_asked_no_more_once_a_pair_is_whole(gate: GateHand) -> None:
    gate.start(protocol={"parity": True})
    gate.measure(failing("new", 1, **OOM))
    asked_for = [lease.spec.protocol.parity for lease in gate.seen]
    assert asked_for[:4] == [True] * 4
    assert len(asked_for) > 4
    assert not any(asked_for[4:])


@pytest.mark.parametrize("fact", ["hw.gpu.uuid", "hw.gpu.name", "sw.data"])
def test_sides_of_two_devices_or_data_are_never_compared(gate: GateHand, fact: str) -> None:
    told = gate.start()
    gate.measure(lambda lease: measured(lease, 100.0, facts={fact: lease.spec.revision}))
    told = gate.read(told["id"])
    assert (told["outcome"], verdicts(told)) == ("inconclusive", ["foreign"])


def test_two_revisions_that_ran_the_same_code_never_pass_and_end_after_one_pair(
    gate: GateHand,
) -> None:
    told = gate.start()
    assert gate.measure(steady(facts={"sw.benchmarks": "one"})) == 2
    told = gate.read(told["id"])
    assert (told["outcome"], verdicts(told)) == ("inconclusive", ["same_code"])
    assert "THROUGHLINE_WORKER_TARGET" in told["decision"]["sentence"]


def test_a_revision_against_itself_is_a_check_and_no_pass(gate: GateHand) -> None:
    told = gate.start(contender="old")
    gate.measure(steady())
    told = gate.read(told["id"])
    assert (told["outcome"], verdicts(told)) == ("inconclusive", ["same"])
    assert told["decision"]["sentence"].startswith("A check of the set-up, not a comparison: old")


def replicate(*flags: str) -> Replicate:
    one = a_replicate(a_pass(0.1), a_pass(0.1))
    return one.model_copy(update={"flags": flags})


@pytest.mark.parametrize("side", ["old", "new"])
def test_a_side_that_was_always_disturbed_decides_nothing(gate: GateHand, side: str) -> None:
    slow, flags = steady(0.8), ("throttled", "other_processes")

    def script(lease: Lease) -> Result:
        result = slow(lease)
        flagged = replicate(*flags if lease.spec.revision == side else ())
        return result.model_copy(update={"replicates": (flagged,)})

    told = gate.start()
    assert gate.measure(script) == 24, "measured again as often as the policy allows pairs"
    told = gate.read(told["id"])
    assert (told["outcome"], verdicts(told)) == ("inconclusive", ["disturbed"])
    name = {"old": "baseline", "new": "contender"}[side]
    assert f"({name}: throttled, other_processes)" in told["decision"]["sentence"]
    assert not any(used["compared"] for used in told["decision"]["used"])


@pytest.mark.parametrize(("contender", "outcome"), [(1.0, "pass"), (0.9, "regression")])
def test_a_disturbed_pair_is_measured_again_within_the_budget(
    gate: GateHand, contender: float, outcome: str
) -> None:
    good = steady(contender)

    def script(lease: Lease) -> Result:
        result = good(lease)
        return result.model_copy(update={"flags": ("device_busy",)} if len(gate.seen) < 4 else {})

    told = gate.start()
    gate.measure(script)
    told = gate.read(told["id"])
    assert told["outcome"] == outcome
    [case] = told["decision"]["cases"]
    assert "2 pairs left out, measured on a disturbed device" in case["sentence"]


def test_memory_that_others_held_is_no_fault_of_the_contender(gate: GateHand) -> None:
    told = gate.start()
    gate.measure(failing("new", 99, **OOM, flags=("foreign_memory",)))
    told = gate.read(told["id"])
    assert (told["outcome"], verdicts(told)) == ("inconclusive", ["missing"])
    assert "On a disturbed device (foreign_memory)" in told["decision"]["sentence"]


@pytest.mark.parametrize(("cases", "told"), [("resnet:*", True), ("resnet50:*", False)])
def test_a_rule_that_fits_no_case_is_told(gate: GateHand, cases: str, told: bool) -> None:
    started = gate.start(policy={"rules": [{"cases": cases}]})
    assert started["so_far"]["warnings"] == []
    gate.measure(steady())
    warnings = gate.read(started["id"])["decision"]["warnings"]
    expected = f"The rule for '{cases}' fits no case that was measured, so it limited nothing."
    assert warnings == ([expected] if told else [])


def test_a_policy_lets_speed_be_traded_for_memory(gate: GateHand) -> None:
    trade = {"max_regression": "2%", "if_metric": "peak_memory", "if_better": "20%"}
    rule = {"cases": "resnet50:*", "trades": [trade]}
    outcomes = {}
    for memory_b in (0.75e9, 0.9e9):
        told = gate.start(policy={"rules": [rule]})
        good = steady(0.985)

        def script(lease: Lease, good: Any = good, memory_b: float = memory_b) -> Result:
            level = good(lease).samples[0].values[0]
            return measured(lease, level, memory_b if lease.spec.revision == "new" else 1e9)

        gate.measure(script)
        outcomes[memory_b] = (gate.read(told["id"])["outcome"], verdicts(gate.read(told["id"])))
    assert outcomes == {0.75e9: ("pass", ["allowed"]), 0.9e9: ("regression", ["worse"])}


@pytest.mark.both_databases
def test_a_comparison_that_is_cancelled_stays_so(gate: GateHand) -> None:
    told = gate.start()
    answer = gate.client.post(f"/api/v1/comparisons/{told['id']}/cancel")
    assert answer.json()["state"] == "cancelled"
    assert gate.worker.claim() is None
    assert gate.look() == []
    assert gate.read(told["id"])["decision"] is None


def test_the_same_key_starts_one_comparison(gate: GateHand) -> None:
    headers = {"Idempotency-Key": "ci-1"}
    answers = [
        gate.client.post("/api/v1/comparisons", json=asked(), headers=headers) for _ in range(2)
    ]
    assert [answer.status_code for answer in answers] == [201, 200]
    assert answers[0].json()["id"] == answers[1].json()["id"]
    other = gate.client.post("/api/v1/comparisons", json=asked(budget_s=60), headers=headers)
    assert (other.status_code, other.json()["type"]) == (422, "idempotency-key-reused")
    assert len(gate.client.get("/api/v1/comparisons").json()["items"]) == 1


def test_a_comparison_that_is_cancelled_gives_its_key_up_and_a_decided_one_keeps_it(
    gate: GateHand,
) -> None:
    def start() -> Any:
        return gate.client.post(
            "/api/v1/comparisons", json=asked(), headers={"Idempotency-Key": "ci-1"}
        )

    def cancel(comparison: Any) -> None:
        gate.client.post(f"/api/v1/comparisons/{comparison.json()['id']}/cancel")

    first = start()
    cancel(first)
    second = start()
    assert second.status_code == 201
    assert second.json()["id"] != first.json()["id"]
    gate.measure(steady())
    cancel(second)
    third = start()
    assert (third.status_code, third.json()["id"]) == (200, second.json()["id"])
    assert third.json()["outcome"] == "pass"


def test_a_request_that_makes_no_sense_is_refused(gate: GateHand) -> None:
    against_itself = {"max_regression": 0.1, "if_metric": "throughput", "if_better": 0.1}
    for more in (
        {"suite": "no-such"},
        {"cases": [CASE, CASE]},
        {"cases": []},
        {"budget_s": 0},
        {"policy": {"rule": []}},
        {"policy": {"rules": [{"limits": []}]}},
        {"policy": {"rules": [{"limits": [{"metric": "throughput"}] * 2}]}},
        {"policy": {"rules": [{"limits": [{"max_regression": "a lot"}]}]}},
        {"policy": {"rules": [{"trades": [against_itself]}]}},
        {"policy": {"min_pairs": 9, "max_pairs": 4}},
    ):
        answer = gate.client.post("/api/v1/comparisons", json=asked(**more))
        assert answer.status_code == 422, (more, answer.text)
    assert gate.client.get("/api/v1/comparisons").json()["items"] == []


def test_one_that_does_not_exist_is_not_found(gate: GateHand) -> None:
    assert gate.client.get(f"/api/v1/comparisons/{'0' * 32}").status_code == 404
    assert gate.client.post(f"/api/v1/comparisons/{'0' * 32}/cancel").status_code == 404


def test_of_gpus_more_will_do_than_a_comparison_requires(gate: GateHand) -> None:
    gate.worker.introduce(["old", "new"], device="cuda", gpus="4")
    assert gate.start(requires={"gpus": "2"})["worker"] == gate.worker.name
    assert gate.start(requires={"gpus": "8"})["worker"] is None


def test_a_case_that_no_pair_would_decide_is_given_up(gate: GateHand) -> None:
    told = gate.start()
    gate.measure(steady(noise=0.1))
    told = gate.read(told["id"])
    (case,) = told["decision"]["cases"]
    assert case["pairs"] < 12
    assert case["verdict"] == "unclear"
    assert "out of reach" in case["sentence"]
    assert told["decision"]["outcome"] == "inconclusive"
