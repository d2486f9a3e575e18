"""A whole worker against a real HTTP service: what it promises when things go wrong."""

from __future__ import annotations

import socket
import threading
import time

import psutil
import pytest

from benchmarks.contracts import Status
from tests.worker.miniature import Miniature, eventually, name_of
from worker.loop import WRONG
from worker.outbox import upload
from worker.startup import run
from worker.state_dir import Journal, Pending
from worker.stop import Stop


def spooled(settings) -> list[str]:
    return [path.name for path in (settings.folder / "spool").glob("*.result")]


def test_a_job_travels_the_whole_way(worker, service: Miniature, settings):
    service.submit("slow")
    with worker() as stop:
        eventually(lambda: service.results)
    assert stop.codes == [0]
    (result,) = service.read()
    assert result.status is Status.OK
    assert len(result.replicates) == 1
    assert service.started == [name_of(1)]
    assert {b.progress.replicate for b in service.beats if b.progress} <= {1}
    assert any(b.progress for b in service.beats)
    assert service.workers["w1"].labels["device"] == "cpu"
    assert not spooled(settings)
    assert not Journal(settings.folder).leftovers()


def test_once_ends_when_the_queue_is_empty(settings, service):
    for workload in ("ok", "garbage", "ok"):
        service.submit(workload)
    once = settings.model_copy(update={"url": service.url, "once": True})
    assert run(once, Stop()) == 0
    assert [r.status for r in service.read()] == [Status.OK, Status.GARBAGE, Status.OK]


def test_a_service_that_is_away_at_first_is_waited_for(worker, service, caplog):
    service.away = True
    service.submit("ok")
    with worker():
        eventually(lambda: len(service.requests) > 2)
        service.away = False
        eventually(lambda: service.results)
    assert caplog.text.count("Trying again until it does.") == 1


def test_a_result_outlives_the_death_of_the_service(worker, service, settings):
    service.submit("ok")
    service.deaf_to = "/result"
    with worker():
        eventually(lambda: sum(path.endswith("/result") for _, path in service.requests) > 2)
        assert len(spooled(settings)) == 1
        service.deaf_to = ""
        eventually(lambda: service.results)
        eventually(lambda: not spooled(settings))
    assert len(service.results) == 1


def test_a_result_that_could_not_be_delivered_is_delivered_first_next_time(
    worker, service, settings
):
    service.submit("ok")
    service.deaf_to = "/result"
    with worker() as stop:
        eventually(lambda: spooled(settings))
    assert stop.codes == [0]
    assert len(spooled(settings)) == 1
    service.deaf_to = ""
    service.requests.clear()
    service.submit("ok")
    with worker():
        eventually(lambda: len(service.results) == 2)
    asked = [path for _, path in service.requests]
    assert asked.index(f"/jobs/{name_of(1)}/attempts/1/result") < asked.index("/leases")


def test_an_isolated_worker_kills_its_child_before_the_lease_ends(worker, service, living, pids):
    service.lease_s = 2.0
    service.submit("endless")
    with worker():
        eventually(lambda: len(pids()) == 2)
        # Its last renewal was sent no later than now.
        service.away = True
        cut_off = time.monotonic()
        eventually(lambda: not living(), 5.0)
        assert time.monotonic() - cut_off < 2.0
        service.away = False
        eventually(lambda: service.released)
    assert not service.results


def test_a_fenced_worker_stops_its_child_and_posts_nothing(worker, service, living, pids):
    service.submit("endless")
    with worker():
        eventually(lambda: len(pids()) == 2)
        service.fenced = True
        eventually(lambda: not living())
        service.fenced = False
        service.submit("ok")
        eventually(lambda: service.results)
    assert [result.case.workload for result in service.read()] == ["ok"]


def test_a_cancelled_job_is_reported_as_cancelled(worker, service, living, pids):
    service.submit("endless")
    with worker():
        eventually(lambda: len(pids()) == 2)
        service.cancel = True
        eventually(lambda: service.results)
        assert not living()
    (result,) = service.read()
    assert result.status is Status.CANCELLED


def test_a_draining_worker_finishes_its_job(worker, service):
    service.submit("slow")
    service.submit("slow")
    with worker() as stop:
        eventually(lambda: service.started)
    assert stop.codes == [0]
    assert [result.status for result in service.read()] == [Status.OK]
    assert len(service.leases) == 1


def test_an_aborting_worker_kills_its_child_and_gives_the_job_back(worker, service, living, pids):
    service.submit("endless")
    with worker() as stop:
        eventually(lambda: len(pids()) == 2)
        stop.ask()
    assert stop.codes == [130]
    assert not living()
    assert service.released == ["The worker was told to stop at once."]
    assert not service.results


def test_a_refused_result_is_kept_aside_and_its_job_gets_a_reason(worker, service, settings):
    service.refuse = '"status":"ok"'
    service.submit("ok")
    with worker():
        eventually(lambda: service.results)
    (result,) = service.read()
    assert result.status is Status.INFRA_ERROR
    assert str(settings.folder) in result.reason
    (kept,) = (settings.folder / "spool" / "rejected").glob("*.result")
    assert b'"status":"ok"' in kept.read_bytes()
    assert not spooled(settings)


def test_a_result_at_which_the_service_fails_holds_no_other_job_up_and_is_not_lost(
    worker, service, settings, monkeypatch
):
    monkeypatch.setattr(upload, "FAULT_PATIENCE_S", 0.3)
    monkeypatch.setattr(upload, "AGAIN_S", 0.1)
    service.fail_at = '"status":"garbage"'

    def sent(what: str) -> int:
        return [path for _, path in service.requests].count(f"/jobs/{name_of(1)}/attempts/1/{what}")

    for workload in ("garbage", "ok"):
        service.submit(workload)
    with worker():
        eventually(lambda: service.results)
        assert [result.status for result in service.read()] == [Status.OK]
        eventually(lambda: len(spooled(settings)) == 1)
        asked, beats = sent("result"), sent("heartbeat")
        time.sleep(0.5)
        assert sent("heartbeat") == beats, "its lease is let go"
        service.fail_at = ""
        eventually(lambda: len(service.results) == 2)
        eventually(lambda: not spooled(settings))
    assert asked > 1
    assert service.read()[-1].status is Status.GARBAGE


def test_a_service_that_is_away_for_long_is_waited_for_with_every_result(
    worker, service, monkeypatch
):
    monkeypatch.setattr(upload, "FAULT_PATIENCE_S", 0.0)
    service.deaf_to = "/result"
    for _ in range(2):
        service.submit("ok")
    with worker():
        eventually(lambda: sum(path.endswith("/result") for _, path in service.requests) > 2)
        assert service.started == [name_of(1)]
        service.deaf_to = ""
        eventually(lambda: len(service.results) == 2)


@pytest.mark.parametrize("told", [(200, "<html>Sign in</html>"), (404, "404 page not found")])
def test_a_stranger_at_the_address_costs_neither_the_result_nor_the_worker(
    worker, service, settings, caplog, told
):
    service.submit("slow")
    with worker() as stop:
        eventually(lambda: service.started)
        service.stranger = told
        eventually(lambda: spooled(settings))
        eventually(lambda: "not as a Throughline service does" in caplog.text)
        assert not service.results
        service.stranger = None
        eventually(lambda: service.results)
        eventually(lambda: not spooled(settings))
        service.stranger = told  # an idle worker asks on
        asked = len(service.requests)
        eventually(lambda: len(service.requests) > asked + 2)
        service.stranger = None
        service.submit("ok")
        eventually(lambda: len(service.results) == 2)
    assert stop.codes == [0]
    assert not list((settings.folder / "spool" / "rejected").iterdir())


def test_a_service_that_forgot_the_worker_is_told_again(worker, service):
    with worker():
        eventually(lambda: len(service.requests) > 2)
        service.forget_workers = True
        service.submit("ok")
        eventually(lambda: service.results)


def test_a_claim_that_was_answered_to_a_dead_worker_is_taken_up(worker, service, settings):
    service.submit("ok")
    settings.folder.mkdir(parents=True)
    Journal(settings.folder).claim(Pending("c" * 32, 1, 60.0))
    with worker():
        eventually(lambda: service.results)
    assert "c" * 32 in service.leases


def test_a_spooled_result_is_not_measured_again(worker, service, settings):
    service.submit("ok")
    service.deaf_to = "/result"
    with worker():
        eventually(lambda: spooled(settings))
    service.deaf_to = ""
    # As if the worker had died between spooling its result and settling its claim.
    (claim,) = service.leases
    Journal(settings.folder).claim(Pending(claim, 1, 60.0, name_of(1), 1))
    with worker():
        eventually(lambda: service.results)
        asked = len(service.requests)
        eventually(lambda: len(service.requests) > asked + 2)
    assert len(service.results) == 1
    assert len(service.started) == 1


def test_a_job_that_killed_the_worker_twice_is_left_to_the_service(worker, service, settings):
    settings.folder.mkdir(parents=True)
    Journal(settings.folder).claim(Pending("c" * 32, 2, 0.1))
    service.submit("ok")
    with worker():
        eventually(lambda: service.results)
    assert "c" * 32 not in service.leases


def test_two_workers_cannot_share_one_name(worker, service, settings, caplog):
    with worker():
        eventually(lambda: service.workers)
        second = settings.model_copy(update={"url": service.url})
        assert run(second, Stop()) == 1
    assert "A worker named w1 already runs here" in caplog.text


def test_a_wrong_address_ends_the_worker_as_wrong_usage_with_one_sentence(settings, caplog):
    assert run(settings.model_copy(update={"url": "localhost"}), Stop()) == WRONG
    assert "must begin with http://" in caplog.text


def test_an_idle_worker_takes_no_processor_time(worker, service):
    with worker(claim_wait_s=1.0):
        eventually(lambda: service.requests)
        before = psutil.Process().cpu_times()
        time.sleep(1.0)
        after = psutil.Process().cpu_times()
    assert after.user - before.user < 0.5


def test_stopping_does_not_wait_for_a_service_that_is_not_there(settings):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
    stop = Stop()
    threading.Timer(0.3, stop.ask).start()
    assert run(settings.model_copy(update={"url": url}), stop) == 0
