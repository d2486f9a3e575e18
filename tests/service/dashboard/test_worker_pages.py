"""A worker's page tells what waits for it, and how its machine was."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from builders.service_hand import Hand, result_of
from fastapi.testclient import TestClient

from benchmarks.contracts import Canary, Direction, Sample, Status
from service.dashboard.worker_pages import readings, readings_of, waiting_for

Submit = Callable[..., dict[str, Any]]


def canary(launch_s: float, at: datetime) -> Canary:
    return Canary(measured_at=at, readings={"launch_s": launch_s})


def clock(hz: float) -> Sample:
    higher = Direction.HIGHER
    return Sample(metric="sm_clock", unit="Hz", direction=higher, values=(hz,))


def test_readings_are_shown_against_what_is_usual(
    client: TestClient, hand: Hand, submit: Submit
) -> None:
    now = datetime.now(UTC)
    for number, (launch_s, hz) in enumerate(((3e-6, 1.7e9), (3e-6, 1.7e9), (6e-6, 1.36e9))):
        submit(f"r{number}")
        at = now - timedelta(hours=9 - number)
        lease = hand.must_claim()
        told = {"measured_at": at, "canary": canary(launch_s, at), "samples": (clock(hz),)}
        assert hand.start(lease).is_success
        assert hand.post(lease, result_of(lease, **told)).status_code == 201
    text = client.get(f"/workers/{hand.name}").text.replace("\u00a0", " ")
    assert "+100 %" in text
    assert "\u221220.0 %" in text
    assert "1,360 MHz" in text
    assert "3 µs" in text


def test_a_canary_that_several_results_tell_of_counts_once() -> None:
    at, later = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
    told = [(1.0, at), (1.0, at), (1.0, at), (2.0, later)]
    documents = [
        {"canary": {"measured_at": at, "readings": {"python_s": value}}} for value, at in told
    ]
    (found,) = readings(map(readings_of, documents))
    assert (found.newest, found.usual) == (2.0, 1.0)
    assert "2 readings" in found.spark
    assert list(readings(map(readings_of, [{"canary": None}, {}]))) == []


def test_only_jobs_that_it_could_take_wait_for_a_worker() -> None:
    queued = [({"device": "cuda"}, 10.0), ({}, 5.0), ({"device": "cuda", "pool": "x"}, 1.0)]
    found = waiting_for({"device": "cuda"}, queued)
    assert (found.jobs, found.takes_s) == (2, 15.0)


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
    assert "1 job<span" in client.get("/workers").text.replace("\u00a0", " ")


@pytest.mark.parametrize("name", ["nobody", "x" * 200])
def test_a_worker_that_is_not_known_is_not_found(client: TestClient, name: str) -> None:
    assert client.get(f"/workers/{name}").status_code == 404
