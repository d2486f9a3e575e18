"""A worker whose disk is full takes no job, loses no result, and goes on when there is room."""

from __future__ import annotations

import errno
import os
import stat
import threading
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from benchmarks.contracts import Status
from tests.worker.miniature import eventually
from worker import state_dir
from worker.startup import run
from worker.stop import Stop


@pytest.fixture
def disk(monkeypatch):
    """A disk that is full while ``disk.full``; a real one says so at the sync at the latest."""
    state = SimpleNamespace(full=False, refused=0)

    def fsync(handle: int) -> None:
        if state.full and stat.S_ISREG(os.fstat(handle).st_mode):
            state.refused += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(handle)

    monkeypatch.setattr(state_dir, "os", SimpleNamespace(**{**vars(os), "fsync": fsync}))
    return state


@pytest.fixture
def worker(settings, service):
    @contextmanager
    def running(**change):
        stop = Stop()
        chosen = settings.model_copy(update={"url": service.url, **change})
        thread = threading.Thread(target=run, args=(chosen, stop))
        thread.start()
        try:
            yield
        finally:
            stop.ask()
            thread.join(20)
            assert not thread.is_alive()

    return running


def test_no_job_is_taken_that_could_not_be_written_down(worker, service, disk, settings):
    disk.full = True
    service.submit("ok")
    with worker():
        eventually(lambda: disk.refused > 3)
        assert not service.leases
        disk.full = False
        eventually(lambda: service.results)
    assert not list(settings.folder.rglob("*.tmp"))


def test_a_result_that_the_disk_does_not_take_is_delivered_all_the_same(
    worker, service, disk, settings
):
    service.submit("slow")
    with worker():
        eventually(lambda: any(beat.progress for beat in service.beats))  # the child runs
        disk.full = True
        eventually(lambda: service.results)
        assert disk.refused
        disk.full = False
    assert [result.status for result in service.read()] == [Status.OK]
    assert not list(settings.folder.rglob("*.tmp"))


def test_a_refused_result_is_put_aside_though_its_reason_has_no_room(
    worker, service, disk, settings
):
    service.refuse = '"status":"ok"'
    service.deaf_to = "/result"
    service.submit("ok")
    spool = settings.folder / "spool"
    with worker():
        eventually(lambda: list(spool.glob("*.result")))
        disk.full = True
        service.deaf_to = ""
        eventually(lambda: list((spool / "rejected").glob("*.result")))
        disk.full = False
