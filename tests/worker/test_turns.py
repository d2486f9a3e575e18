"""One replicate of a case: a worker measures one process, and keeps what it compiled."""

import os
import time
from pathlib import Path

import pytest

from benchmarks.contracts import Lease, Status
from worker.child.compile_cache import KEPT_S, Caches, Turn
from worker.runner import Runner
from worker.supervisor import Station


@pytest.fixture
def measure(settings, contained, job, onlooker):
    def run(measured: int, replicates: int = 3):
        turn = Turn("0" * 32, measured, replicates)
        runner = Runner(settings, Station(settings, contained))
        return runner.run(job("ok", replicates), onlooker, turn)

    return run


def test_each_replicate_is_one_process_with_the_seed_of_its_number(measure):
    for number in range(3):
        result = measure(number)
        assert result.status is Status.OK
        assert [one.seed for one in result.replicates] == [number]


def test_progress_tells_which_process_of_how_many(measure, onlooker):
    measure(1)
    assert {(told.replicate, told.replicates) for told in onlooker.told} == {(2, 3)}


def lease(replicate: int, replicates: int = 2) -> Lease:
    protocol = {"replicates": replicates}
    spec = {"case": {"workload": "unet"}, "revision": "r", "protocol": protocol}
    told = {"job_id": f"{replicate}" * 32, "group": "1" * 32, "attempt": 1, "secret": "0" * 64}
    times = {"lease_s": 60.0, "heartbeat_s": 10.0}
    return Lease.model_validate({**told, **times, "spec": {**spec, "replicate": replicate}})


def compiled(caches: Caches, replicate: int) -> list[str]:
    """What a replicate finds; it leaves something behind."""
    with caches.of(Turn.of(lease(replicate))) as folder:
        assert folder is not None
        found = sorted(path.name for path in folder.iterdir())
        (folder / f"by-{replicate}").touch()
    return found


def test_compiled_code_stays_until_the_last_replicate(tmp_path: Path) -> None:
    caches = Caches(tmp_path / "caches")
    assert compiled(caches, 1) == []
    assert compiled(caches, 2) == ["by-1"]
    assert list((tmp_path / "caches").iterdir()) == []


def test_a_first_replicate_that_is_measured_again_begins_cold(tmp_path: Path) -> None:
    caches = Caches(tmp_path / "caches")
    assert compiled(caches, 1) == []
    assert compiled(caches, 1) == []


def test_what_nobody_came_back_for_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "caches"
    (folder / "old").mkdir(parents=True)
    (folder / "young").mkdir()
    long_ago = time.time() - KEPT_S - 1
    os.utime(folder / "old", (long_ago, long_ago))
    compiled(Caches(folder), 1)
    assert "old" not in {path.name for path in folder.iterdir()}
    assert "young" in {path.name for path in folder.iterdir()}


def test_a_case_of_one_replicate_has_no_caches_of_its_own(tmp_path: Path) -> None:
    with Caches(tmp_path / "caches").of(Turn.of(lease(1, 1))) as folder:
        assert folder is None
    assert not (tmp_path / "caches").exists()
