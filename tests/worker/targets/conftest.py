"""A repository that a worker may build, and a stand-in for uv."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from builders.repository import git

from tests.worker.targets.origin import KEEP_B, Commit
from worker.targets.builds import Builds
from worker.targets.definitions import Repository


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    folder = tmp_path / "origin"
    git(folder.parent, "init", "--quiet", "--initial-branch=main", str(folder))
    return folder


@pytest.fixture
def commit(origin: Path) -> Commit:
    """Commit files by path, and return the commit's id."""

    def make(**files: str) -> str:
        for name, text in files.items():
            (origin / name.replace("__", ".")).write_text(text)
        git(origin, "add", "--all")
        git(origin, "commit", "--quiet", "--allow-empty", "--message", "one")
        return git(origin, "rev-parse", "HEAD")

    return make


@pytest.fixture
def build(tmp_path: Path, origin: Path) -> Callable[..., Builds]:
    def make(keep_b: float = KEEP_B, **more: object) -> Builds:
        target = Repository.model_validate({"git": str(origin), **more})
        return Builds(tmp_path / "builds", {"ours": target}, sys.executable, keep_b)

    return make


@pytest.fixture
def uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A uv that writes down how it was called and makes the folder that it was told to."""
    script = tmp_path / "bin" / "uv"
    script.parent.mkdir()
    script.write_text(
        "#!/bin/sh\n"
        f'echo "$@" >> {tmp_path}/calls; echo "$UV_PYTHON" >> {tmp_path}/pythons\n'
        'mkdir -p "$UV_PROJECT_ENVIRONMENT/bin"\n'
        f'ln -s {sys.executable} "$UV_PROJECT_ENVIRONMENT/bin/python"\n'
        'grep -q broken uv.lock && { echo "no wheel for this platform" >&2; exit 2; }\n'
        f"[ -f {tmp_path}/words ] && {{ cat {tmp_path}/words >&2; exit 2; }}\n"
        "exit 0\n"
    )
    script.chmod(0o755)
    monkeypatch.setattr("worker.targets.environment._uv", lambda: str(script))
    return tmp_path / "calls"
