"""Measures how soon a commit is ready to run: with a lock file that was seen, and with a new one.

``PYTHONPATH=.:tests python -m trials.builds FILE [--requires torch==2.13.0 ...]`` makes a
repository whose ``uv.lock`` has these packages, builds its first commit so that uv's cache has
their wheels, and then commits in turn whose lock is the same and whose lock is another with the
same packages. A line for each build is appended to FILE. uv finds packages as its own settings say.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from builders.repository import git

from worker.targets.builds import Builds
from worker.targets.definitions import Repository
from worker.targets.environment import LOCK

PROJECT = """[project]
name = "measured"
version = "0"
requires-python = ">=3.11"
dependencies = {requires}
"""
KEEP_B = float(2**40)


def main() -> None:
    """Build in turn, and append what each build took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requires", nargs="+", default=["torch==2.13.0"])
    options = parser.parse_args()
    with TemporaryDirectory() as name, options.file.open("a", encoding="utf-8") as out:
        folder = Path(name)
        origin = folder / "origin"
        origin.mkdir()
        git(origin, "init", "--quiet", "--initial-branch=main")
        lock(origin, options.requires)
        repository = Repository.model_validate({"git": str(origin), "install": "uv-sync"})
        builds = Builds(folder / "builds", {"measured": repository}, sys.executable, KEEP_B)
        kinds = ["first", *("seen lock", "new lock") * options.rounds]
        for number, kind in enumerate(kinds):
            commit = change(origin, number, new_lock=kind == "new lock")
            from_s = time.monotonic()
            builds.folder_of(commit)
            row = {"kind": kind, "took_s": round(time.monotonic() - from_s, 3)}
            row |= {"at": datetime.now(UTC).isoformat(), "load": os.getloadavg()[0]}
            out.write(json.dumps(row | {"requires": options.requires}) + "\n")
            print(row, flush=True)


def lock(origin: Path, requires: list[str]) -> None:
    """Write a project with these requirements, and its lock file."""
    text = PROJECT.format(requires=json.dumps(requires))
    (origin / "pyproject.toml").write_text(text, encoding="utf-8")
    uv = Path(sys.executable).with_name("uv")
    subprocess.run([uv, "lock", "--quiet", "--python", sys.executable], cwd=origin, check=True)


def change(origin: Path, number: int, *, new_lock: bool) -> str:
    """Commit a change of the code, and of the lock file's text if that is asked for."""
    (origin / "code.py").write_text(f"NUMBER = {number}\n", encoding="utf-8")
    if new_lock:
        with (origin / LOCK).open("a", encoding="utf-8") as text:
            text.write(f"# {number}\n")
    git(origin, "add", "--all")
    git(origin, "commit", "--quiet", "--message", f"Change number {number}")
    return git(origin, "rev-parse", "HEAD")


if __name__ == "__main__":
    main()
