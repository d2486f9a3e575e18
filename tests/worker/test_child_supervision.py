"""A child may do anything; the job gets one result with one sentence, and no process is left."""

from __future__ import annotations

import errno
import json
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from benchmarks.contracts import Result, Status
from tests.worker import scripted_child
from tests.worker.miniature import eventually
from worker.child.containment import guarded
from worker.child.process import Child, Limits, Task
from worker.child.process_tree import Tree
from worker.child.resource_limits import Allowance
from worker.heartbeat import Cause
from worker.runner import Runner
from worker.supervisor import Interrupted, Station


@pytest.fixture
def run(settings, job, onlooker, contained):
    def measure(
        workload: str,
        replicates: int = 1,
        change: dict | None = None,
        group: str | None = None,
        **more,
    ) -> Result:
        chosen = settings.model_copy(update=change or {})
        result = Runner(chosen, Station(chosen, contained)).run(
            job(workload, replicates, **more), onlooker, group
        )
        # Whatever came of it, it has to pass the contract on its way to the service.
        return Result.model_validate_json(result.model_dump_json())

    return measure


def test_a_job_is_one_process_with_the_seed_of_its_replicate(run, onlooker):
    result = run("ok", replicates=3, replicate=2)
    assert result.status is Status.OK
    assert [replicate.seed for replicate in result.replicates] == [1]
    assert {(told.replicate, told.replicates) for told in onlooker.told} == {(2, 3)}


def test_a_silent_child_times_out_and_leaves_no_process(run, living, pids):
    result = run("hang", change={"silence_s": 3.0})
    assert result.status is Status.TIMEOUT
    assert "no sign of life for 3 s" in result.reason
    assert "phase warmup, step 7" in result.reason
    assert result.log_tail == "about to hang"
    assert pids()
    assert not living()


def test_a_job_past_its_limit_is_stopped(run, living):
    result = run("endless", timeout_s=0.6)
    assert result.status is Status.TIMEOUT
    assert "past its limit of 0.6 s" in result.reason
    assert not living()


def test_grandchildren_that_ignore_sigterm_or_leave_the_session_are_killed(run, living, pids):
    assert run("stubborn", change={"silence_s": 3.0}).status is Status.TIMEOUT
    assert len(pids()) == 3
    assert not living()


def test_a_child_that_ends_well_leaves_nothing_behind_either(run, living, pids):
    assert run("litter").status is Status.OK
    assert len(pids()) == 2
    assert not living()


def test_a_crash_names_its_signal(run):
    result = run("die", axes={"signal": str(int(signal.SIGSEGV))})
    assert result.status is Status.CRASHED
    assert result.reason == "The child died by SIGSEGV; see the end of its log."
    assert result.log_tail == "last words"


def test_sigkill_is_explained_by_the_out_of_memory_killer(run):
    result = run("die", axes={"signal": str(int(signal.SIGKILL))})
    assert result.status is Status.CRASHED
    assert "out-of-memory killer" in result.reason


@pytest.mark.parametrize("workload", ["garbage", "nothing", "json_of_its_own"])
def test_a_last_line_that_is_no_result_is_garbage(run, workload):
    result = run(workload)
    assert result.status is Status.GARBAGE
    assert "no Result" in result.reason
    assert ("this is no result" in result.log_tail) == (workload == "garbage")


def test_a_result_of_another_version_is_no_fault_of_the_case(run):
    result = run("newer")
    assert result.status is Status.INFRA_ERROR
    assert "another version of Throughline" in result.reason
    assert "restart the worker" in result.reason
    assert "schema_version: Input should be less than or equal to 1" in result.log_tail


@pytest.fixture
def told() -> dict[str, Any]:
    """A good Result as a child prints it."""
    asked = {"seed": 0, "workload": "verbatim", "axes": {}, "protocol": {}}
    return dict(scripted_child.result(asked))


def long_text(told: dict[str, Any]) -> str:
    told["reason"] = "x" * 501
    return json.dumps(told)


def number_as_text(told: dict[str, Any]) -> str:
    told["samples"][0]["values"][0] = "100.0"
    return json.dumps(told)


def no_samples(told: dict[str, Any]) -> str:
    return json.dumps(told | {"samples": []})


def not_finite(number: float) -> Callable[[dict[str, Any]], str]:
    def write(told: dict[str, Any]) -> str:
        told["samples"][0]["values"] = [100.0, 101.0, 102.0, number]
        return json.dumps(told)

    return write


def cut_off(told: dict[str, Any]) -> str:
    return json.dumps(told)[:-20]


WRONG_VALUES = {
    "has NaN at samples[0].values[3].": not_finite(math.nan),
    "has Infinity at samples[0].values[3].": not_finite(math.inf),
    "has -Infinity at samples[0].values[3].": not_finite(-math.inf),
    "is wrong at samples[0].values[3]: Input should be less": not_finite(1e101),
    "is wrong at samples[0].values[0]: Input should be a valid number": number_as_text,
    "is wrong at reason: must be text of 500 characters": long_text,
    "a result with status ok needs at least one sample": no_samples,
    "is no Result (Invalid JSON: EOF while parsing": cut_off,
}


@pytest.mark.parametrize(("sentence", "write"), WRONG_VALUES.items())
def test_a_wrong_value_in_a_result_is_garbage_and_said_where(run, notes, told, sentence, write):
    (notes / "verbatim").write_text(write(told))
    result = run("verbatim")
    assert result.status is Status.GARBAGE
    assert sentence in result.reason
    assert "another version" not in result.reason


@pytest.mark.parametrize(
    "change",
    [
        {"schema_version": 2},
        {"of_the_next_version": True},
        {"status": "of_the_next_version"},
        {"measured_at": None},
    ],
)
def test_documents_of_another_version_are_told_by_their_names(run, notes, told, change):
    """A field or a choice that this version does not know, or a field that is not there."""
    written = {name: value for name, value in (told | change).items() if value is not None}
    (notes / "verbatim").write_text(json.dumps(written))
    result = run("verbatim")
    assert result.status is Status.INFRA_ERROR
    assert "another version of Throughline" in result.reason


@pytest.mark.parametrize(
    ("workload", "sentence"),
    [
        ("bomb", "Its traces hold 8,000,000 values, and 2,000,000 are allowed"),
        ("verbose", "bytes beside its traces, and 1,048,576 are allowed"),
        ("manyfacts", "bytes of facts, and 65,536 are allowed"),
        ("longunit", "Its units have up to 65 characters, and 64 are allowed"),
    ],
)
def test_a_result_that_is_too_large_is_garbage_and_says_which_bound(run, workload, sentence):
    result = run(workload)
    assert result.status is Status.GARBAGE
    assert sentence in result.reason
    assert not result.replicates
    assert len(result.model_dump_json()) < 2**17


def test_the_processes_of_a_job_share_the_room_that_its_traces_have(run):
    """Else the last of them would find out that what the others measured cannot be sent."""
    result = run("bomb", replicates=20)
    assert result.status is Status.GARBAGE
    assert "100,000 are allowed" in result.reason


def test_ten_megabytes_before_the_result_do_no_harm(run):
    assert run("chatty").status is Status.OK


def test_a_child_that_never_stops_printing_is_stopped(run):
    result = run("flood", change={"output_limit_b": 2**20})
    assert result.status is Status.GARBAGE
    assert "more than 1 MiB" in result.reason


def test_exit_two_tells_what_was_wrong_with_the_case(run):
    result = run("refuse")
    assert result.status is Status.UNSUPPORTED
    assert "There is no workload 'refuse'" in result.reason


def test_another_exit_code_is_explained_by_the_last_line_of_the_log(run):
    result = run("fail")
    assert result.status is Status.RUNTIME_ERROR
    assert result.reason.endswith("exit code 1: RuntimeError: the sentence at the end")
    assert "Traceback" in result.log_tail


def test_a_childs_own_failure_is_kept_with_the_log(run):
    result = run("oom")
    assert (result.status, result.reason) == (Status.OOM, "It does not fit.")
    assert "said the log" in result.log_tail


def test_a_log_with_nul_and_broken_utf8_is_stored_as_text(run):
    result = run("dirty", change={"log_tail_b": 1000})
    assert result.status is Status.RUNTIME_ERROR
    assert result.log_tail.endswith("éé\nend")
    assert "\ufffd" not in result.log_tail
    whole = run("dirty", change={"log_tail_b": 60_000})
    assert "\0" not in whole.log_tail


def test_a_child_that_cannot_be_started_is_no_fault_of_the_case(run):
    result = run("ok", change={"child_command": ("/nowhere/python",)})
    assert result.status is Status.INFRA_ERROR
    assert "/nowhere/python" in result.reason


def test_a_full_disk_is_no_fault_of_the_case(run, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", "/nowhere")
    result = run("ok")
    assert result.status is Status.INFRA_ERROR
    assert "/nowhere" in result.reason


def test_compiler_caches_are_shared_by_the_replicates_of_one_case_only(run, notes, tmp_path):
    for number in (1, 2):
        run("environment", replicates=2, replicate=number, group="0" * 32)
    first, second = (read(notes, seed) for seed in (0, 1))
    assert (first["warm"], second["warm"]) == (False, True)
    assert first["TRITON_CACHE_DIR"] == second["TRITON_CACHE_DIR"]
    assert not Path(first["TMPDIR"]).exists()
    run("environment")
    assert read(notes, 0)["warm"] is False
    assert not list((tmp_path / "tmp").iterdir())


def test_thread_counts_are_fixed_unless_someone_chose_them(run, notes, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    run("environment")
    assert int(read(notes, 0)["OMP_NUM_THREADS"]) <= len(os.sched_getaffinity(0))
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    run("environment")
    assert read(notes, 0)["OMP_NUM_THREADS"] == "7"


def test_a_child_is_not_told_what_speaks_in_the_workers_name(run, notes, monkeypatch):
    ours = (
        "THROUGHLINE_TOKEN",
        "THROUGHLINE_WORKER_TOKEN_FILE",
        "THROUGHLINE_DATABASE_URL",
        "THROUGHLINE_POSTGRES_PASSWORD",
        "PGPASSWORD",
    )
    for name in (*ours, "HF_TOKEN", "PGHOST"):
        monkeypatch.setenv(name, "secret")
    run("environment")
    names = set(read(notes, 0)["names"])
    assert names.isdisjoint(ours)
    assert names >= {"HF_TOKEN", "PGHOST", "PATH"}, "the operator's own are the operator's choice"


def test_the_cache_is_where_the_child_chooses_unless_someone_chose(run, notes, tmp_path):
    run("environment", change={"cache_dir": None})
    assert read(notes, 0)["THROUGHLINE_CACHE_DIR"] is None
    run("environment")
    assert read(notes, 0)["THROUGHLINE_CACHE_DIR"] == str(tmp_path / "cache")


@pytest.mark.parametrize("where", [(os, "pidfd_open"), (Tree, "of")], ids=["pidfd", "tree"])
def test_a_child_that_cannot_be_watched_leaves_no_process_and_no_file(
    monkeypatch, tmp_path, where, contained
):
    def refuse(*_):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    def held() -> tuple[int, list[psutil.Process]]:
        return psutil.Process().num_fds(), psutil.Process().children()

    monkeypatch.setattr(*where, refuse)
    before = held()
    command = (sys.executable, "-c", "import time; time.sleep(600)")
    limits = Limits(1.0, 1.0, 1, 1.0, Allowance(1, 1, 1))
    with pytest.raises(OSError, match="open files"):
        Child(Task(command, os.environ, tmp_path, None, limits), guarded(contained, 400), "m")
    assert held() == before


def test_the_child_is_told_the_whole_case(run, notes):
    run("environment", axes={"b": "2", "a": "1"})
    spec = read(notes, 0)["spec"]
    assert spec["case"] == {
        "workload": "environment",
        "preset": "auto",
        "axes": {"a": "1", "b": "2"},
    }
    assert (spec["device"], spec["seed"], spec["data_root"]) == ("cpu", 0, str(notes))
    assert spec["protocol"]["replicates"] == 1
    assert "trace" not in spec


def test_an_interrupted_child_is_gone_at_once(settings, job, onlooker, living, pids, contained):
    def cancel() -> None:
        eventually(lambda: len(pids()) == 2)
        onlooker.why = Cause.CANCELLED

    thread = threading.Thread(target=cancel)
    thread.start()
    began = time.monotonic()
    with pytest.raises(Interrupted):
        Runner(settings, Station(settings, contained)).run(job("endless"), onlooker)
    thread.join()
    assert not living()
    assert time.monotonic() - began < 10


def read(notes: Path, seed: int) -> dict:
    return json.loads((notes / f"environment-{seed}.json").read_text())
