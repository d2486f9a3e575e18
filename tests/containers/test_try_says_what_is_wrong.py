"""`make containers` never fails in silence and leaves nothing behind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from containers.first_job import report

ROOT = Path(__file__).parents[2]


def start(folder: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TMPDIR": str(folder), **settings}
    return subprocess.run(
        [ROOT / "containers" / "try.sh"],
        check=False,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_an_engine_that_is_not_known_is_said_and_nothing_stays(tmp_path: Path) -> None:
    done = start(tmp_path, THROUGHLINE_ENGINE="lxc")
    assert done.returncode != 0
    assert "set it to docker or podman" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_docker_without_a_daemon_is_said_and_nothing_stays(tmp_path: Path) -> None:
    done = start(tmp_path, THROUGHLINE_ENGINE="docker", DOCKER_HOST=f"unix://{tmp_path}/none.sock")
    assert done.returncode != 0
    assert "no Docker daemon with compose answers" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["http://127.0.0.1:9"], "got no answer"),
        (["http://127.0.0.1:9", "compile"], "is not of the form axis=value"),
    ],
)
def test_the_first_job_says_what_went_wrong(arguments: list[str], sentence: str) -> None:
    script = ROOT / "containers" / "first_job.py"
    done = subprocess.run(
        [sys.executable, script, *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode != 0
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_a_result_that_failed_is_told_with_its_reason() -> None:
    stored = {
        "id": "r1",
        "worker": "w",
        "result": {
            "case": {"workload": "nanogpt", "preset": "tiny", "axes": {"compile": "default"}},
            "status": "compile_error",
            "reason": "There is no compiler.",
            "samples": [],
        },
    }
    told = report(stored)
    assert "nanogpt:tiny compile=default by w" in told
    assert "compile_error There is no compiler." in told
