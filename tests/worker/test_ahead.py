"""Processes that load before their job is known: used once, for the same code, or ended."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from benchmarks.contracts import Duet, Status
from tests.worker.miniature import eventually
from worker.ahead import Ahead
from worker.child import process_tree
from worker.child.containment import Containment
from worker.heartbeat import Cause
from worker.runner import Runner
from worker.state_dir import Journal
from worker.supervisor import Interrupted, Station

FRESH, AHEAD = ["fresh"] * 2, ["ahead"] * 2


class Bench:
    """A runner that starts pairs ahead, and what can be seen of them."""

    def __init__(self, settings, contained, job, onlooker, notes, folder, wanted):
        folder.mkdir()
        self.journal = Journal(folder)
        station = Station(settings, contained, started=self.journal.started)
        self.ahead = Ahead(station, self.journal, wanted)
        self._runner = Runner(settings, station, self.ahead)
        self._job, self._onlooker, self._notes = job, onlooker, notes

    def pair(self, workload="turned", number=0, baseline="old", **more):
        duet = Duet(baseline=baseline, baseline_first=number % 2 == 0, turns=4).model_dump()
        spec = self._job(workload, duet=duet, replicate=number + 1, **more)
        return self._runner.run(spec, self._onlooker)

    def alone(self, workload="ok", group=None, **more):
        return self._runner.run(self._job(workload, **more), self._onlooker, group)

    def sides(self):
        """Read how each side was started: fresh or ahead."""
        return (self._notes / "sides").read_text().split()

    def await_ready(self):
        eventually(lambda: self.ahead._waiting and self.ahead._waiting.ready())

    def waiting(self):
        """The processes that wait, and their folder."""
        self.journal.ended()  # as the worker does after each job
        noted = self.journal.leftovers()
        trees = [tree for one in noted for tree in one.trees]
        members = [process for tree in trees for process in process_tree.members(tree)]
        return members, [one.folder for one in noted]


@pytest.fixture
def bench(settings, contained, job, onlooker, notes, tmp_path):
    made = Bench(settings, contained, job, onlooker, notes, tmp_path / "b", lambda: True)
    with made.ahead:
        yield made


def left_in(tmp_path):
    return list((tmp_path / "tmp").iterdir())


@pytest.mark.parametrize(("containment", "contained"), [(one, one) for one in Containment])
def test_the_next_pair_of_the_same_revisions_uses_what_was_started_ahead(
    containment, bench, tmp_path, living
):
    results = [bench.pair()]
    for number in (1, 2):
        bench.await_ready()
        results.append(bench.pair(number=number))
    assert bench.sides() == FRESH + AHEAD + AHEAD
    assert [result.status for result in results] == [Status.OK] * 3
    assert not living()  # what measured has ended, and measures never again
    assert [str(one) for one in left_in(tmp_path)] == bench.waiting()[1]


def test_it_tells_the_same_as_without(bench):
    fresh = bench.pair()
    bench.await_ready()
    ahead = bench.pair()
    for one, other in ((fresh, ahead), (fresh.baseline, ahead.baseline)):
        same = {"case", "status", "samples", "flags", "environment", "protocol"}
        assert one.model_dump(include=same) == other.model_dump(include=same)
        assert [turn.step_s for turn in one.turns] == [turn.step_s for turn in other.turns]


# Without targets they run what is installed, which another revision may be by now.
@pytest.mark.parametrize("more", [{"baseline": "older"}, {"revision": "newer"}])
def test_a_pair_of_another_revision_starts_afresh(bench, more):
    bench.pair()
    bench.await_ready()
    waiting, _ = bench.waiting()
    bench.pair(**more)
    assert bench.sides() == FRESH + FRESH
    assert not process_tree.alive({(one.pid, one.started) for one in waiting})


def test_a_gate_that_goes_round_its_cases_uses_them_for_each(bench):
    for number in range(3):
        for precision in ("fp32", "bf16"):
            bench.pair(number=number, axes={"precision": precision})
            bench.await_ready()
    assert bench.sides() == FRESH + AHEAD * 5


def test_a_job_of_another_kind_ends_them(bench, tmp_path):
    bench.pair()
    bench.await_ready()
    bench.alone()
    assert bench.waiting() == ([], [])
    assert not left_in(tmp_path)


def test_they_end_when_no_job_comes(bench, tmp_path, monkeypatch):
    monkeypatch.setattr("worker.ahead.KEPT_S", 0.2)
    bench.pair()
    eventually(lambda: bench.waiting() == ([], []))
    assert not left_in(tmp_path)


def test_they_end_with_a_pair_that_is_given_up(bench, onlooker, tmp_path):
    bench.pair()
    bench.await_ready()
    onlooker.why = Cause.ISOLATED
    with pytest.raises(Interrupted):
        bench.pair()
    assert bench.waiting() == ([], [])
    assert not left_in(tmp_path)


def test_a_worker_that_is_to_stop_starts_none(settings, contained, job, onlooker, notes, tmp_path):
    bench = Bench(settings, contained, job, onlooker, notes, tmp_path / "b", lambda: False)
    bench.pair()
    assert bench.waiting() == ([], [])


def test_with_processors_to_spare_they_load_while_a_pair_is_measured(bench, monkeypatch, notes):
    monkeypatch.setattr(Station, "room_beside", True)
    monkeypatch.setattr("worker.ahead.usable_cpus", lambda: 16)

    def let_end():
        eventually(lambda: len(bench.waiting()[0]) >= 2)
        (notes / "end").touch()

    waiting = threading.Thread(target=let_end)
    waiting.start()
    assert bench.pair("lingering").flags == ()
    waiting.join()
    assert bench.sides() == FRESH


@pytest.mark.parametrize(("cpus", "axes"), [(2, {}), (16, {"workers": "16"})])
def test_else_they_load_once_it_has_ended(bench, monkeypatch, notes, cpus, axes):
    monkeypatch.setattr("worker.ahead.usable_cpus", lambda: cpus)
    (notes / "end").touch()
    begun = []
    began = bench.ahead.begin
    monkeypatch.setattr(
        bench.ahead, "begin", lambda *job: (begun.append(len(bench.sides())), began(*job))
    )
    bench.pair("lingering", axes=axes)
    assert begun == [2]


@pytest.mark.parametrize(
    ("device", "contained", "room"),
    [
        ("cuda:0", Containment.PROCESS_GROUP, True),
        ("cuda:0", Containment.PID_NAMESPACE, False),
        ("cpu", Containment.PROCESS_GROUP, False),
    ],
)
def test_none_load_beside_a_cpus_step_nor_where_they_could_see_it(
    settings, device, contained, room
):
    station = Station(settings.model_copy(update={"device": device}), contained)
    assert station.room_beside is room


@pytest.fixture
def roomy(bench, monkeypatch, notes):
    """A bench whose device and processors have room for a process beside the one that measures."""
    monkeypatch.setattr(Station, "room_beside", True)
    monkeypatch.setattr("worker.ahead.usable_cpus", lambda: 16)
    begin = bench.ahead.begin_beside

    def begun(case, tasks):
        begin(case, tasks)
        (notes / f"go-{len(bench.sides())}").touch()

    monkeypatch.setattr(bench.ahead, "begin_beside", begun)
    return bench


@pytest.mark.parametrize("contained", [Containment.PROCESS_GROUP])
def test_the_next_case_of_the_same_code_uses_what_loaded_while_the_last_one_warmed_up(
    roomy, tmp_path, living, notes
):
    groups = ["a" * 32, "b" * 32, "a" * 32]
    for number, group in enumerate(groups):
        axes = {"precision": "bf16" if group.startswith("b") else "fp32"}
        more = {"replicates": 2, "replicate": number // 2 + 1, "axes": axes}
        assert roomy.alone("warming", group, **more).status is Status.OK
        roomy.await_ready()
    assert roomy.sides() == ["fresh", "ahead", "ahead"]
    # It compiles where the other processes of its case do, which nobody knew when it started.
    first, other, again = (notes / "caches").read_text().split()
    assert first == again != other
    assert groups[0] in first
    assert groups[1] in other
    assert not living()
    assert [str(one) for one in left_in(tmp_path)] == roomy.waiting()[1]


@pytest.mark.parametrize("contained", [Containment.PROCESS_GROUP])
def test_a_case_of_another_revision_starts_afresh(roomy):
    roomy.alone("warming")
    roomy.await_ready()
    roomy.alone("warming", revision="newer")
    assert roomy.sides() == ["fresh"] * 2


@pytest.mark.parametrize("contained", [Containment.PROCESS_GROUP])
def test_the_lead_of_a_gang_takes_none(roomy, notes):
    roomy.alone("warming")
    roomy.await_ready()
    (notes / "go-2").touch()
    roomy.alone("warming", axes={"parallel": "ddp"})
    assert roomy.sides() == ["fresh"] * 2
    assert roomy.waiting() == ([], [])


@pytest.mark.parametrize("contained", [Containment.PROCESS_GROUP])
def test_a_worker_that_dies_has_noted_every_folder(roomy, onlooker, tmp_path, monkeypatch):
    """Three folders: of the job, of the process that waited for it, and of the next one."""
    unnoted, counts = [], []

    def look(progress):
        noted = {Path(one.folder) for one in roomy.journal.leftovers()}
        known = noted | {parent for one in noted for parent in one.parents}
        there = left_in(tmp_path)
        counts.append(len(there))
        unnoted.extend(set(there) - known)

    monkeypatch.setattr(onlooker, "tell", look)
    for _ in range(3):
        roomy.alone("warming")
        roomy.await_ready()
    assert max(counts) >= 2
    assert not unnoted


@pytest.mark.parametrize("contained", [Containment.PROCESS_GROUP])
@pytest.mark.parametrize("again", [True, False])
def test_a_pair_after_a_single_case_starts_afresh_and_the_other_way_round(roomy, again):
    roomy.alone("warming")
    roomy.await_ready()
    roomy.pair()
    roomy.await_ready()
    roomy.alone("warming") if again else roomy.pair()
    assert roomy.sides() == ["fresh", *FRESH, *(["fresh"] if again else AHEAD)]


@pytest.mark.parametrize(
    ("cpus", "axes"), [(2, {}), (16, {"workers": "16"}), (16, {"parallel": "ddp"})]
)
def test_without_room_beside_it_no_single_process_is_started_ahead(
    roomy, monkeypatch, notes, cpus, axes
):
    monkeypatch.setattr("worker.ahead.usable_cpus", lambda: cpus)
    (notes / "go-1").touch()
    roomy.alone("warming", axes=axes)
    assert roomy.waiting() == ([], [])


def test_code_that_knows_nothing_of_this_starts_afresh(
    settings, contained, job, onlooker, notes, tmp_path, acting
):
    """It waits for its job all the same, and is not asked."""
    changed = settings.model_copy(update={"child_command": (*acting("turned"), "--deaf")})
    bench = Bench(changed, contained, job, onlooker, notes, tmp_path / "b", lambda: True)
    with bench.ahead:
        bench.pair()
        time.sleep(0.5)
        assert not bench.ahead._waiting.ready()
        bench.pair()
    assert bench.waiting() == ([], [])
    assert not left_in(tmp_path)


TAKEN = b'{"at_s": 0.0, "environment": {"TRITON_CACHE_DIR": "/kept"}}\n'
LOADED = """
import os, sys, threading
from benchmarks import __main__ as child
ours, theirs = os.pipe()
threads = threading.active_count()
child._wait_ahead(theirs, compiles=sys.argv[1:] == ["compiles"])
import torch
assert os.environ["TRITON_CACHE_DIR"] == "/kept"
assert b'"phase":"build"' in os.read(ours, 1000)
assert "benchmarks.measure.session" in sys.modules and "torch._dynamo" in sys.modules
assert ("torch._inductor.compile_fx" in sys.modules) == (sys.argv[1:] == ["compiles"])
with open(f"/proc/self/task/{os.getpid()}/children") as children:
    assert not children.read().split(), "a compiler's processes would disturb what is measured"
assert not torch.cuda.is_initialized()
assert threading.active_count() == threads
held = [os.readlink(f"/proc/self/fd/{one}") for one in os.listdir("/proc/self/fd")
        if os.path.exists(f"/proc/self/fd/{one}")]
assert not [one for one in held if one.startswith("/dev/nvidia")], held
"""


@pytest.mark.parametrize("more", [[], ["compiles"]])
def test_what_waits_has_loaded_torch_and_touched_no_device(more):
    subprocess.run([sys.executable, "-c", LOADED, *more], input=TAKEN, timeout=120, check=True)


def test_what_waits_for_a_pair_that_compiles_loads_the_compiler(bench):
    bench.pair(axes={"compile": "default"})
    bench.await_ready()
    bench.pair(number=1, axes={"compile": "default"})
    assert sorted(bench.sides()) == sorted([*FRESH, *AHEAD, "compiles", "compiles"])


def test_nothing_waits_for_the_next_pair_of_gangs(bench):
    bench.pair(axes={"gpus": "2", "parallel": "ddp"})
    assert bench.ahead.taken() is None
    assert bench.sides() == FRESH
