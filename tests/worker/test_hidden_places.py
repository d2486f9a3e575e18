"""What a child in a namespace does not see of its worker's files, and what it still does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from worker.child.containment import Containment, Hidden, guarded
from worker.child.process import Limits, Task
from worker.child.resource_limits import Allowance
from worker.supervisor import hidden_from

LOOK = """
import json, os, sys
found = [os.path.join(top, name) for top, _, names in os.walk(sys.argv[1]) for name in names]
here = sorted(os.listdir("."))
with open(sys.argv[2], "w") as file:
    file.write("new")
print(json.dumps([sorted(found), here]))
"""


@pytest.fixture(autouse=True)
def in_a_namespace(strongest: Containment) -> None:
    if strongest is not Containment.PID_NAMESPACE:
        pytest.skip("no PID namespace can be had here")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state folder with a secret in it, and a folder that children need."""
    folder = tmp_path / "state"
    (folder / "caches" / "job").mkdir(parents=True)
    (folder / "caches" / "job" / "compiled").write_text("kept")
    (folder / "local.token").write_text("secret")
    return folder


def seen(hidden: Hidden, folder: Path, written: Path, cwd: Path) -> str:
    command = [*guarded(Containment.PID_NAMESPACE, 400, hidden), sys.executable, "-c", LOOK]
    told = subprocess.run(
        [*command, str(folder), str(written)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return told.stdout


def test_of_a_hidden_folder_only_what_is_kept_is_seen_and_written(
    state: Path, tmp_path: Path
) -> None:
    job = state / "caches" / "job"
    told = seen(Hidden((str(state),), (str(job),)), state, job / "new", tmp_path)
    assert str(job / "compiled") in told
    assert "local.token" not in told
    assert (job / "new").read_text() == "new"


def test_who_stands_in_a_hidden_folder_does_not_see_it_either(state: Path) -> None:
    told = seen(Hidden((str(state),)), state, Path("left"), state)
    assert told == "[[], []]\n"
    assert not (state / "left").exists(), "what it writes there stays in its own memory"
    assert (state / "local.token").read_text() == "secret"


def test_a_hidden_file_is_empty_and_links_hide_nothing_else(state: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(state)
    hidden = Hidden((str(link), str(tmp_path / "absent")))
    assert "local.token" not in seen(hidden, state, tmp_path / "a", tmp_path)
    alone = Hidden((str(state / "local.token"),))
    read = [*guarded(Containment.PID_NAMESPACE, 400, alone), "cat", str(state / "local.token")]
    assert subprocess.run(read, capture_output=True, check=True, timeout=60).stdout == b""


def test_a_child_keeps_what_it_is_given_and_not_where_its_worker_stood(settings, tmp_path):
    state = settings.state
    names = {"TMPDIR": "tmp", "TRITON_CACHE_DIR": "caches/j/tri", "PWD": "workers/w1"}
    environment = {name: str(state / path) for name, path in names.items()}
    limits = Limits(1.0, 1.0, 1, 1.0, Allowance(1, 1, 1))
    folder = tmp_path / "job"
    task = Task(("python",), environment, folder, state / "checkouts" / "r1", limits)
    chosen = settings.model_copy(update={"token_file": tmp_path / "token"})
    hidden = hidden_from(task, chosen)
    assert hidden.places == (str(state), str(tmp_path / "token"))
    kept = {state / "tmp", state / "caches/j/tri", state / "checkouts/r1"}
    assert set(map(Path, hidden.kept)) == kept
