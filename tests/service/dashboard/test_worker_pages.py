"""A worker's page tells what waits for it, and how its machine was."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from builders.service_hand import Hand, result_of
from fastapi.testclient import TestClient

from benchmarks.contracts import Canary, Direction, Sample, Status
from service.dashboard import queries
from service.models.project_filter import restrict

Submit = Callable[..., dict[str, Any]]


def canary(launch_s: float, at: datetime) -> Canary:
    readings = {"launch_s": launch_s, "all_reduce_1gib_b_s": 3.6e11}
    return Canary(measured_at=at, readings=readings, facts={"nccl": "2.28.9"})


def clock(hz: float) -> Sample:
    higher = Direction.HIGHER
    return Sample(metric="sm_clock", unit="Hz", direction=higher, values=(hz,))


def test_readings_are_shown_against_what_is_usual(
    client: TestClient, hand: Hand, submit: Submit
) -> None:
    now = datetime.now(UTC)
    measured = [
        ("resnet50", 3e-6, 9, 1.7e9),
        ("resnet50", 3e-6, 9, 1.7e9),
        ("unet", 3e-6, 7, 0.9e9),
        ("resnet50", 6e-6, 6, 1.36e9),
    ]
    for number, (workload, launch_s, hours, hz) in enumerate(measured):
        submit(f"r{number}", workload)
        at = now - timedelta(hours=5 - number)
        read = canary(launch_s, now - timedelta(hours=hours))
        lease = hand.must_claim()
        told = {"measured_at": at, "canary": read, "samples": (clock(hz),)}
        assert hand.start(lease).is_success
        assert hand.post(lease, result_of(lease, **told)).status_code == 201
    text = client.get(f"/workers/{hand.name}").text.replace("\u00a0", " ")
    assert "+100 %" in text, "the canary against those before"
    assert "\u221220.0 %" in text, (
        "the clock against the same case's: another has a clock of its own"
    )
    assert "SM clock, resnet50" in text
    assert "1,360 MHz" in text
    readings = text.count("3 readings, the newest")
    assert readings == 3, "a canary that two results tell of is one"
    assert "all-reduce of 1 GiB, bus bandwidth" in text
    assert "Between its GPUs: nccl 2.28.9." in text


def test_a_worker_that_measures_shows_its_device_now(
    client: TestClient, hand: Hand, submit: Submit
) -> None:
    submit("r1", "resnet50")
    lease = hand.must_claim()
    hand.start(lease)
    device = {"temperature_c": 61.0, "sm_clock_hz": 1.755e9}
    assert hand.beat(lease, phase="full", device=device).is_success
    for page in ("/workers", f"/workers/{hand.name}"):
        text = client.get(page).text.replace("\u00a0", " ")
        assert "61 °C · 1,755 MHz" in text, page


def test_a_job_shows_its_log_while_it_runs(client: TestClient, hand: Hand, submit: Submit) -> None:
    submit("r1", "resnet50")
    lease = hand.must_claim()
    hand.start(lease)
    page = f"/jobs/{lease.job_id}"
    assert "Log, so far" not in client.get(page).text
    assert hand.tell(lease, "heartbeat", {"log_tail": "Loading <b>data</b>"}).is_success
    text = client.get(page).text
    assert "Log, so far" in text
    assert "Loading &lt;b&gt;data&lt;/b&gt;" in text
    assert 'data-live="2"' in text
    hand.post(lease, result_of(lease))
    assert "Log, so far" not in client.get(page).text


@pytest.mark.both_databases
def test_only_jobs_that_it_could_take_wait_for_a_worker(
    client: TestClient, hand: Hand, submit: Submit
) -> None:
    large = Hand(client, "large")
    large.introduce(device="cuda", gpus="8")
    for requires in (*[{"worker": "large"}] * 3, {"gpus": "2"}, {"device": "cpu"}):
        submit("r1", requires=requires)
    database = client.app.state.database  # type: ignore[attr-defined]
    with database.reading() as session:
        assert queries.queued_for(session) == {"large": 4, hand.name: 1}
        restrict(session, "elsewhere")
        assert queries.queued_for(session) == {}
    assert "<b>4</b> queued jobs could go to it" in client.get("/workers/large").text
    assert "4 jobs</td>" in client.get("/workers").text


def test_its_page_shows_its_lease_its_queue_and_its_failures(
    client: TestClient, hand: Hand, submit: Submit
) -> None:
    submit("r1")
    hand.measure(status=Status.OOM, samples=(), reason="too large")
    held, _ = submit("r2"), submit("r3")
    lease = hand.must_claim()
    assert hand.start(lease).is_success
    text = client.get(f"/workers/{hand.name}").text.replace("\u00a0", " ")
    assert f"/jobs/{held['jobs'][0]['id']}" in text
    assert "<b>1</b> queued job could go to it" in text
    assert "out of memory" in text
    assert "1 job</td>" in client.get("/workers").text.replace("\u00a0", " ")


@pytest.mark.parametrize("name", ["nobody", "x" * 200])
def test_a_worker_that_is_not_known_is_not_found(client: TestClient, name: str) -> None:
    assert client.get(f"/workers/{name}").status_code == 404
