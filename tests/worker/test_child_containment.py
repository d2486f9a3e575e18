"""A child may grow, fork, print, fill, hide and stop; its worker stays well and nothing is left."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from benchmarks.contracts import JobSpec, Result, Status
from tests.worker.miniature import eventually
from worker.child import process_tree
from worker.child.containment import Containment, Unavailable, choose, guarded
from worker.child.process import Output, Written
from worker.child.process_tree import Tree
from worker.child.resource_limits import Allowance, Consumption, Excess, Room, fits
from worker.child.workspace import remove
from worker.heartbeat import Cause
from worker.runner import Runner
from worker.settings import ContainmentSetting
from worker.supervisor import Interrupted, Station

EACH = list(Containment)
FORK_UNTIL_REFUSED = """
import os, time
for count in range(600):
    try:
        if os.fork() == 0:
            time.sleep(600)
    except BlockingIOError:
        break
print(count)
"""


@pytest.fixture
def run(settings, job, onlooker, contained):
    def measure(
        workload: str, change: dict | None = None, by: Containment = contained, **more
    ) -> Result:
        chosen = settings.model_copy(update=change or {})
        spec: JobSpec = job(workload, **more)
        return Runner(chosen, Station(chosen, by)).run(spec, onlooker)

    return measure


@pytest.mark.parametrize("containment", EACH)
@pytest.mark.parametrize(
    ("workload", "status"), [("daemonthenok", Status.OK), ("daemonthencrash", Status.CRASHED)]
)
def test_a_daemon_ends_with_its_child(run, living, pids, workload, status, containment):
    assert run(workload, by=containment).status is status
    assert len(pids()) == 1
    assert not living()


@pytest.mark.parametrize("containment", EACH)
def test_daemons_of_a_child_that_ignores_signals_are_ended_with_it(
    run, living, pids, containment, onlooker
):
    def cancel() -> None:
        eventually(lambda: len(pids()) == 4)
        onlooker.why = Cause.CANCELLED

    thread = threading.Thread(target=cancel)
    thread.start()
    with pytest.raises(Interrupted):
        run("daemons", by=containment, timeout_s=60)
    thread.join()
    assert not living()


@pytest.mark.parametrize("containment", EACH)
def test_a_child_looks_the_same_in_either_containment(run, notes, containment):
    """Its own id in /proc, its user; and the kernel ends it first when memory is short."""
    ours = Path("/proc/self/oom_score_adj").read_text()
    assert run("ranks", by=containment).status is Status.OK
    told = json.loads((notes / "ranks.json").read_text())
    assert told == {"own": "1000\n", "pid": True, "uid": os.getuid()}
    assert Path("/proc/self/oom_score_adj").read_text() == ours


@pytest.mark.parametrize("containment", EACH)
def test_a_command_begins_with_the_signals_that_a_shell_gives(containment):
    command = [*guarded(containment, 400), "cat", "/proc/self/status"]
    told = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout
    masks = dict(line.split(":\t") for line in told.splitlines() if line.startswith("Sig"))
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        assert not int(masks["SigIgn"], 16) >> (number - 1) & 1
    assert int(masks["SigBlk"], 16) == 0


@pytest.mark.parametrize("containment", EACH)
def test_a_fork_bomb_is_ended(run, containment):
    result = run("forks", {"processes_limit": 50}, containment, timeout_s=60)
    assert result.status is Status.RUNTIME_ERROR
    assert "more than 50 processes" in result.reason
    assert "THROUGHLINE_PROCESSES_LIMIT" in result.reason


def test_a_kernel_with_a_limit_per_namespace_refuses_to_fork(strongest):
    release = tuple(map(int, os.uname().release.split(".")[:2]))
    if strongest is not Containment.PID_NAMESPACE or release < (6, 14):
        pytest.skip("this kernel has one pid_max for the whole machine, or no namespaces")
    limit = Path("/proc/sys/kernel/pid_max").read_text()
    command = [*guarded(strongest, 320), sys.executable, "-S", "-c", FORK_UNTIL_REFUSED]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert 200 < int(told.stdout) < 320
    assert Path("/proc/sys/kernel/pid_max").read_text() == limit


def test_two_gibibytes_on_one_line_take_neither_memory_nor_disk(run, tmp_path):
    memory_b, taken_b = peak_b(), shutil.disk_usage(tmp_path).used
    result = run("longline", {"output_limit_b": 8 * 2**20})
    assert result.status is Status.GARBAGE
    assert "more than 8 MiB" in result.reason
    assert peak_b() - memory_b < 64 * 2**20
    assert shutil.disk_usage(tmp_path).used - taken_b < 512 * 2**20


def test_of_what_is_written_only_the_end_is_kept():
    output = Output(1000)
    for number in range(100):
        os.write(output.theirs, bytes([number]) * 1000)
        assert output.read()
    os.write(output.theirs, b"the end")
    os.close(output.theirs)
    assert output.drain(2**30) == Written(100_007, bytes([99]) * 993 + b"the end")
    assert not output.read()
    output.close()


def test_a_long_line_within_the_limit_is_no_result(run):
    result = run("legalline", axes={"bytes": str(4 * 2**20)})
    assert result.status is Status.GARBAGE
    assert "no Result" in result.reason
    assert "[cut: the last 2,048 of 4,194,304 bytes]" in result.log_tail


def test_junk_in_place_of_events_is_no_sign_of_life_and_has_an_end(run):
    began_s = time.process_time()
    result = run("junkevents", {"output_limit_b": 8 * 2**20})
    assert result.status is Status.GARBAGE
    assert time.process_time() - began_s < 1.0  # trying each line would take some seconds
    assert run("junkevents", {"silence_s": 0.3, "output_limit_b": 2**40}).status is Status.TIMEOUT


@pytest.mark.parametrize("containment", EACH)
@pytest.mark.parametrize("workload", ["mute", "stopped"])
def test_a_child_that_closes_everything_or_stops_is_silent(run, living, workload, containment):
    assert run(workload, {"silence_s": 0.4}, containment).status is Status.TIMEOUT
    assert not living()


def test_a_full_temporary_folder_ends_the_child_and_is_emptied(run, tmp_path):
    result = run("hoard", {"temp_limit_b": 32 * 2**20}, timeout_s=60)
    assert result.status is Status.RUNTIME_ERROR
    assert "more than 32 MiB" in result.reason
    assert not list((tmp_path / "tmp").iterdir())


def test_folders_that_python_cannot_remove_are_removed(run, tmp_path, notes):
    kept = notes / "kept"
    kept.touch()
    try:
        assert run("labyrinth").status is Status.OK
        assert not list((tmp_path / "tmp").iterdir())
        assert kept.exists()
    finally:  # pytest cannot remove them either, and would fail in later runs
        subprocess.run(["rm", "-rf", tmp_path / "tmp"], check=True)


def test_a_folder_that_was_replaced_by_a_link_is_not_followed(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/kept").touch()
    (tmp_path / "tl-x").symlink_to(tmp_path / "elsewhere")
    remove(tmp_path, "tl-x")
    assert (tmp_path / "elsewhere/kept").exists()


def test_a_disk_that_runs_full_is_no_fault_of_the_case(tmp_path, monkeypatch):
    consumption = Consumption(os.getpid(), tmp_path, Allowance(10_000, 2**40, 1000))
    assert consumption.excess() is None  # it is not yet time to look
    monkeypatch.setattr("worker.child.resource_limits.LOOK_EVERY_S", 0.0)
    room = Room.of(tmp_path)
    monkeypatch.setattr(Room, "of", lambda folder: Room(room.used_b, room.files, 999))
    consumption._due_s = 0.0
    assert consumption.excess() is Excess.DISK


def test_what_others_remove_hides_a_full_folder_for_a_while_only(tmp_path, monkeypatch):
    monkeypatch.setattr("worker.child.resource_limits.LOOK_EVERY_S", 0.0)
    room = Room.of(tmp_path)
    monkeypatch.setattr(Room, "of", lambda folder: room)  # others removed as much as it wrote
    consumption = Consumption(os.getpid(), tmp_path, Allowance(10_000, 2**20, 0))
    (tmp_path / "full").write_bytes(os.urandom(2**21))
    assert consumption.excess() is None
    now_s = time.monotonic()
    monkeypatch.setattr("worker.child.resource_limits.time.monotonic", lambda: now_s + 10.0)
    assert consumption.excess() is Excess.TEMPORARY


def test_what_lies_in_a_folder_is_measured_as_the_disk_holds_it(tmp_path):
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(2**30)
    assert fits(tmp_path, 2**20)
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/full").write_bytes(os.urandom(2**21))
    assert not fits(tmp_path, 2**20)
    assert fits(tmp_path, 2**22)


def test_descendants_are_counted_without_looking_at_the_whole_machine():
    command = ["sh", "-c", "sleep 60 & sleep 60 & wait"]
    with subprocess.Popen(command, start_new_session=True) as shell:
        eventually(lambda: process_tree.count_below(shell.pid, 9) == 2)
        assert process_tree.count_below(shell.pid, 1) is None
        process_tree.end(Tree.of(shell.pid, "none"), 0.0, 5.0)
        assert process_tree.count_below(shell.pid, 9) == 0


def test_who_asks_for_a_namespace_and_cannot_have_one_is_told(monkeypatch):
    monkeypatch.setattr("worker.child.containment.obstacle_to_namespaces", lambda: "not permitted")
    assert choose(ContainmentSetting.AUTO, "cpu")[0] is Containment.PROCESS_GROUP
    with pytest.raises(Unavailable, match=r"not permitted.*process_group"):
        choose(ContainmentSetting.PID_NAMESPACE, "cpu")


CHROOT = """
set -e
mount --make-rshared /
mkdir "$1"
for each in /*; do
  name=$1/${each#/}
  if [ -L "$each" ]; then cp -P "$each" "$name"
  elif [ -d "$each" ]; then mkdir "$name"; mount --rbind "$each" "$name"; fi
done
wc -l < /proc/self/mountinfo
chroot "$1" sh -c 'cd "$1" && shift && exec "$@"' sh "$2" "$3" -c "$4"
wc -l < /proc/self/mountinfo
"""
TOLD = "from worker.child.containment import obstacle_to_namespaces as told; print(repr(told()))"


def test_a_chroot_gives_a_child_its_namespace_and_its_own_proc(tmp_path):
    """There / is no mount point; and the child's /proc shows nowhere else."""
    apart = ["unshare", "--user", "--map-root-user", "--mount", "--propagation", "private"]
    if subprocess.run([*apart, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine allows no mount namespace")
    told = [str(tmp_path / "root"), str(Path(__file__).parents[2]), sys.executable, TOLD]
    command = [*apart, "sh", "-c", CHROOT, "sh", *told]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    before, obstacle, after = done.stdout.split("\n", 2)
    assert obstacle == "''"
    assert before == after.strip()


def test_a_gpu_gets_no_namespace_unless_someone_asks(strongest):
    assert choose(ContainmentSetting.AUTO, "cuda:0")[0] is Containment.PROCESS_GROUP
    if strongest is Containment.PID_NAMESPACE:
        assert choose(ContainmentSetting.PID_NAMESPACE, "cuda:0")[0] is Containment.PID_NAMESPACE


def test_a_command_that_lost_its_worker_before_it_began_does_not_begin():
    command = list(guarded(Containment.PROCESS_GROUP, 400))
    command[command.index(str(os.getpid()))] = "1"
    told = subprocess.run([*command, "sleep", "60"], timeout=20, check=False)
    assert told.returncode == -9


def peak_b() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
