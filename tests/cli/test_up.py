"""`throughline up` with a real service, a real worker and a scripted benchmark."""

import json
import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from builders.commands import free_port
from builders.forked import Forked, ForkServer

from cli.exits import Exit

Run = Callable[..., subprocess.CompletedProcess[str]]
Start = Callable[..., Forked]
LIMIT_S = 60.0


def eventually(is_so: Callable[[], bool], limit_s: float = LIMIT_S) -> None:
    deadline = time.monotonic() + limit_s
    while not is_so():
        assert time.monotonic() < deadline, "it never became so"
        time.sleep(0.05)


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def on_a_free_port() -> tuple[str, str]:
    """Two that look for the first free port at the same moment would both find it."""
    return "--port", str(free_port())


def running_below(pid: int, module: str) -> list[psutil.Process]:
    """Descendants of ``pid`` that run a certain module or file."""
    found = []
    for process in psutil.Process(pid).children(recursive=True):
        try:
            if any(module in part for part in process.cmdline()):
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


@pytest.fixture
def up(tmp_path: Path, forks: ForkServer, environment: dict[str, str]) -> Iterator[Start]:
    """Start `throughline up` and let it run."""
    started: list[Forked] = []

    def start(*arguments: str, **more: str) -> Forked:
        with (tmp_path / "up.log").open("w") as log:
            process = forks.start(
                *("cli", "up", "-r", "v1", *on_a_free_port(), *arguments),
                folder=tmp_path,
                environment=environment | more,
                stdout=log,
                stderr=log,
                session=True,
            )
        started.append(process)
        return process

    yield start
    for process in started:
        deadline_s = time.monotonic() + LIMIT_S
        while process.poll() is None and time.monotonic() < deadline_s:
            process.terminate()  # the second one ends its case as well
            time.sleep(0.2)
        assert process.poll() is not None


def said(tmp_path: Path) -> str:
    return (tmp_path / "up.log").read_text()


@dataclass(frozen=True)
class Once:
    """What a `throughline up --once` has left."""

    done: subprocess.CompletedProcess[str]
    folder: Path
    throughline: Run


@pytest.fixture(scope="module")
def once(
    tmp_path_factory: pytest.TempPathFactory,
    environment_in: Callable[[Path], dict[str, str]],
    throughline_in: Callable[[Path, dict[str, str]], Run],
) -> Once:
    folder = tmp_path_factory.mktemp("once")
    throughline = throughline_in(folder, environment_in(folder))
    return Once(throughline("up", "--once", *on_a_free_port(), "-r", "v1"), folder, throughline)


def test_up_once_measures_the_suite_and_prints_its_table(once: Once) -> None:
    done = once.done
    assert done.returncode == Exit.OK, done.stderr
    assert "No NVIDIA GPU found: measuring on the CPU with the `tiny` presets" in done.stderr
    table = done.stdout.replace("\u00a0", " ")
    for workload in ("resnet50:tiny", "nanogpt:tiny", "unet:tiny"):
        assert table.partition("Worth a try")[0].count(workload) == 2
        assert f"Worth a try at {workload}" in table
    assert table.count("2.00\u00d7") == 2, "the cases in bf16"
    assert table.count("1.00\u00d7") == 1, "the U-Net, whose step from the baseline is a layout"
    assert "4,000 img/s" in table
    assert "± 1.0 %" in table
    assert "95 % interval within one process" in table
    assert "3 GiB" in table
    assert "Dashboard" not in done.stderr, "it ends with the suite"


def test_run_again_it_continues_the_same_history(once: Once) -> None:
    done = once.throughline("up", "--once", *on_a_free_port(), "-r", "v2")
    assert done.returncode == Exit.OK, done.stderr
    with sqlite3.connect(once.folder / "state" / "throughline.sqlite3") as database:
        counts = database.execute("select count(*) from points group by series_id").fetchall()
    database.close()
    assert counts
    assert set(counts) == {(2,)}


@pytest.mark.slow
def test_a_failed_case_is_told_with_its_reason_and_the_exit_code(throughline: Run) -> None:
    done = throughline("up", "--once", *on_a_free_port(), "-r", "v1", SCRIPT="oom")
    assert done.returncode == Exit.FAILED
    assert "does not fit" in done.stdout
    assert "oom" in done.stdout


def test_ctrl_c_stops_every_process(up: Start, tmp_path: Path) -> None:
    interrupted(up, tmp_path)


def interrupted(up: Start, tmp_path: Path) -> None:
    """Begin, and interrupt a slow benchmark twice."""
    process = up(SCRIPT="slow")
    eventually(lambda: bool(running_below(process.pid, "scripted_benchmark")))
    family = psutil.Process(process.pid).children(recursive=True)
    assert len(family) >= 3  # service, worker, benchmark
    process.send_signal(signal.SIGINT)
    eventually(lambda: "Ctrl-C: gives" in said(tmp_path))
    process.send_signal(signal.SIGINT)
    assert process.wait(LIMIT_S) == Exit.INTERRUPTED
    assert not [one for one in family if is_alive(one)]


@pytest.mark.slow
def test_ctrl_c_stops_every_process_and_what_was_interrupted_is_gone_on_with(
    up: Start, throughline: Run, tmp_path: Path, environment: dict[str, str]
) -> None:
    interrupted(up, tmp_path)
    done = throughline("up", "--once", *on_a_free_port(), "-r", "v1")
    assert done.returncode == Exit.OK, done.stderr
    assert "Going on with the suite smoke at v1" in done.stderr, said(tmp_path) + done.stderr
    path = Path(environment["THROUGHLINE_STATE_DIR"]) / "throughline.sqlite3"
    with sqlite3.connect(path) as database:
        submissions = database.execute("select count(*) from submissions").fetchone()
    database.close()
    assert submissions == (1,)


@pytest.mark.parametrize("module", [pytest.param("service", marks=pytest.mark.slow), "worker"])
def test_a_process_that_dies_ends_everything_with_its_last_lines(
    up: Start, tmp_path: Path, module: str
) -> None:
    process = up(SCRIPT="slow")
    eventually(lambda: bool(running_below(process.pid, "scripted_benchmark")))
    family = psutil.Process(process.pid).children(recursive=True)
    victims = [one for one in family if one.cmdline()[1:3] == ["-m", module]]
    os.kill(victims[0].pid, signal.SIGKILL)
    assert process.wait(LIMIT_S) == Exit.AWAY
    eventually(lambda: not [one for one in family if is_alive(one)])
    assert f"The {module}" in said(tmp_path)
    assert "was killed by signal 9; the last lines of" in said(tmp_path)


def test_a_second_up_on_the_same_folder_says_where_the_first_is_and_a_killed_one_leaves_nothing(
    up: Start, throughline: Run, environment: dict[str, str]
) -> None:
    process = up(SCRIPT="slow")
    note = Path(environment["THROUGHLINE_STATE_DIR"]) / "up.json"
    eventually(lambda: note.exists() and note.read_text().endswith("}"))
    done = throughline("up", "--once", *on_a_free_port())
    assert done.returncode == Exit.USAGE
    assert f"already running at {json.loads(note.read_text())['url']}" in done.stderr
    eventually(lambda: bool(running_below(process.pid, "scripted_benchmark")))
    family = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.wait(LIMIT_S)
    eventually(lambda: not [one for one in family if is_alive(one)])


def test_a_database_that_cannot_be_used_is_one_sentence(throughline: Run) -> None:
    done = throughline("up", "--once", *on_a_free_port(), THROUGHLINE_DATABASE_URL="oracle://there")
    assert done.returncode == Exit.AWAY
    assert "THROUGHLINE_DATABASE_URL" in done.stderr
    assert "Traceback" not in done.stderr
