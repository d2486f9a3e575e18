"""Whoever has the service's address: its answers cost the worker neither its memory nor its end."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from builders import hostile

from tests.worker.miniature import SECRET, Miniature, eventually
from worker.client import LARGEST_ANSWER_B, ServiceAway, ServiceClient, Ticket
from worker.http_exchange import SLOWEST_UPLOAD_B_S, Bounds, Exchange, GivenUp, TooLarge, TooSlow
from worker.state_dir import Journal
from worker.stop import Stop

TICKET = Ticket("1" * 32, 1, SECRET)
SOON_S = 6.0
"""A few seconds, on a machine under load."""


@pytest.mark.parametrize("behaviour", hostile.SLOW, ids=lambda each: each.__name__)
def test_an_answer_is_bounded_in_time_as_a_whole(behaviour: hostile.Behaviour) -> None:
    with hostile.answering(behaviour) as server, ServiceClient(server.url, 1.0) as client:
        began_s = time.monotonic()
        with pytest.raises(ServiceAway):
            client.start(TICKET)
        assert time.monotonic() - began_s < SOON_S


@pytest.mark.parametrize("behaviour", hostile.LARGE, ids=lambda each: each.__name__)
def test_an_answer_is_bounded_in_bytes(behaviour: hostile.Behaviour) -> None:
    with hostile.answering(behaviour) as server, ServiceClient(server.url, 30.0) as client:
        before_b = peak_b()
        began_s = time.monotonic()
        with pytest.raises(ServiceAway):
            client.start(TICKET)
        assert time.monotonic() - began_s < 25.0
        assert peak_b() - before_b < 64 * 2**20


def test_a_redirect_is_not_followed() -> None:
    with (
        hostile.answering(hostile.redirect) as server,
        ServiceClient(server.url, 5.0) as client,
        pytest.raises(ServiceAway, match="not as a Throughline service does"),
    ):
        client.start(TICKET)
    assert server.asked == 1


def test_a_redirect_that_may_be_followed_is_bounded_too() -> None:
    follows = Bounds(1_024, 30.0, follows=True)
    with (
        hostile.answering(hostile.endless_redirect) as server,
        Exchange(server.url, 30.0, {}) as exchange,
    ):
        before_b = peak_b()
        with pytest.raises(TooLarge):
            exchange.ask("GET", "/", follows)
        assert peak_b() - before_b < 64 * 2**20


def test_a_redirect_is_followed_once_and_without_the_token() -> None:
    with (
        hostile.answering(hostile.redirect) as server,
        Exchange(server.url, 30.0, {"Authorization": "Bearer secret"}) as exchange,
    ):
        answer = exchange.ask("GET", "/trace", Bounds(1_024, 30.0, follows=True))
    assert answer.status_code == 307
    first, second = server.requests.split(b"\r\n\r\n", 1)
    assert b"GET /trace" in first
    assert b"secret" in first
    assert b"GET /api/v1/x" in second
    assert b"secret" not in second
    assert b"identity" in second


def test_who_does_not_read_what_he_is_sent_is_given_up() -> None:
    with hostile.answering(hostile.never_anything) as server:
        server.reads = False
        with ServiceClient(server.url, 0.5) as client:
            began_s = time.monotonic()
            with pytest.raises(ServiceAway):
                client.post_result(TICKET, bytes(int(SLOWEST_UPLOAD_B_S)))
            assert time.monotonic() - began_s < SOON_S


def test_what_each_bound_says() -> None:
    with (
        hostile.answering(hostile.dripping_body) as server,
        Exchange(server.url, 30.0, {}) as exchange,
    ):
        with pytest.raises(TooSlow, match="not complete after 1 s"):
            exchange.ask("GET", "/", Bounds(100, 1.0))
        with pytest.raises(TooLarge, match="more than"):
            exchange.ask("GET", "/", Bounds(1, 30.0))
        with pytest.raises(GivenUp, match="nobody waits"):
            exchange.ask("GET", "/", Bounds(100, 30.0, lambda: False))
    with (
        hostile.answering(hostile.packed) as server,
        Exchange(server.url, 30.0, {}) as exchange,
        pytest.raises(TooLarge, match="packed"),
    ):
        exchange.ask("GET", "/", Bounds(LARGEST_ANSWER_B, 30.0))


@contextmanager
def working(settings, url: str, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A worker as a process of its own, with the usual times."""
    told = {
        "THROUGHLINE_STATE_DIR": str(settings.state_dir),
        "THROUGHLINE_WORKER_NAME": settings.worker_name,
        "THROUGHLINE_CLAIM_WAIT_S": "30",
        "THROUGHLINE_BACKOFF_FIRST_S": "0.05",
        "TMPDIR": str(tmp_path / "tmp"),
    }
    command = [sys.executable, "-m", "worker", "--url", url, "--device", "cpu"]
    with (tmp_path / "worker.log").open("ab") as log:
        process = subprocess.Popen(command, env=os.environ | told, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def ends_soon(process: subprocess.Popen[bytes], number: int = signal.SIGTERM) -> bool:
    began_s = time.monotonic()
    process.send_signal(number)
    return process.wait(60) == 0 and time.monotonic() - began_s < SOON_S


@pytest.mark.parametrize("behaviour", hostile.SLOW, ids=lambda each: each.__name__)
def test_one_signal_ends_a_worker_whose_request_hangs(settings, tmp_path, behaviour) -> None:
    with (
        hostile.answering(behaviour) as server,
        working(settings, server.url, tmp_path) as process,
    ):
        eventually(lambda: server.asked)
        assert ends_soon(process)


def test_one_signal_ends_a_worker_that_waits_for_a_claim(
    settings, service: Miniature, tmp_path
) -> None:
    """The longest that a service may hold a claim is 30 s."""
    with working(settings, service.url, tmp_path) as process:
        eventually(lambda: any(path == "/leases" for _, path in service.requests))
        assert ends_soon(process)
    assert Journal(settings.folder).pending() is not None  # asked for again at the next start


def test_a_lease_that_comes_as_the_worker_stops_is_given_back(worker, service: Miniature) -> None:
    with worker(claim_wait_s=30.0) as stop:
        eventually(lambda: any(path == "/leases" for _, path in service.requests))
        stop.ask()
        service.submit("ok")
        eventually(lambda: service.released)
    assert service.released == ["The worker is stopping."]
    assert not service.started


@pytest.mark.parametrize("trouble", [pytest.param("away", marks=pytest.mark.slow), "hanging"])
def test_one_signal_ends_a_worker_that_cannot_deliver(
    settings, service: Miniature, tmp_path, trouble: str
) -> None:
    """Its result lies in the spool, and is sent at the next start."""
    spooled = settings.folder / "spool" / f"{1:020d}.result"
    spooled.parent.mkdir(parents=True)
    head = f'{{"job_id": "{TICKET.job_id}", "attempt": 1, "secret": "{SECRET}"}}'
    spooled.write_text(f"{head}\n{{}}")
    service.deaf_to, service.hangs_at = ("/result", "") if trouble == "away" else ("", "/result")
    with working(settings, service.url, tmp_path) as process:
        eventually(lambda: any(path.endswith("/result") for _, path in service.requests))
        began_s = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert time.monotonic() - began_s < 5.0 + SOON_S
    assert spooled.exists()


def test_a_heartbeat_that_hangs_holds_no_finished_job_up(worker, service: Miniature) -> None:
    service.stuck = True
    service.submit("slow")
    with worker(request_timeout_s=60.0):
        eventually(lambda: service.results)


def test_who_was_asked_once_goes_on_for_the_time_that_is_named() -> None:
    stop = Stop()
    assert stop.allows(0.0)
    stop.ask()
    assert stop.allows(60.0)
    assert not stop.allows(0.0)


def test_a_client_that_is_closed_leaves_no_thread_and_no_connection() -> None:
    with hostile.answering(hostile.redirect) as server, ServiceClient(server.url, 5.0) as client:
        with pytest.raises(ServiceAway):
            client.start(TICKET)
        assert any(thread.name == "http" for thread in threading.enumerate())
    assert not any(thread.name == "http" for thread in threading.enumerate())
    port = int(server.url.rpartition(":")[2])
    ours = psutil.Process().net_connections()
    assert not any(each.raddr and each.raddr.port == port for each in ours)


def peak_b() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
