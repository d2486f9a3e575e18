"""A worker keeps its lease while it can, and stops before the service may give the job away."""

from __future__ import annotations

import time

import pytest
from pydantic import SecretStr

from benchmarks.contracts import DeviceReading, Lease, Progress, Worker
from tests.worker.miniature import SECRET, Miniature, eventually, name_of, problem
from worker.attempt import Attempt
from worker.client import Fenced, Refused, ServiceAway, ServiceClient, Ticket
from worker.heartbeat import Cause, Heartbeat, now_s
from worker.loop import WRONG
from worker.startup import run
from worker.stop import Stop


@pytest.fixture
def client(service):
    with ServiceClient(service.url, 2.0) as client:
        yield client


@pytest.fixture
def lease(job):
    def make(lease_s: float = 60.0, heartbeat_s: float = 0.05) -> Lease:
        return Lease(
            job_id=name_of(1),
            group=name_of(1),
            attempt=1,
            secret=SECRET,
            spec=job("ok"),
            lease_s=lease_s,
            heartbeat_s=heartbeat_s,
        )

    return make


def test_the_lease_is_renewed_with_the_latest_progress(client, service: Miniature, lease):
    with Heartbeat(client, lease(), now_s(), 0.75) as heart:
        heart.tell(Progress(phase="full", step=42))
        eventually(lambda: any(b.progress and b.progress.step == 42 for b in service.beats))
        assert heart.cause() is None


def test_a_renewal_carries_what_the_device_says_now(client, service: Miniature, lease):
    read = DeviceReading(temperature_c=61.0, sm_clock_hz=1.755e9)
    with Heartbeat(client, lease(), now_s(), 0.75, lambda: read) as heart:
        heart.tell(Progress(phase="full"))
        eventually(lambda: any(b.progress and b.progress.device == read for b in service.beats))


def test_a_renewal_carries_the_end_of_the_log_when_it_has_changed(
    client, service: Miniature, lease
):
    with Heartbeat(client, lease(), now_s(), 0.75) as heart:
        attempt = Attempt(lease(), heart, Stop())
        attempt.hear(b"line\n" * 1000 + "a\0é\n".encode() * 700)
        eventually(lambda: any(beat.log_tail for beat in service.beats))
        before = len(service.beats)
        eventually(lambda: len(service.beats) > before + 3)
        attempt.hear(b"The end.\n")
        eventually(lambda: (service.beats[-1].log_tail or "").endswith("The end."))
    first, second = (beat.log_tail for beat in service.beats if beat.log_tail is not None)
    assert first
    assert set(first.split("\n")[1:]) == {"aé"}
    assert len(first.encode()) <= 2_000
    assert second
    assert second.endswith("aé\nThe end.")
    assert len(second.encode()) <= 2_000


def test_renewals_keep_a_short_lease_alive(client, service: Miniature, lease):
    service.lease_s = 0.8
    with Heartbeat(client, lease(0.8), now_s(), 0.75) as heart:
        eventually(lambda: len(service.beats) > 25)
        assert heart.cause() is None


@pytest.mark.parametrize("trouble", ["away", "stuck"])
def test_a_worker_that_cannot_renew_stops_before_its_lease_ends(client, service, lease, trouble):
    setattr(service, trouble, True)
    began = time.monotonic()
    with Heartbeat(client, lease(1.0), now_s(), 0.75) as heart:
        eventually(lambda: heart.cause() is Cause.ISOLATED)
        assert 0.7 < time.monotonic() - began < 1.0
        assert 0 < heart.left_s() <= 0.25
        # Once given up, an answer that comes late changes nothing.
        setattr(service, trouble, False)
    assert heart.cause() is Cause.ISOLATED


def test_the_lease_counts_from_when_the_request_was_sent(client, lease):
    with Heartbeat(client, lease(60.0, 30.0), now_s() - 50.0, 0.75) as heart:
        assert heart.cause() is Cause.ISOLATED


def test_a_fenced_worker_learns_it_at_the_next_heartbeat(client, service, lease):
    service.fenced = True
    with Heartbeat(client, lease(), now_s(), 0.75) as heart:
        eventually(lambda: heart.cause() is Cause.FENCED)


def test_a_cancelled_job_is_heard_of_at_the_next_heartbeat(client, service, lease):
    service.cancel = True
    with Heartbeat(client, lease(), now_s(), 0.75) as heart:
        eventually(lambda: heart.cause() is Cause.CANCELLED)


def test_answers_become_errors_that_say_what_to_do(client, service):
    ticket = Ticket(name_of(1), 1, SECRET)
    service.fenced = True
    with pytest.raises(Fenced, match="not yours any more"):
        client.start(ticket)
    service.fenced = False
    service.refuse = "{}"
    with pytest.raises(Refused, match="no valid Result"):
        client.post_result(ticket, b"{}")
    service.away = True
    with pytest.raises(ServiceAway, match="does not answer"):
        client.start(ticket)
    assert SECRET not in str(ticket)


@pytest.mark.parametrize(
    "told",
    [
        (200, "<html>Sign in</html>"),
        (200, '{"hello": "world"}'),
        (204, ""),
        (302, "<html>Sign in</html>"),
        (404, "404 page not found"),
        (404, '{"detail": "Not Found"}'),
        (409, "Conflict"),
        (413, "Request Entity Too Large"),
    ],
    ids=str,
)
def test_no_stranger_takes_or_refuses_a_result(client, service, told):
    """Such as a captive portal, or a proxy before a service that is elsewhere by now."""
    service.stranger = told
    with pytest.raises(ServiceAway, match="not as a Throughline service does"):
        client.post_result(Ticket(name_of(1), 1, SECRET), b"{}")


def test_a_refusal_of_the_services_own_is_one(client, service):
    service.stranger = problem(413, "The result is larger than this service accepts.")
    with pytest.raises(Refused, match="larger than this service accepts"):
        client.post_result(Ticket(name_of(1), 1, SECRET), b"{}")


@pytest.mark.parametrize(
    "garbage", ["tl_\u2026".encode("utf-16"), "tl_\u2026".encode(), b"\xff\xfe\0"]
)
def test_a_token_file_that_is_written_anew_costs_no_lease(
    service, settings, lease, garbage, tmp_path
):
    path = tmp_path / "token"
    path.write_bytes(b"tl_abc")
    shown = settings.model_copy(update={"token_file": path})
    with ServiceClient(service.url, 2.0, shown.read_token) as client:
        client.register(Worker(name="w1"))
        path.write_bytes(garbage)
        with Heartbeat(client, lease(), now_s(), 0.75) as heart:
            with pytest.raises(ServiceAway, match="is no token"):
                client.post_result(Ticket(name_of(1), 1, SECRET), b"{}")
            time.sleep(0.2)
            assert not service.beats
            path.write_bytes(b"tl_abc")
            eventually(lambda: service.beats)
            assert heart.cause() is None


def test_a_worker_whose_token_was_never_one_ends_with_one_sentence(service, settings, caplog):
    for token in ("tl_\u2026", "tl_\nabc"):
        told = {"url": service.url, "token": SecretStr(token)}
        assert run(settings.model_copy(update=told), Stop()) == WRONG
    assert caplog.text.count("The worker's token is no token: it begins with tl_.") == 2


def test_nothing_that_goes_wrong_with_one_renewal_ends_the_others(
    client, service, lease, monkeypatch
):
    with Heartbeat(client, lease(), now_s(), 0.75) as heart:
        with monkeypatch.context() as patched:
            patched.setattr(client, "heartbeat", lambda *told: 1 / 0)
            time.sleep(0.2)
        before = len(service.beats)
        eventually(lambda: len(service.beats) > before + 2)
        assert heart.cause() is None


@pytest.mark.parametrize("url", ["", "localhost:8765", "ftp://host", "http://host:port"])
def test_an_address_that_cannot_be_right_is_said_so(url):
    with pytest.raises(Refused, match="address"), ServiceClient(url, 1.0) as client:
        client.start(Ticket(name_of(1), 1, SECRET))
