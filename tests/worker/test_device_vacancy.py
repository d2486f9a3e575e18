"""No job is claimed while a process of the last one is on the device; others are only named."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

import psutil
import pytest

from tests.worker.miniature import Miniature, eventually
from worker.child.process_tree import Tree
from worker.device import nvml
from worker.device.state import Occupancy
from worker.startup import run
from worker.stop import Stop
from worker.supervisor import Station, Vacancy


class Driver:
    """NVML as far as it is asked here: it names whom the test, or a running child, puts on it."""

    def __init__(self) -> None:
        self.holders: frozenset[int] = frozenset()
        self.clinging = False
        """Every process that was ever seen below this one stays, dead or alive."""

    def processes(self) -> frozenset[int]:
        if self.clinging:
            below = psutil.Process().children(recursive=True)
            self.holders |= {process.pid for process in below}
        return self.holders

    def channels(self) -> dict[str, float]:
        return {}

    def reasons(self) -> int | None:
        return None

    def energy_j(self) -> float | None:
        return None

    def close(self) -> None:
        pass


@pytest.fixture
def driver(monkeypatch) -> Driver:
    found = Driver()
    monkeypatch.setattr(nvml, "open_gauge", lambda gpu: found)
    return found


@pytest.fixture
def working(settings, service: Miniature) -> Iterator[Stop]:
    stop = Stop()
    thread = threading.Thread(
        target=run, args=(settings.model_copy(update={"url": service.url}), stop)
    )
    thread.start()
    yield stop
    stop.ask()
    thread.join(20)
    assert not thread.is_alive()


def test_the_next_job_waits_until_the_last_ones_context_has_gone(
    driver, service: Miniature, working, caplog, monkeypatch
):
    monkeypatch.setattr("worker.supervisor.BRIEFLY_S", 0.2)
    driver.clinging = True
    service.submit("slow")
    eventually(lambda: service.results)
    driver.clinging = False
    asked = len(service.leases)
    service.submit("ok")
    eventually(lambda: "No job is claimed: processes" in caplog.text)
    assert len(service.leases) == asked
    driver.holders = frozenset()
    eventually(lambda: len(service.results) == 2)


def test_a_foreign_process_is_named_and_hinders_nobody(driver, service, working, caplog):
    driver.holders = frozenset({os.getppid()})
    service.submit("ok")
    service.submit("ok")
    eventually(lambda: len(service.results) == 2)
    assert caplog.text.count(f"Processes {os.getppid()}, not this worker's, use its device.") == 1
    assert psutil.pid_exists(os.getppid())


def test_a_worker_that_waits_for_its_device_can_be_stopped(driver, settings, contained):
    station = Station(settings, contained, driver)
    station.device.occupancy.expect(Tree(os.getsid(0), 0, "none", ""))
    driver.holders = frozenset({os.getpid()})
    stop = Stop()
    threading.Timer(0.2, stop.ask).start()
    assert not Vacancy(station, stop).await_it(lambda: not stop.draining)


def test_a_number_that_another_process_has_got_by_now_is_not_ours(monkeypatch):
    driver = Driver()
    driver.holders = frozenset({4242})
    occupancy = Occupancy(driver)
    occupancy.expect(Tree(1, 0, "none", ""))
    monkeypatch.setattr("worker.child.process_tree.identity", lambda pid: (pid, 7))
    monkeypatch.setattr("worker.child.process_tree.belongs", lambda pid, tree: True)
    assert occupancy.look().ours == {4242}
    monkeypatch.setattr("worker.child.process_tree.belongs", lambda pid, tree: False)
    monkeypatch.setattr("worker.child.process_tree.identity", lambda pid: None)
    assert occupancy.look().ours == {4242}  # its process has gone, its context has not
    monkeypatch.setattr("worker.child.process_tree.identity", lambda pid: (pid, 8))
    assert occupancy.look().foreign == {4242}


def test_without_a_device_nothing_is_waited_for(settings, contained):
    began = time.monotonic()
    assert Vacancy(Station(settings, contained), Stop()).await_it(lambda: True)
    assert time.monotonic() - began < 1.0
