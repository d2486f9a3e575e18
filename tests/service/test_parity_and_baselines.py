"""A case that computes something else is shown with its speed, and is neither best nor baseline."""

import io
from typing import Any

import pytest
from builders.service_hand import Hand, result_of
from fastapi.testclient import TestClient

from benchmarks.contracts import (
    Agreement,
    Direction,
    Efficiency,
    Lease,
    Parity,
    ParityStatus,
    Result,
    Sample,
    Status,
    Use,
    Work,
)
from cli.client import read
from cli.output import result_table
from cli.output.console import Console
from service.schemas.reports import Report
from service.wording import formats

WRONG = "It computes something else than fp32 eager: the loss up to step 5 is off by 0.4."
CASES = [
    {"workload": "resnet50", "axes": {}},
    {"workload": "resnet50", "axes": {"precision": "bf16"}},
]


def parity(status: ParityStatus, reason: str = "") -> Parity:
    agreement = Agreement(quantity="loss_5", error=0.4, base_error=0.001, allowed=0.004)
    return Parity(status=status, reason=reason, steps=20, agreements=(agreement,), s=12.0)


def answered(lease: Lease, rate: float, status: ParityStatus) -> Result:
    reason = WRONG if status is ParityStatus.FAIL else ""
    rates = (rate - 0.1, rate, rate + 0.1)
    sample = Sample(metric="throughput", unit="img/s", direction=Direction.HIGHER, values=rates)
    efficiency = Efficiency(
        work=Work(flops_per_item=24.3e9, moved_b=2.5 * 2**30),
        dtype="bf16",
        device="NVIDIA H200 SXM",
        peak_flop_per_s=989.5e12,
        uses={
            "full": Use(
                flop_per_s=1e14, mfu=0.101, vs_achievable=0.125, moved_b_per_s=1.5e12, vs_copy=0.35
            )
        },
    )
    failed = status is ParityStatus.FAIL
    return result_of(
        lease,
        status=Status.PARITY_FAIL if failed else Status.OK,
        reason=reason,
        samples=(sample,),
        parity=parity(status, reason),
        efficiency=efficiency,
    )


def measure(hand: Hand, revision: str, *cases: tuple[float, ParityStatus]) -> str:
    body = {"cases": CASES, "revision": revision}
    submission = hand.client.post("/api/v1/submissions", json=body).json()["id"]
    for rate, status in cases:
        lease = hand.must_claim()
        answer = hand.post(lease, answered(lease, rate, status))
        assert answer.status_code == 201, answer.text
    return str(submission)


def rows(client: TestClient, submission: str) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = client.get(f"/api/v1/submissions/{submission}/report").json()[
        "rows"
    ]
    return told


PASS, FAIL = ParityStatus.PASS, ParityStatus.FAIL


def test_a_case_that_fails_parity_has_a_speed_and_no_speedup(
    client: TestClient, hand: Hand
) -> None:
    plain, wrong = rows(client, measure(hand, "r1", (100.0, PASS), (900.0, FAIL)))
    assert (plain["parity"], plain["speedup"]) == ("pass", None)
    assert (wrong["parity"], wrong["status"], wrong["state"]) == ("fail", "parity_fail", "failed")
    assert wrong["throughput"]["value"] == pytest.approx(900)
    assert wrong["speedup"] is None
    assert wrong["reason"] == WRONG
    assert wrong["mfu"] == pytest.approx(0.101)


def test_a_baseline_that_fails_parity_is_no_baseline(client: TestClient, hand: Hand) -> None:
    wrong, good = rows(client, measure(hand, "r1", (100.0, FAIL), (250.0, PASS)))
    assert (wrong["speedup"], good["speedup"]) == (None, None)
    _, good = rows(client, measure(hand, "r2", (100.0, PASS), (250.0, PASS)))
    assert good["speedup"]["value"] == pytest.approx(2.5)


def test_a_baseline_that_was_taken_out_is_no_baseline_until_it_is_put_back(
    client: TestClient, hand: Hand
) -> None:
    submission = measure(hand, "r1", (100.0, PASS), (250.0, PASS))
    plain, fast = rows(client, submission)
    assert fast["speedup"]["value"] == pytest.approx(2.5)
    exclusion = f"/api/v1/results/{plain['result_id']}/exclusion"
    who = {"reason": "Another process held the CPU.", "actor": "ada"}
    assert client.put(exclusion, json=who).is_success
    plain, fast = rows(client, submission)
    assert (plain["throughput"]["value"], fast["speedup"]) == (pytest.approx(100), None)
    assert plain["reason"] == "Excluded: Another process held the CPU."
    assert formats.times(2.5) not in client.get("/cases").text
    assert client.delete(exclusion, params={"actor": "ada"}).is_success
    plain, fast = rows(client, submission)
    assert (plain["reason"], fast["speedup"]["value"]) == ("", pytest.approx(2.5))
    assert formats.times(2.5) in client.get("/cases").text


def test_a_case_that_was_taken_out_is_held_against_no_baseline(
    client: TestClient, hand: Hand
) -> None:
    submission = measure(hand, "r1", (100.0, PASS), (250.0, PASS))
    fast = rows(client, submission)[1]
    who = {"reason": "The clock was set.", "actor": "ada"}
    assert client.put(f"/api/v1/results/{fast['result_id']}/exclusion", json=who).is_success
    fast = rows(client, submission)[1]
    assert (fast["speedup"], fast["reason"]) == (None, "Excluded: The clock was set.")
    assert formats.times(2.5) not in client.get("/cases").text
    told = read(Report, client.get(f"/api/v1/submissions/{submission}/report").text)
    paper = io.StringIO()
    result_table.show(told.rows, Console(file=paper, width=120))
    assert "baseline" not in paper.getvalue()
    assert "Excluded: The clock was set." in paper.getvalue()


@pytest.mark.parametrize("status", [ParityStatus.NONDETERMINISTIC, ParityStatus.SKIPPED])
def test_what_is_not_known_to_be_wrong_counts(
    client: TestClient, hand: Hand, status: ParityStatus
) -> None:
    _, good = rows(client, measure(hand, "r1", (100.0, status), (250.0, status)))
    assert good["speedup"]["value"] == pytest.approx(2.5)
    assert good["parity"] == status.value


def test_a_failing_case_makes_no_point_and_no_comparison(client: TestClient, hand: Hand) -> None:
    measure(hand, "old", (100.0, FAIL), (250.0, PASS))
    measure(hand, "new", (400.0, PASS), (900.0, FAIL))
    query = {"baseline": "old", "contender": "new"}
    changes = client.get("/api/v1/changes", params=query).json()["changes"]
    told = {each["case"]["axes"].get("precision"): each for each in changes}
    assert told[None]["verdict"] == told["bf16"]["verdict"] == "missing"
    assert told[None]["baseline"] is None
    assert told["bf16"]["contender"] is None
    assert told[None]["note"] == "No result of the baseline (failed parity) in the history."
    assert told["bf16"]["note"] == "No result of the contender (failed parity) in the history."


def test_the_table_of_cases_never_holds_a_case_against_a_failing_baseline(
    client: TestClient, hand: Hand
) -> None:
    measure(hand, "r1", (100.0, FAIL), (250.0, PASS))
    assert formats.times(2.5) not in client.get("/cases").text
    measure(hand, "r2", (100.0, PASS), (250.0, PASS))
    assert formats.times(2.5) in client.get("/cases").text


def test_a_gate_calls_a_contender_that_fails_parity_a_regression(
    client: TestClient, hand: Hand
) -> None:
    from service.analysis.gate.pairs import Measured, Trouble

    body = {"cases": CASES, "revision": "r1"}
    client.post("/api/v1/submissions", json=body)
    found = Measured.of(answered(hand.must_claim(), 900.0, FAIL))
    assert (found.trouble, found.metrics, found.reason) == (Trouble.PARITY, {}, WRONG)


def test_the_page_of_a_run_shows_the_speed_beside_what_is_wrong_with_it(
    client: TestClient, hand: Hand
) -> None:
    submission = measure(hand, "r1", (100.0, PASS), (900.0, FAIL))
    good, wrong = (client.get(f"/runs/{row['result_id']}").text for row in rows(client, submission))
    assert "Parity: it computes what fp32 eager computes" in good
    assert "Parity: it computes something else" in wrong
    assert WRONG in wrong
    assert "too far" in wrong
    assert "10.1" in wrong
    assert "of the nominal peak (MFU)" in wrong
    plain = wrong.replace(formats.NBSP, " ")
    assert "<dt>memory traffic</dt><dd>1.50 TB/s</dd>" in plain
    assert "<dt>of the rate of a copy on it</dt><dd>35.0 %</dd>" in plain
    assert "A step must move 2.50 GiB between the device and its memory" in plain
    assert "NVIDIA H200 SXM, bf16" in wrong


def test_table_and_markdown_show_parity_and_utilisation(client: TestClient, hand: Hand) -> None:
    submission = measure(hand, "r1", (100.0, PASS), (900.0, FAIL))
    told = read(Report, client.get(f"/api/v1/submissions/{submission}/report").text)
    paper = io.StringIO()
    result_table.show(told.rows, Console(file=paper, width=120))
    head, *lines = [line for line in paper.getvalue().splitlines() if line.strip()]
    assert ("parity" in head, "MFU" in head) == (True, True)
    (wrong,) = (line for line in lines if "900" in line and "bf16" in line)
    assert "fail" in wrong
    assert "baseline" not in wrong
    assert WRONG in paper.getvalue()
    query = {"format": "markdown"}
    text = client.get(f"/api/v1/submissions/{submission}/report", params=query).text
    assert "| parity | MFU | status |" in text
    assert "| fail | 10.1" in text
