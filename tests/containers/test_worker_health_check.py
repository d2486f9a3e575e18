"""The worker image's health check, run against real processes and real folders."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from containers.worker_alive import problem

SCRIPT = Path(__file__).parents[2] / "containers" / "worker_alive.py"


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """A live process that is named as a worker's is."""
    child = subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()", "-m", "worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None
    child.stdout.readline()  # its name is its own only once it runs
    yield child
    child.kill()
    child.communicate()


def only(pid: int, folder: Path) -> Path:
    """A /proc in which there is no other process than ``pid``."""
    folder.mkdir()
    (folder / str(pid)).symlink_to(f"/proc/{pid}")
    return folder


def test_a_live_worker_with_a_writable_state_folder_is_well(
    process: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    state = tmp_path / "state"
    state.mkdir()
    assert problem(only(process.pid, tmp_path / "proc"), state) is None
    assert list(state.iterdir()) == [], "the check leaves nothing behind"


def test_the_check_runs_as_the_image_runs_it(
    process: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    environment = {**os.environ, "THROUGHLINE_STATE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, SCRIPT], check=False, env=environment, timeout=60)
    assert done.returncode == 0


def test_without_a_worker_process_it_is_not_well(tmp_path: Path) -> None:
    found = problem(only(os.getpid(), tmp_path / "proc"), tmp_path)
    assert found is not None
    assert "No worker process" in found


def test_a_worker_that_died_and_was_not_reaped_is_not_alive(
    process: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    process.kill()
    proc = only(process.pid, tmp_path / "proc")
    deadline = time.monotonic() + 30
    while problem(proc, tmp_path) is None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert problem(proc, tmp_path) is not None


def test_a_state_folder_that_cannot_be_written_is_said(
    process: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    gone = tmp_path / "gone"
    found = problem(only(process.pid, tmp_path / "proc"), gone)
    assert found is not None
    assert str(gone) in found
