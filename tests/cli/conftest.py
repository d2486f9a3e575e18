"""Runs the command line as people do: as a process, in a folder of its own."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from builders.forked import ForkServer

Run = Callable[..., subprocess.CompletedProcess[str]]
NO_ONE = "http://127.0.0.1:9"  # the discard port: nothing listens there


@pytest.fixture(scope="session")
def environment_in() -> Callable[[Path], dict[str, str]]:
    """An environment with no setting of the person who runs the tests, and one folder for all."""

    def make(folder: Path) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("THROUGHLINE_", "SCRIPT"))}
        script = Path(__file__).with_name("scripted_benchmark.py")
        return kept | {
            "COLUMNS": "200",
            "CUDA_VISIBLE_DEVICES": "",
            "OMP_NUM_THREADS": "1",  # tests share two cores: threads would wait for each other
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "THROUGHLINE_STATE_DIR": str(folder / "state"),
            "THROUGHLINE_CHILD_COMMAND": f'["{sys.executable}", "{script}"]',
            "THROUGHLINE_CANARY_EVERY_S": "0",
            "THROUGHLINE_ROLE": "web",  # a process for analysis imports as much as the service
            "THROUGHLINE_CACHE_DIR": str(folder / "cache"),
            "THROUGHLINE_URL": NO_ONE,
        }

    return make


@pytest.fixture(scope="session")
def throughline_in(forks: ForkServer) -> Callable[[Path, dict[str, str]], Run]:
    """Run `throughline ARGUMENTS` to its end, in a folder with an environment."""

    def bind(folder: Path, environment: dict[str, str]) -> Run:
        def run(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
            told = environment | more
            if any(name.startswith("PYTHON") for name in more):  # what only a real start heeds
                return subprocess.run(
                    [sys.executable, "-m", "cli", *arguments],
                    cwd=folder,
                    env=told,
                    capture_output=True,
                    text=True,
                    timeout=120,
                    check=False,
                )
            return forks.run("cli", *arguments, folder=folder, environment=told, limit_s=120)

        return run

    return bind


@pytest.fixture
def migrated(environment: dict[str, str], sqlite_template: Path) -> None:
    """The state folder has a migrated database, as after `throughline migrate`."""
    folder = Path(environment["THROUGHLINE_STATE_DIR"])
    folder.mkdir(mode=0o700)
    shutil.copyfile(sqlite_template, folder / "throughline.sqlite3")


@pytest.fixture
def environment(tmp_path: Path, environment_in: Callable[[Path], dict[str, str]]) -> dict[str, str]:
    return environment_in(tmp_path)


@pytest.fixture
def throughline(
    tmp_path: Path,
    environment: dict[str, str],
    throughline_in: Callable[[Path, dict[str, str]], Run],
) -> Run:
    return throughline_in(tmp_path, environment)
