"""A command of a build: bounded, without token and GPU, ended with all that it started."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from worker.child.containment import Containment, guarded, obstacle_to_namespaces
from worker.targets import commands
from worker.targets.commands import BuildFailed, BuildLimits


def test_a_command_that_hangs_ends_with_all_that_it_started(tmp_path: Path):
    limits = BuildLimits(1.0)
    seconds = f"98.{os.getpid()}"  # names the process that must be gone
    script = f"import subprocess, time; subprocess.Popen(['sleep', '{seconds}']); time.sleep(99)"
    from_s = time.monotonic()
    with pytest.raises(BuildFailed, match="took longer than 1 s"):
        commands.run([sys.executable, "-c", script], limits, tmp_path / "log")
    assert time.monotonic() - from_s < 60
    lines = [one.info["cmdline"] or [] for one in psutil.process_iter(["cmdline"])]
    assert not [line for line in lines if seconds in line]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "git@x: Permission denied (publickey).\nfatal: Could not read from remote repository."
            "\n\nPlease make sure you have the correct access rights\nand the repository exists.",
            "git@x: Permission denied (publickey). / fatal: Could not read from remote repository.",
        ),
        (
            "error: Failed to download `x==1`\n  cause: Hash mismatch for `x==1`\n\n  Expected:\n"
            "    sha256:1\n\n  Computed:\n    sha256:2\n\nhint: `x` was included because ...",
            "error: Failed to download `x==1` / cause: Hash mismatch for `x==1` / Expected:",
        ),
        ("one\ntwo\nthree\nfour", "two / three / four"),
    ],
)
def test_a_failure_quotes_its_cause(tmp_path: Path, said: str, told: str):
    script = f"import sys; sys.exit({said!r})"
    with pytest.raises(BuildFailed) as failed:
        commands.run([sys.executable, "-c", script], BuildLimits(20.0), tmp_path / "log")
    assert str(failed.value).endswith(f" failed: {told}")


@pytest.mark.parametrize("containment", list(Containment))
def test_a_build_gives_way_to_what_is_measured(
    tmp_path: Path, containment: Containment, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(commands, "guarded", guarded)
    if containment is Containment.PID_NAMESPACE and (why := obstacle_to_namespaces()):
        pytest.skip(why)
    asks = [sys.executable, "-c", "import os; print(os.nice(0))"]
    if containment is Containment.PROCESS_GROUP:
        told = commands.run(asks, BuildLimits(20.0), tmp_path / "log")
    else:
        command = [*guarded(containment, commands.TASKS, gives_way=True), *asks]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert told == "19\n"


def test_a_build_sees_no_token_and_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("THROUGHLINE_TOKEN", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "GIT_DIR"):
        monkeypatch.setenv(name, "secret")
    show = "import os; print(sorted(os.environ.items()))"
    limits = BuildLimits(20.0)
    told = commands.run([sys.executable, "-c", show], limits, tmp_path / "log")
    assert "'secret'" not in told
    assert "('CUDA_VISIBLE_DEVICES', '')" in told
