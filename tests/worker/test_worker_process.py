"""The worker as its own process: real signals, a real SIGKILL, a real restart."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.contracts import Status
from tests.worker.miniature import Miniature, eventually
from worker.child.containment import Containment
from worker.child.process_tree import members
from worker.loop import WRONG
from worker.state_dir import Journal


@pytest.fixture
def start(settings, service, tmp_path):
    """Start ``python -m worker`` with these settings in its environment."""
    fields = ("state_dir", "worker_name", "device", "data_root", "cache_dir", "claim_wait_s")
    fields += ("request_timeout_s", "backoff_first_s", "backoff_limit_s", "kill_grace_s")
    fields += ("tick_s", "drain_delivery_s", "canary_every_s")
    told = {f"THROUGHLINE_{name.upper()}": str(getattr(settings, name)) for name in fields}
    told["THROUGHLINE_CHILD_COMMAND"] = json.dumps(settings.child_command)
    told["TMPDIR"] = str(tmp_path / "tmp")
    log = tmp_path / "worker.log"

    @contextmanager
    def running(*arguments: str, containment: str = "auto"):
        told["THROUGHLINE_CONTAINMENT"] = containment
        command = [sys.executable, "-m", "worker", "--url", service.url, *arguments]
        with log.open("ab") as errors:
            process = subprocess.Popen(
                command, env=os.environ | told, stderr=errors, start_new_session=True
            )
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    running.log, running.told = log, told
    return running


def test_one_interrupt_drains(start, service: Miniature):
    service.submit("slow")
    service.submit("slow")
    with start() as process:
        eventually(lambda: service.started)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    assert [result.status for result in service.read()] == [Status.OK]
    assert not service.released
    assert "once more stops at once" in start.log.read_text()


def test_a_second_interrupt_aborts(start, service: Miniature, living, pids):
    service.submit("endless")
    with start() as process:
        eventually(lambda: len(pids()) == 2)
        process.send_signal(signal.SIGINT)
        eventually(lambda: "once more" in start.log.read_text())
        assert living()
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 130
    assert not living()
    assert service.released == ["The worker was told to stop at once."]
    assert not service.results


def test_a_second_interrupt_ends_even_a_worker_that_cannot_deliver(start, service: Miniature):
    service.submit("ok")
    service.deaf_to = "/result"
    with start() as process:
        eventually(lambda: any(path.endswith("/result") for _, path in service.requests))
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) in (0, 130)
    service.deaf_to = ""
    with start("--once") as process:
        assert process.wait(20) == 0
    assert len(service.results) == 1


@pytest.mark.parametrize(
    ("ended_by", "containment"),
    [
        (signal.SIGTERM, Containment.PROCESS_GROUP),
        (signal.SIGKILL, Containment.PID_NAMESPACE),
        pytest.param(signal.SIGTERM, Containment.PID_NAMESPACE, marks=pytest.mark.slow),
        pytest.param(signal.SIGKILL, Containment.PROCESS_GROUP, marks=pytest.mark.slow),
    ],
)
def test_nothing_that_waits_for_the_next_pair_outlives_its_worker(
    start, service: Miniature, settings, tmp_path, ended_by, containment
):
    service.submit("turned", duet={"baseline": "old", "turns": 4})
    with start(containment=containment.value) as process:
        eventually(lambda: service.results)
        trees = Journal(settings.folder).leftovers()[-1].trees
        eventually(lambda: all(len(members(tree)) >= 2 for tree in trees))
        process.send_signal(ended_by)
        process.wait(20)
        eventually(lambda: not any(members(tree) for tree in trees))
    with start("--once", containment=containment.value) as process:  # removes what was noted
        assert process.wait(20) == 0
    assert not list((tmp_path / "tmp").iterdir())
    assert not Journal(settings.folder).leftovers()


def test_an_idle_worker_stops_when_asked(start, service: Miniature):
    with start() as process:
        eventually(lambda: len(service.requests) > 2)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


def test_a_killed_worker_delivers_its_result_once_after_a_restart(
    start, service: Miniature, settings
):
    service.submit("ok")
    service.deaf_to = "/result"
    spool = settings.folder / "spool"
    with start() as process:
        eventually(lambda: list(spool.glob("*.result")))
        process.kill()
        process.wait()
    assert not service.results
    service.deaf_to = ""
    with start("--once") as process:
        assert process.wait(20) == 0
    assert len(service.results) == 1
    assert len(service.leases) == 1
    assert not list(spool.glob("*.result"))


def test_a_killed_workers_child_dies_and_its_job_is_run_again_under_the_same_lease(
    start, service: Miniature, living, pids, tmp_path: Path
):
    service.submit("slowonce")
    with start() as process:
        eventually(lambda: len(pids()) == 2)
        eventually(lambda: list(tmp_path.rglob("child.json")))  # its folder is written down
        process.kill()
        process.wait()
    eventually(lambda: not living())
    with start("--once") as process:
        assert process.wait(20) == 0
    assert not living()
    assert [result.status for result in service.read()] == [Status.OK]
    assert len(service.leases) == 1
    assert not list((tmp_path / "tmp").iterdir())


@pytest.mark.parametrize("containment", list(Containment))
def test_nothing_of_a_killed_workers_child_lives_two_seconds_later(
    start, service: Miniature, living, containment
):
    """Nothing: neither a process that ignores signals, nor daemons in sessions of their own."""
    service.submit("daemons")
    with start(containment=containment) as process:
        eventually(lambda: len(living()) == 4)
        process.kill()
        process.wait()
        killed_at_s = time.monotonic()
        eventually(lambda: not living())
        assert time.monotonic() - killed_at_s < 2.0


def test_a_worker_says_how_its_children_are_contained(start, service: Miniature):
    with start("--once", containment=Containment.PROCESS_GROUP) as process:
        assert process.wait(20) == 0
    assert service.workers["w1"].labels["containment"] == "process_group"
    assert "Children are contained by a process group" in start.log.read_text()


def test_a_second_worker_of_one_name_says_so_in_one_line(start, service: Miniature):
    with start():
        eventually(lambda: "Worker w1 is at" in start.log.read_text())
        before = len(start.log.read_text().splitlines())
        with start() as second:
            assert second.wait(20) == 1
    (sentence,) = start.log.read_text().splitlines()[before:]
    assert "A worker named w1 already runs here" in sentence


def test_a_wrong_setting_is_named(start):
    with start("--device", "tpu") as process:
        assert process.wait(20) == WRONG
    assert "The setting device is wrong" in start.log.read_text()


@pytest.mark.parametrize(
    ("field", "value"),
    [("labels", "rack=3"), ("labels", "{"), ("child_command", "python -m benchmarks")],
)
def test_a_setting_that_should_be_json_is_named(start, monkeypatch, field, value):
    monkeypatch.setitem(start.told, f"THROUGHLINE_{field.upper()}", value)
    with start() as process:
        assert process.wait(20) == WRONG
    (sentence,) = start.log.read_text().splitlines()
    assert sentence.endswith(f"The setting {field} is wrong: it must be JSON.")


def test_the_worker_never_imports_torch_the_database_or_the_service():
    look = "import sys, worker.startup; print([n for n in {0} if n in sys.modules])"
    names = ["torch", "sqlalchemy", "service", "numpy", "fastapi"]
    told = subprocess.run(
        [sys.executable, "-c", look.format(names)], capture_output=True, text=True, check=True
    )
    assert told.stdout.strip() == "[]"
