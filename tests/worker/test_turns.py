"""A job whose processes run in turn: a worker measures one, and keeps what it compiled."""

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


def test_each_turn_is_one_process_with_the_seed_of_its_number(measure):
    for number in range(3):
        result = measure(number)
        assert result.status is Status.OK
        assert [one.seed for one in result.replicates] == [number]


def test_progress_tells_which_process_of_how_many(measure, onlooker):
    measure(1)
    assert {(told.replicate, told.replicates) for told in onlooker.told} == {(2, 3)}


def lease(measured: int) -> Lease:
    spec = {
        "case": {"workload": "unet"},
        "revision": "r",
        "protocol": {"replicates": 2},
        "in_turn": True,
    }
    told = {"job_id": "1" * 32, "attempt": 1, "secret": "0" * 64, "spec": spec}
    return Lease.model_validate(
        {**told, "lease_s": 60.0, "heartbeat_s": 10.0, "measured": measured}
    )


def compiled(caches: Caches, measured: int) -> list[str]:
    """What a turn finds; it leaves something behind."""
    with caches.of(Turn.of(lease(measured))) as folder:
        assert folder is not None
        found = sorted(path.name for path in folder.iterdir())
        (folder / f"by-{measured}").touch()
    return found


def test_compiled_code_stays_until_the_last_turn(tmp_path: Path) -> None:
    caches = Caches(tmp_path / "caches")
    assert compiled(caches, 0) == []
    assert compiled(caches, 1) == ["by-0"]
    assert list((tmp_path / "caches").iterdir()) == []


def test_a_job_that_begins_anew_begins_cold(tmp_path: Path) -> None:
    caches = Caches(tmp_path / "caches")
    assert compiled(caches, 0) == []
    assert compiled(caches, 0) == []


def test_what_nobody_came_back_for_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "caches"
    (folder / "old").mkdir(parents=True)
    (folder / "young").mkdir()
    long_ago = time.time() - KEPT_S - 1
    os.utime(folder / "old", (long_ago, long_ago))
    compiled(Caches(folder), 0)
    assert "old" not in {path.name for path in folder.iterdir()}
    assert "young" in {path.name for path in folder.iterdir()}


def test_a_whole_job_has_no_caches_of_its_own(tmp_path: Path) -> None:
    alone = lease(0).model_copy(
        update={"spec": lease(0).spec.model_copy(update={"in_turn": False})}
    )
    with Caches(tmp_path / "caches").of(Turn.of(alone)) as folder:
        assert folder is None
    assert not (tmp_path / "caches").exists()
