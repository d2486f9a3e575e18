"""Measures how soon a commit is ready to run: with a lock file that was seen, and with a new one.

``PYTHONPATH=.:tests python -m trials.builds FILE [--requires torch==2.13.0 ...]`` makes a
repository whose ``uv.lock`` has these packages, builds its first commit so that uv's cache has
their wheels, and then commits in turn whose lock is the same and whose lock is another with the
same packages. A line for each build is appended to FILE. uv finds packages as its own settings say.

``--code A B`` builds each kind with the worker of both checkouts in turn, and ``--environments N``
lays out as many that nobody uses, as on a worker that has worked for weeks. Beside the time that a
build took stands the processor time, which others on the machine disturb less: builds give way.
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
from shutil import copytree
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
    parser.add_argument("--code", nargs="+", type=Path, default=[Path.cwd()])
    parser.add_argument("--environments", type=int, default=0)
    parser.add_argument("--kinds", nargs="+", default=["seen lock", "new lock"])
    options = parser.parse_args()
    with TemporaryDirectory() as name, options.file.open("a", encoding="utf-8") as out:
        folder = Path(name)
        origin = folder / "origin"
        origin.mkdir()
        git(origin, "init", "--quiet", "--initial-branch=main")
        lock(origin, options.requires)
        workers = {code: worker(code, folder) for code in options.code}
        turns = [(kind, code) for kind in options.kinds for code in options.code]
        turns += reversed(turns)
        for number, (kind, code) in enumerate(
            [("first", options.code[0]), *turns * options.rounds]
        ):
            commit = change(origin, number, new_lock=kind == "new lock")
            took = ask(workers[code], commit)
            row = {"kind": kind, "code": git(code, "rev-parse", "--short", "HEAD"), **took}
            row |= {"at": datetime.now(UTC).isoformat(), "load": os.getloadavg()[0]}
            row |= {"environments": options.environments, "requires": options.requires}
            out.write(json.dumps(row) + "\n")
            print(row, flush=True)
            if kind == "first":
                lay_out(folder / "builds" / "environments", options.environments)


def worker(code: Path, folder: Path) -> subprocess.Popen[str]:
    """A process that builds, with the code of a checkout, the commits that it reads."""
    command = [sys.executable, __file__, "--worker", str(folder)]
    path = {"PYTHONPATH": f"{code.resolve()}:{code.resolve() / 'tests'}"}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=os.environ | path, text=True, stdin=pipe, stdout=pipe)


def ask(process: subprocess.Popen[str], commit: str) -> dict[str, float]:
    """Have a commit built; give what that took."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{commit}\n")
    process.stdin.flush()
    took: dict[str, float] = json.loads(process.stdout.readline())
    return took


def build(folder: Path) -> None:
    """Build each commit that is asked for, and say what it took, in s."""
    repository = Repository.model_validate({"git": str(folder / "origin"), "install": "uv-sync"})
    builds = Builds(folder / "builds", {"measured": repository}, sys.executable, KEEP_B)
    for line in sys.stdin:
        from_s, from_cpu = time.monotonic(), os.times()
        builds.folder_of(line.strip())
        took_s, cpu = time.monotonic() - from_s, os.times()
        own, started = sum(cpu[:2]) - sum(from_cpu[:2]), sum(cpu[2:4]) - sum(from_cpu[2:4])
        took = {"took_s": took_s, "own_cpu_s": own, "commands_cpu_s": started}
        print(json.dumps({name: round(value, 3) for name, value in took.items()}), flush=True)


def lay_out(environments: Path, count: int) -> None:
    """Copy the environment that is there so many times, by hard links."""
    [made] = environments.iterdir()
    for number in range(count):
        copytree(made, environments / f"{number:032x}", symlinks=True, copy_function=os.link)


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
    if sys.argv[1:2] == ["--worker"]:
        build(Path(sys.argv[2]))
    else:
        main()
