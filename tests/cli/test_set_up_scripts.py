"""What `make` says on a machine that lacks something."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def bare_path(tmp_path: Path) -> Path:
    """A PATH with a shell and hardly anything else; no Python, no apt-get, no sudo."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "dirname", "id"):
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    return folder


def run(script: str, path: Path, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": str(path), **more}
    return subprocess.run(
        [ROOT / "scripts" / script], env=environment, capture_output=True, text=True, check=False
    )


def fake_python(folder: Path, name: str, code: str) -> None:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{code}\n")
    file.chmod(0o755)


def test_without_a_new_enough_python_one_sentence_says_what_to_install(bare_path: Path) -> None:
    fake_python(bare_path, "python3", "exit 1")
    done = run("python", bare_path)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("Throughline needs Python 3.11 or newer: install it")
    assert done.stderr.count("\n") == 1


def test_a_python_without_venv_names_the_package_that_is_missing(bare_path: Path) -> None:
    code = 'case "$2" in *ensurepip*) exit 1 ;; *print*) echo python3.11-venv ;; esac'
    fake_python(bare_path, "python3", code)
    done = run("python", bare_path)
    assert done.returncode == 1
    assert "install the package python3.11-venv" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_newer_python_under_another_name_is_found(bare_path: Path) -> None:
    fake_python(bare_path, "python3", "exit 1")
    fake_python(bare_path, "python3.12", "exit 0")
    assert run("python", bare_path).stdout == "python3.12\n"


def test_without_chromium_one_sentence_says_what_to_install(bare_path: Path) -> None:
    done = run("chromium", bare_path)
    assert done.returncode == 1
    assert "apt-get install chromium" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_compiler_is_asked_for_by_its_package(bare_path: Path) -> None:
    done = run("compiler", bare_path)
    assert done.returncode == 1
    assert "apt-get install g++" in done.stderr
    assert done.stderr.count("\n") == 1


def test_make_alone_lists_the_commands() -> None:
    done = subprocess.run(
        ["make", "--no-print-directory"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in ("up", "test", "soak", "lint", "gpu", "containers", "lock", "sbom"):
        assert f"make {name} " in done.stdout


SCRIPTS = sorted(file for file in (ROOT / "scripts").iterdir() if not file.suffix)


@pytest.mark.parametrize("file", SCRIPTS, ids=lambda path: path.name)
def test_every_script_may_be_run(file: Path) -> None:
    assert os.access(file, os.X_OK)
    subprocess.run(["sh", "-n", file], check=True)


def test_ci_runs_what_people_run() -> None:
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert lines[-2:] == ["make test", 'PYTEST_ARGS="${SOAK_ARGS-}" make soak']
