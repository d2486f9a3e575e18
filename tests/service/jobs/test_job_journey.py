"""One job by HTTP, from the submission to the series; and what must not happen on the way."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from builders.service_hand import FACTS, Hand, result_of
from fastapi.testclient import TestClient
from httpx2 import Response
from sqlalchemy import text, update

from benchmarks.contracts import Status
from service.database.session import Database, now_of
from service.jobs.workers import PRESENT
from service.models import WorkerRow

pytestmark = pytest.mark.both_databases

Submit = Callable[..., dict[str, Any]]


def get(client: TestClient, path: str) -> Any:
    answer = client.get(f"/api/v1{path}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_job_travels_from_submission_to_series(
    client: TestClient, hand: Hand, submit: Submit
) -> None:
    submission = submit(axes={"precision": "bf16"})
    assert not submission["finished"]
    assert submission["counts"] == {"queued": 1}
    lease = hand.must_claim()
    assert lease.job_id == submission["jobs"][0]["id"]
    assert (lease.attempt, lease.lease_s, lease.heartbeat_s) == (1, 60.0, 10.0)
    assert hand.start(lease).status_code == 204
    beat = hand.beat(lease, phase="warmup", step=3)
    assert beat.json() == {"lease_s": 60.0, "cancel": False}
    job = get(client, f"/jobs/{lease.job_id}")
    assert (job["state"], job["attempts"][0]["progress"]["phase"]) == ("running", "warmup")
    for log_tail in ("<b>one", "<b>two"):
        assert hand.tell(lease, "heartbeat", {"log_tail": log_tail}).is_success
    assert hand.beat(lease, phase="full").is_success
    (attempt,) = get(client, f"/jobs/{lease.job_id}")["attempts"]
    assert (attempt["log_tail"], attempt["progress"]["phase"]) == ("<b>two", "full")
    assert hand.tell(lease, "heartbeat", {"log_tail": "x" * 2_001}).status_code == 422
    posted = hand.post(lease, result_of(lease))
    assert posted.status_code == 201
    assert posted.json()["counted"] is True
    assert get(client, f"/jobs/{lease.job_id}")["attempts"][0]["log_tail"] is None

    finished = get(client, f"/submissions/{submission['id']}")
    assert finished["finished"]
    assert finished["counts"] == {"succeeded": 1}
    assert finished["jobs"][0]["result_id"] == posted.json()["id"]
    result = get(client, f"/results/{posted.json()['id']}")
    assert result["result"]["case"] == {
        "workload": "resnet50",
        "preset": "tiny",
        "axes": {"precision": "bf16"},
    }
    assert get(client, f"/environments/{result['environment']}")["facts"] == FACTS
    (series,) = get(client, "/series?metric=throughput&workload=resnet50")["items"]
    (point,) = get(client, f"/series/{series['id']}")["points"]
    assert point["revision"] == "r1"
    assert point["value"] == pytest.approx(100)
    assert point["interval"] == "replicates"
    assert point["high"] - point["value"] == pytest.approx(4.302652729911275 / 3**0.5)


def test_a_worker_with_the_name_of_one_that_works_elsewhere_is_refused(
    client: TestClient, database: Database
) -> None:
    def introduced(folder: str | None) -> Response:
        labels = {"host": f"host-of-{folder}"} | ({"folder": folder} if folder else {})
        return client.put("/api/v1/workers/w7", json={"name": "w7", "labels": labels})

    assert introduced("a").status_code == 200
    assert introduced("a").status_code == 200, "it was started again"
    refused = introduced("b")
    assert refused.status_code == 409
    assert "Another worker named w7 works on host-of-a" in refused.json()["detail"]
    (known,) = [each for each in get(client, "/workers")["items"] if each["name"] == "w7"]
    assert known["labels"]["folder"] == "a", "what is refused changes nothing"
    with database.writing() as session:
        long_ago = now_of(session) - PRESENT
        session.execute(
            update(WorkerRow).where(WorkerRow.name == "w7").values(last_seen_at=long_ago)
        )
    assert introduced("b").status_code == 200, "the other has gone"
    assert introduced(None).status_code == 200, "who does not say is believed"


def test_a_result_for_a_comparison_is_kept_and_makes_no_point(
    client: TestClient, hand: Hand, submit: Submit
) -> None:
    submission = submit(purpose="comparison")
    lease = hand.must_claim()
    hand.start(lease)
    posted = hand.post(lease, result_of(lease)).json()

    assert posted["counted"] is True
    assert submission["jobs"][0]["purpose"] == "comparison"
    assert get(client, f"/results/{posted['id']}")["counted"] is True
    assert get(client, "/series")["items"] == []


def test_a_zombie_cannot_finish_a_job(
    client: TestClient, hand: Hand, submit: Submit, expire: Callable[[], Any]
) -> None:
    submit()
    frozen = hand.must_claim()
    hand.start(frozen)
    expire()
    other = Hand(client, "w2")
    other.introduce(device="cpu")
    lease = other.must_claim()
    assert (lease.job_id, lease.attempt) == (frozen.job_id, 2)
    other.start(lease)

    for answer in (hand.start(frozen), hand.beat(frozen)):
        assert (answer.status_code, answer.json()["type"]) == (409, "fenced")
    late = hand.post(frozen, result_of(frozen, (1.0,)))
    assert (late.status_code, late.json()["type"]) == (409, "fenced")
    assert get(client, f"/jobs/{lease.job_id}")["state"] == "running"
    assert other.post(lease, result_of(lease, (2.0,))).status_code == 201
    states = [each["state"] for each in get(client, f"/jobs/{lease.job_id}")["attempts"]]
    assert states == ["lost", "succeeded"]


def test_a_late_result_is_kept_and_shown_and_never_counted(
    client: TestClient, hand: Hand, submit: Submit, expire: Callable[[], Any]
) -> None:
    submit()
    lease = hand.must_claim()
    expire()
    for _ in range(2):
        assert hand.post(lease, result_of(lease)).status_code == 409
    (kept,) = get(client, "/results")["items"]
    assert (kept["counted"], kept["attempt"]) == (False, 1)
    assert get(client, "/series")["items"] == []
    assert get(client, f"/jobs/{lease.job_id}")["state"] == "queued"


def test_a_wrong_secret_changes_nothing(client: TestClient, hand: Hand, submit: Submit) -> None:
    submit()
    lease = hand.must_claim()
    wrong = "0" * 64
    result = result_of(lease).model_dump(mode="json")
    for what, body in (("start", None), ("heartbeat", {}), ("result", result), ("release", {})):
        answer = hand.tell(lease, what, body, secret=wrong)
        assert (answer.status_code, answer.json()["type"]) == (409, "fenced"), what
    assert get(client, f"/jobs/{lease.job_id}")["attempts"][0]["state"] == "granted"
    assert get(client, "/results")["items"] == []


def test_the_same_claim_gets_the_same_lease(hand: Hand, submit: Submit) -> None:
    submit()
    submit()
    claim_id = "a" * 32
    first, again = hand.claim(claim_id), hand.claim(claim_id)
    assert first == again
    other = hand.claim()
    assert other is not None
    assert first is not None
    assert other.job_id != first.job_id


def test_a_claim_id_of_another_worker_is_refused(
    client: TestClient, hand: Hand, submit: Submit
) -> None:
    submit()
    hand.claim("a" * 32)
    other = Hand(client, "w2")
    other.introduce(device="cpu")
    answer = client.post("/api/v1/leases", json={"worker": "w2", "claim_id": "a" * 32})
    assert (answer.status_code, answer.json()["type"]) == (409, "conflict")


def test_what_is_wrong_with_a_workers_machine_is_on_its_page_until_it_is_mended(
    client: TestClient,
) -> None:
    warning = "power: The GPU may draw 500 W; by default it may draw 700 W."
    for told in ([warning], []):
        answer = client.put("/api/v1/workers/w7", json={"name": "w7", "warnings": told})
        assert answer.json()["warnings"] == told
        assert (warning in client.get("/workers").text) is bool(told)


def test_an_unknown_worker_is_told_to_introduce_itself(client: TestClient) -> None:
    answer = client.post("/api/v1/leases", json={"worker": "w9", "claim_id": "a" * 32})
    assert answer.status_code == 404
    assert "PUT /api/v1/workers" in answer.json()["detail"]


def test_the_same_result_is_answered_alike_and_another_is_refused(
    client: TestClient, hand: Hand, submit: Submit
) -> None:
    submit()
    lease = hand.must_claim()
    first = hand.post(lease, result_of(lease, (1.0, 2.0)))
    again = hand.post(lease, result_of(lease, (1.0, 2.0)))
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    other = hand.post(lease, result_of(lease, (1.0, 2.5)))
    assert (other.status_code, other.json()["type"]) == (409, "conflict")
    assert len(get(client, "/results")["items"]) == 1


@pytest.mark.parametrize(
    ("status", "attempt", "job"),
    [
        (Status.OOM, "failed", "failed"),
        (Status.UNSUPPORTED, "failed", "failed"),
        (Status.UNBUILDABLE, "failed", "failed"),
        (Status.CRASHED, "failed", "failed"),
        (Status.TIMEOUT, "timed_out", "failed"),
        (Status.CANCELLED, "cancelled", "cancelled"),
    ],
)
def test_a_failed_benchmark_is_stored_with_its_reason_and_not_retried(
    client: TestClient, hand: Hand, submit: Submit, status: Status, attempt: str, job: str
) -> None:
    submit()
    lease = hand.must_claim()
    answer = hand.post(lease, result_of(lease, status=status, reason="It did not fit."))
    assert answer.status_code == 201
    shown = get(client, f"/jobs/{lease.job_id}")
    assert (shown["state"], shown["reason"]) == (job, "It did not fit.")
    assert shown["attempts"][0]["state"] == attempt
    assert hand.claim() is None
    assert get(client, "/series")["items"] == []


@pytest.mark.parametrize(
    "fault",
    [
        {"case": {"workload": "nanogpt", "preset": "tiny"}},
        {"case": {"workload": "resnet50", "preset": "auto"}},
        {"measured_at": datetime(1, 1, 1, tzinfo=UTC)},
        {"samples": ({"metric": "m", "unit": "s", "direction": "lower", "values": [1.0]},) * 2},
    ],
)
def test_a_result_that_cannot_be_is_refused_and_changes_nothing(
    client: TestClient, hand: Hand, submit: Submit, fault: dict[str, Any]
) -> None:
    submit()
    lease = hand.must_claim()
    answer = hand.post(lease, result_of(lease, **fault))
    assert (answer.status_code, answer.json()["type"]) == (422, "invalid")
    assert get(client, f"/jobs/{lease.job_id}")["state"] == "leased"
    assert hand.post(lease, result_of(lease)).status_code == 201


def test_a_released_job_is_queued_again_unharmed(
    client: TestClient, hand: Hand, submit: Submit
) -> None:
    submit()
    lease = hand.must_claim()
    assert hand.tell(lease, "release", {"reason": "Stopping."}).status_code == 204
    job = get(client, f"/jobs/{lease.job_id}")
    assert (job["state"], job["lost_attempts"]) == ("queued", 0)
    assert (job["attempts"][0]["state"], job["attempts"][0]["reason"]) == ("rejected", "Stopping.")
    assert hand.must_claim().attempt == 2


def test_a_queued_job_is_cancelled_at_once(client: TestClient, hand: Hand, submit: Submit) -> None:
    job_id = submit()["jobs"][0]["id"]
    for _ in range(2):
        answer = client.post(f"/api/v1/jobs/{job_id}/cancel")
        assert (answer.status_code, answer.json()["state"]) == (200, "cancelled")
    assert hand.claim() is None


def test_a_running_job_is_cancelled_through_its_worker(
    client: TestClient, hand: Hand, submit: Submit
) -> None:
    submit()
    lease = hand.must_claim()
    hand.start(lease)
    answer = client.post(f"/api/v1/jobs/{lease.job_id}/cancel")
    assert (answer.json()["state"], answer.json()["cancel_requested"]) == ("running", True)
    assert hand.beat(lease).json()["cancel"] is True
    hand.post(lease, result_of(lease, status=Status.CANCELLED))
    assert get(client, f"/jobs/{lease.job_id}")["state"] == "cancelled"


@pytest.mark.parametrize("way", ["lost", "released"])
def test_a_cancelled_job_whose_worker_lets_go_is_not_queued_again(
    client: TestClient, hand: Hand, submit: Submit, expire: Callable[[], Any], way: str
) -> None:
    submit()
    lease = hand.must_claim()
    client.post(f"/api/v1/jobs/{lease.job_id}/cancel")
    if way == "lost":
        expire()
    else:
        hand.tell(lease, "release", {"reason": ""})
    assert get(client, f"/jobs/{lease.job_id}")["state"] == "cancelled"


def test_a_job_goes_to_a_worker_that_has_its_labels(
    client: TestClient, hand: Hand, submit: Submit
) -> None:
    submit(requires={"device": "cuda", "host": "node-7"})
    assert hand.claim() is None
    gpu = Hand(client, "w2")
    gpu.introduce(device="cuda", host="node-8")
    assert gpu.claim() is None
    gpu.introduce(device="cuda", host="node-7", gpu="H200")
    assert gpu.claim() is not None


def test_priority_goes_first_and_then_age(hand: Hand, submit: Submit) -> None:
    submit("old")
    submit("new", requires={"device": "cpu"})
    submit("urgent", priority=5)
    taken = [hand.must_claim().spec.revision for _ in range(3)]
    assert taken == ["urgent", "old", "new"]


def test_a_lost_job_goes_to_another_worker_first(
    client: TestClient, hand: Hand, submit: Submit, expire: Callable[[], Any]
) -> None:
    other = Hand(client, "w2")
    other.introduce(device="cpu")
    submit()
    hand.must_claim()
    expire()
    assert hand.claim() is None
    assert other.claim() is not None


def test_a_lost_job_comes_back_to_the_only_worker(
    hand: Hand, submit: Submit, expire: Callable[[], Any]
) -> None:
    submit()
    hand.must_claim()
    expire()
    assert hand.must_claim().attempt == 2


def test_a_job_that_is_lost_three_times_is_quarantined(
    client: TestClient, hand: Hand, submit: Submit, expire: Callable[[], Any]
) -> None:
    submit()
    for attempt in (1, 2, 3):
        lease = hand.must_claim()
        assert lease.attempt == attempt
        expire()
    job = get(client, f"/jobs/{lease.job_id}")
    assert (job["state"], job["lost_attempts"]) == ("quarantined", 3)
    assert "submit the job again" in job["reason"]
    assert hand.claim() is None


def test_a_claim_waits_for_work(hand: Hand, submit: Submit) -> None:
    submit()
    assert hand.claim(wait_s=5) is not None
    assert hand.claim(wait_s=0.2) is None


def test_history_is_ordered_by_revision_and_not_by_arrival(
    client: TestClient, hand: Hand, submit: Submit
) -> None:
    for day, revision in ((3, "c"), (1, "a"), (2, "b")):
        submit(revision, revision_at=f"2026-01-0{day}T00:00:00Z")
        hand.measure((float(day),))
    (series,) = get(client, "/series")["items"]
    points = get(client, f"/series/{series['id']}")["points"]
    assert [point["revision"] for point in points] == ["a", "b", "c"]


def test_a_date_that_is_learnt_late_moves_the_points(
    client: TestClient, hand: Hand, submit: Submit
) -> None:
    submit("dated", revision_at="2026-01-02T00:00:00Z")
    hand.measure((1.0,))
    submit("undated")
    hand.measure((2.0,))
    (series,) = get(client, "/series")["items"]
    order = [point["revision"] for point in get(client, f"/series/{series['id']}")["points"]]
    assert order == ["dated", "undated"]
    submit("undated", revision_at="2026-01-01T00:00:00Z")
    points = get(client, f"/series/{series['id']}")["points"]
    assert [point["revision"] for point in points] == ["undated", "dated"]
    assert points[0]["revision_at"].startswith("2026-01-01T00:00:00")
    submit("undated")  # says no date, so the one that is known stays
    assert get(client, f"/series/{series['id']}")["points"] == points


def test_hardware_parts_series_and_software_does_not(
    client: TestClient, hand: Hand, submit: Submit
) -> None:
    for facts in (FACTS, FACTS | {"sw.torch": "2.14"}, FACTS | {"hw.cpu.model": "Other"}):
        submit()
        hand.measure((1.0,), facts=facts)
    lengths = [
        len(get(client, f"/series/{series['id']}")["points"])
        for series in get(client, "/series")["items"]
    ]
    assert sorted(lengths) == [1, 2]


def test_a_claim_extends_the_lease_that_it_repeats(
    hand: Hand, submit: Submit, client: TestClient
) -> None:
    submit()
    lease = hand.claim("b" * 32)
    assert lease is not None
    database = client.app.state.database  # type: ignore[attr-defined]
    expiry = text("SELECT lease_expires_at FROM attempts")
    with database.reading() as session:
        before = session.execute(expiry).scalar_one()
    hand.claim("b" * 32)
    with database.reading() as session:
        assert session.execute(expiry).scalar_one() >= before
