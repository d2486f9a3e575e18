"""A job that measures two revisions: in turn where that can be, else one after the other."""

import json
import os
import threading
import time

import pytest

from benchmarks.contracts import Duet, Status
from benchmarks.diagnosis.paired import ONE_AFTER_THE_OTHER
from worker.child.workspace import Caches, remove
from worker.heartbeat import Cause
from worker.runner import Runner
from worker.supervisor import Interrupted, Station


@pytest.fixture
def pair(settings, contained, job, onlooker):
    def measure(workload, change=None, *, baseline_first=True, **more):
        chosen = settings.model_copy(update=change or {})
        duet = Duet(baseline="old", baseline_first=baseline_first, turns=4)
        return Runner(chosen, Station(chosen, contained)).run(
            job(workload, duet=duet.model_dump(), **more), onlooker
        )

    return measure


def test_both_sides_are_in_one_result(pair, living):
    result = pair("turned")
    assert result.status is Status.OK, result.reason
    assert result.baseline is not None
    assert [turn.step_s for turn in result.turns] == [0.2] * 4
    assert [turn.step_s for turn in result.baseline.turns] == [0.1] * 4
    assert result.flags == ()
    assert not living()


def test_the_side_that_goes_first_is_chosen(pair):
    result = pair("turned", baseline_first=False)
    assert result.turns[0].step_s == 0.1
    assert result.baseline.turns[0].step_s == 0.2


def test_each_revision_keeps_its_own_compiled_code_for_the_next_pair(pair, notes):
    folders = []
    for _ in range(2):
        pair("turned")
        folders.append([(notes / f"cache-{first}").read_text() for first in (True, False)])
    assert folders[0] == folders[1]
    assert folders[0][0] != folders[0][1]


@pytest.mark.parametrize("workload", ["crowded", "unturned", "tight", "restless", "exclusive"])
def test_sides_that_cannot_be_measured_in_turn_follow_each_other(pair, workload):
    result = pair(workload)
    assert result.status is Status.OK
    for side in (result, result.baseline):
        assert ONE_AFTER_THE_OTHER in side.flags
        assert len(side.replicates) == 1
        assert side.turns == ()


def test_a_side_that_computes_something_else_is_not_measured_again(pair):
    result = pair("untrue")
    assert result.status is Status.PARITY_FAIL
    assert result.baseline.status is Status.PARITY_FAIL
    assert ONE_AFTER_THE_OTHER not in result.flags


def test_compiled_code_of_a_revision_goes_after_hours_and_that_of_a_case_after_days(
    settings, job, tmp_path
):
    caches = Caches(tmp_path)
    folder = caches.of_revision(job("ok"))
    of_a_case = tmp_path / ("a" * 32)
    of_a_case.mkdir()
    long_ago = time.time() - 7 * 3_600
    for old in (folder, of_a_case):
        os.utime(old, (long_ago, long_ago))
    caches.of_revision(job("other"))
    assert (folder.exists(), of_a_case.exists()) == (False, True)


def test_a_new_revision_begins_with_the_kernels_of_its_baseline_and_without_graphs(job, tmp_path):
    caches = Caches(tmp_path)
    old = caches.of_revision(job("ok", revision="old"))
    for folder in ("fxgraph", "aotautograd", "dynamo", "ab"):
        (old / "ind" / folder).mkdir(parents=True)
    kernel = "ind/ab/kernel.py"
    (old / kernel).write_text("compiled")
    new = caches.of_revision(job("ok", revision="new"), baseline="old")
    assert [one.name for one in (new / "ind").iterdir()] == ["ab"]
    assert (new / kernel).read_text() == "compiled"
    (new / kernel).write_text("of the contender")
    assert caches.of_revision(job("ok", revision="old"), baseline="new") == old
    assert (old / kernel).read_text() == "compiled"


def test_a_copied_group_of_kernel_files_names_the_copies(job, tmp_path):
    caches = Caches(tmp_path)
    old = caches.of_revision(job("ok", revision="old"))
    kernel = "tri/key/kernel.cubin"
    (old / kernel).parent.mkdir(parents=True)
    (old / kernel).write_text("compiled")
    group = {"child_paths": {"kernel.cubin": str(old / kernel)}}
    (old / "tri" / "key" / "__grp__kernel.json").write_text(json.dumps(group))
    new = caches.of_revision(job("ok", revision="new"), baseline="old")
    told = json.loads((new / "tri" / "key" / "__grp__kernel.json").read_text())
    assert told == {"child_paths": {"kernel.cubin": str(new / kernel)}}
    assert (new / kernel).read_text() == "compiled"


def test_what_was_compiled_for_a_revision_is_not_replaced_by_its_baseline_s(job, tmp_path):
    caches = Caches(tmp_path)
    (caches.of_revision(job("ok", revision="new")) / "kernel").write_text("its own")
    (caches.of_revision(job("ok", revision="old")) / "kernel").write_text("the baseline's")
    new = caches.of_revision(job("ok", revision="new"), baseline="old")
    assert (new / "kernel").read_text() == "its own"


def _make_pipe(folder):
    os.mkfifo(folder / "pipe")


def _make_nested(folder):
    for _ in range(1_200):
        folder /= "n"
        folder.mkdir()


@pytest.mark.parametrize("leave", [_make_pipe, _make_nested])
def test_caches_that_cannot_be_copied_are_left_out(job, tmp_path, leave):
    caches = Caches(tmp_path)
    leave(caches.of_revision(job("ok", revision="old")))
    new = caches.of_revision(job("ok", revision="new"), baseline="old")
    assert list(new.iterdir()) == []
    assert len(list(tmp_path.iterdir())) == 2
    for folder in tmp_path.iterdir():  # deeper than pytest can remove
        remove(tmp_path, folder.name)


def test_a_side_that_dies_ends_the_other_one_too(pair, living):
    result = pair("onesidedies")
    assert ONE_AFTER_THE_OTHER in result.flags
    assert result.status is Status.OK
    assert not living()


@pytest.mark.slow
def test_so_does_a_side_that_hangs(pair, living):
    result = pair("onesidehangs", change={"silence_s": 3.0})
    assert ONE_AFTER_THE_OTHER in result.flags
    assert not living()


def test_a_failure_of_one_revision_alone_is_its_own(pair):
    result = pair("failsecond", replicate=2)
    assert result.status is Status.CRASHED
    assert result.baseline.status is Status.CRASHED


def test_a_pair_is_stopped_as_one(pair, onlooker, pids, living):
    def stop():
        while len(pids()) < 1:
            time.sleep(0.02)
        onlooker.why = Cause.CANCELLED

    stopping = threading.Thread(target=stop)
    stopping.start()
    with pytest.raises(Interrupted):
        pair("onesidehangs")
    stopping.join()
    assert pids()
    assert not living()


def test_a_revision_that_is_not_deployed_is_named(pair, tmp_path):
    target = {"worker_target": f"{tmp_path}/checkouts/{{revision}}"}
    (tmp_path / "checkouts" / "abc").mkdir(parents=True)
    result = pair("turned", change=target)
    assert result.status is Status.INFRA_ERROR
    assert "Revision old is not on this worker" in result.reason
