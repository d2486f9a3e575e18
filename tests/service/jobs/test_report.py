"""What CI reads: the results table, the speed-up, the comparison, as JSON and as Markdown."""

import secrets
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from builders.service_hand import FACTS, Hand, result_of
from fastapi.testclient import TestClient
from sqlalchemy import update

from benchmarks.catalog.suites import suite
from benchmarks.contracts import Bottleneck, Status, Verdict
from service.database.session import Database, now_of
from service.jobs.workers import LATELY
from service.models import WorkerRow

Submit = Callable[..., dict[str, Any]]
CASES = [
    {"workload": "resnet50", "axes": {"workers": "4"}},
    {"workload": "resnet50", "axes": {"workers": "4", "precision": "bf16"}},
    {"workload": "resnet50", "axes": {"workers": "8", "compile": "default"}},
    {"workload": "unet", "axes": {"precision": "bf16"}},
]


def order(client: TestClient, revision: str) -> str:
    body = {"cases": CASES, "revision": revision}
    return str(client.post("/api/v1/submissions", json=body).json()["id"])


def measure(hand: Hand, revision: str, *rates: float | None) -> str:
    """Submit the cases and answer each: a rate with its spread, or None for one that fails."""
    submission = order(hand.client, revision)
    for rate in rates:
        lease = hand.must_claim()
        if rate is None:
            result = result_of(lease, status=Status.OOM, reason="256 images | do not fit.")
        else:
            verdict = Verdict(
                bottleneck=Bottleneck.DEVICE, confidence="high", sentence="The device is busy."
            )
            result = result_of(lease, (rate - 0.1, rate, rate + 0.1), verdict=verdict)
        assert hand.post(lease, result).status_code == 201
    return submission


def report(client: TestClient, submission: str, **query: str) -> Any:
    answer = client.get(f"/api/v1/submissions/{submission}/report", params=query)
    assert answer.status_code == 200, answer.text
    return answer


def test_a_report_gives_each_case_its_rate_speedup_and_limit(
    client: TestClient, hand: Hand
) -> None:
    told = report(client, measure(hand, "r1", 100.0, 250.0, None)).json()
    assert (told["finished"], told["revision"], len(told["rows"])) == (False, "r1", 4)
    plain, fast, failed, waiting = told["rows"]
    assert plain["speedup"] is None
    assert plain["throughput"]["value"] == pytest.approx(100)
    assert fast["speedup"]["value"] == pytest.approx(2.5)
    assert fast["speedup"]["low"] < 2.5 < fast["speedup"]["high"]
    assert (fast["bottleneck"], fast["status"]) == ("device", "ok")
    assert (failed["status"], failed["reason"]) == ("oom", "256 images | do not fit.")
    assert failed["throughput"] is None
    assert (waiting["state"], waiting["status"]) == ("queued", None)


def test_a_speedup_over_a_case_with_another_loader_is_not_told(
    client: TestClient, hand: Hand
) -> None:
    told = report(client, measure(hand, "r1", 100.0, 200.0, 300.0, 50.0)).json()
    assert told["rows"][1]["speedup"]["value"] == pytest.approx(2)
    assert told["rows"][2]["speedup"] is None, "no fp32 eager case with its loader"
    assert told["rows"][3]["speedup"] is None, "the U-Net has no baseline here"


def test_a_speedup_over_other_hardware_is_not_told(client: TestClient, hand: Hand) -> None:
    submission = order(client, "r1")
    hand.measure((100.0,))
    hand.measure((250.0,), facts=FACTS | {"hw.cpu.model": "Other"})
    assert report(client, submission).json()["rows"][1]["speedup"] is None


def test_a_comparison_says_faster_slower_and_missing(client: TestClient, hand: Hand) -> None:
    measure(hand, "old", 100.0, 200.0, 300.0, None)
    new = measure(hand, "new", 110.0, 150.0, 300.0, 50.0)
    changes = report(client, new, against="old").json()["changes"]
    told = {(each["case"]["workload"], each["case"]["axes"].get("precision")): each
            for each in changes if each["case"]["axes"].get("compile") is None}  # fmt: skip
    assert told["resnet50", None]["verdict"] == "faster"
    assert told["resnet50", None]["change"] == pytest.approx(0.1)
    assert told["resnet50", "bf16"]["verdict"] == "slower"
    assert told["unet", "bf16"]["verdict"] == "missing"
    assert len(changes) == 4
    wide = client.get("/api/v1/changes", params={"baseline": "old", "contender": "new"}).json()
    assert {each["verdict"] for each in wide["changes"]} == {
        "faster",
        "slower",
        "unclear",
        "missing",
    }


def test_a_comparison_of_a_suite_has_a_row_for_every_case(client: TestClient) -> None:
    for revision in ("a", "b"):
        order(client, revision)
    query = {"baseline": "a", "contender": "b", "suite": "smoke"}
    changes = client.get("/api/v1/changes", params=query).json()["changes"]
    assert [each["verdict"] for each in changes] == ["missing"] * 6


@pytest.mark.parametrize(
    ("baseline", "contender", "named"), [("a", "x", "x"), ("x", "a", "x"), ("x", "y", "x")]
)
def test_a_revision_that_was_never_submitted_is_not_compared(
    client: TestClient, baseline: str, contender: str, named: str
) -> None:
    order(client, "a")
    query = {"baseline": baseline, "contender": contender}
    answer = client.get("/api/v1/changes", params=query)
    assert answer.status_code == 422
    assert f"at a revision '{named}': check its name" in answer.json()["detail"]


def test_a_suite_may_be_measured_in_more_processes_than_it_says(
    client: TestClient, hand: Hand
) -> None:
    body = {"suite": "smoke", "revision": "r1", "replicates": 3}
    assert client.post("/api/v1/submissions", json=body).status_code == 201
    protocol = hand.must_claim().spec.protocol
    assert protocol == suite("smoke").protocol.model_copy(update={"replicates": 3})


def test_of_a_suite_only_some_workloads_may_be_measured(client: TestClient) -> None:
    body = {"suite": "ladder", "revision": "r1", "only": ["nanogpt", "unet"]}
    made = client.post("/api/v1/submissions", json=body).json()
    asked = [job["case"]["workload"] for job in made["jobs"]]
    wanted = [case.workload for case in suite("ladder").cases if case.workload != "resnet50"]
    assert asked == wanted
    assert made["suite"] == "ladder"


@pytest.mark.parametrize("requires", [{"device": "cpu"}, {}])
def test_of_a_suite_what_its_device_cannot_do_is_left_out(
    client: TestClient, hand: Hand, requires: dict[str, str]
) -> None:
    assert hand.name, "the only worker that is known has a CPU"
    body = {"suite": "nightly", "revision": "r1", "requires": requires}
    made = client.post("/api/v1/submissions", json=body).json()
    asked = [job["case"]["axes"] for job in made["jobs"] if job["replicate"] == 1]
    assert {"workers": "4", "decode": "cache"} in asked
    assert not [axes for axes in asked if "pinning" in axes or "graphs" in axes]
    assert 20 < len(asked) < len(suite("nightly").cases)
    assert made["left_out"] == len(suite("nightly").cases) - len(asked)


@pytest.mark.parametrize("only", [(), ("nanogpt",)])
def test_the_same_request_is_told_the_same_of_what_is_left_out(
    client: TestClient, only: tuple[str, ...]
) -> None:
    body = {"suite": "nightly", "revision": "r1", "only": only, "requires": {"device": "cpu"}}
    answers = [
        client.post("/api/v1/submissions", json=body, headers={"Idempotency-Key": "k"})
        for _ in range(2)
    ]
    assert [each.status_code for each in answers] == [201, 200]
    assert answers[0].json()["left_out"] == answers[1].json()["left_out"] > 0


def test_of_single_cases_nothing_is_left_out(client: TestClient) -> None:
    body = {"case": {"workload": "unet"}, "revision": "r1"}
    assert client.post("/api/v1/submissions", json=body).json()["left_out"] == 0


def test_a_worker_that_is_long_gone_leaves_nothing_out(client: TestClient, hand: Hand) -> None:
    body = {"suite": "nightly", "revision": "r1"}
    database: Database = client.app.state.database  # type: ignore[attr-defined]
    with database.writing() as session:  # w1, which has a CPU
        gone = now_of(session) - LATELY - timedelta(minutes=1)
        session.execute(update(WorkerRow).values(last_seen_at=gone))
    assert client.post("/api/v1/submissions", json=body).json()["left_out"] == 0
    Hand(hand.client, "w2").introduce(device="cuda")
    with database.writing() as session:  # a GPU that was there once does not bring its cases back
        only_w2 = update(WorkerRow).where(WorkerRow.name == "w2")
        session.execute(only_w2.values(last_seen_at=gone))
    hand.introduce(device="cpu")
    assert client.post("/api/v1/submissions", json=body).json()["left_out"] > 0


def test_nothing_is_left_out_while_a_gpu_may_take_it(client: TestClient, hand: Hand) -> None:
    Hand(hand.client, "w2").introduce(device="cuda")
    body = {"suite": "nightly", "revision": "r1"}
    made = client.post("/api/v1/submissions", json=body).json()
    assert made["counts"] == {"queued": len(suite("nightly").cases)}


def test_a_suite_of_which_nothing_can_run_there_is_refused(client: TestClient) -> None:
    body = {"suite": "ladder", "revision": "r1", "requires": {"device": "cpu"}}
    answer = client.post("/api/v1/submissions", json=body)
    assert answer.status_code == 422
    assert answer.json()["detail"] == "No case of the suite 'ladder' can run on device=cpu."


def test_a_suite_for_gpus_waits_for_one(client: TestClient, hand: Hand) -> None:
    assert hand.name, "the only worker that is known has a CPU"
    made = client.post("/api/v1/submissions", json={"suite": "ladder", "revision": "r1"}).json()
    assert len(made["jobs"]) == len(suite("ladder").cases)


def test_a_workload_that_the_suite_lacks_is_named(client: TestClient) -> None:
    body = {"suite": "ladder", "revision": "r1", "only": ["unet", "vgg"]}
    answer = client.post("/api/v1/submissions", json=body)
    assert answer.status_code == 422
    assert answer.json()["detail"] == (
        "The suite 'ladder' has no workload 'vgg'; choose from: resnet50, nanogpt, unet."
    )


def test_markdown_shows_the_same_and_no_markup_of_strangers(client: TestClient, hand: Hand) -> None:
    measure(hand, "old", 100.0, 200.0, 300.0, 50.0)
    submission = measure(hand, "new", 110.0, 200.0, None, 50.0)
    answer = report(client, submission, against="old", format="markdown")
    assert answer.headers["content-type"].startswith("text/markdown")
    lines = answer.text.splitlines()
    assert lines[0] == "## Cases at new"
    assert any("`resnet50:tiny precision=bf16 workers=4`" in line for line in lines)
    assert any("256 images \\| do not fit." in line for line in lines)
    assert any("+10.0%" in line and "faster" in line for line in lines)
    assert any("missing" in line for line in lines)


@pytest.mark.both_databases
def test_waiting_for_a_submission_ends_when_it_is_finished(client: TestClient, hand: Hand) -> None:
    submission = order(client, f"r-{secrets.token_hex(4)}")
    path = f"/api/v1/submissions/{submission}"
    assert client.get(path, params={"wait_s": 0.2}).json()["finished"] is False
    for _ in CASES:
        hand.measure((1.0,))
    assert client.get(path, params={"wait_s": 30}).json()["finished"] is True
