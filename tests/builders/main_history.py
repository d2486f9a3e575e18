"""Writes a repository whose main branch has 24 commits: one is slow, a later one mends it."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

START = datetime(2025, 3, 1, 12, tzinfo=UTC)
COMMITS, REVERTED, CRASHING, SLOW, UNBUILDABLE, MERGE, MENDED = 24, 6, 11, 13, 14, 15, 20
"""Commit 6 is slow at first, 7 its revert, 13 the revert of that, and 20 reverts this."""

FAST = "def step(device, workload):\n    device.run(0.1)\n"
CHECKED = (
    f"{FAST}    if workload == 'unet':  # are all gradients finite?\n        device.run(0.003)\n"
)
CHECKED_TWICE = f"{CHECKED}        device.run(0.003)\n"
CRASHES = "import os\nos.abort()\n"


@dataclass(frozen=True)
class History:
    """A checkout with all commits, and the bare repository that they are pushed to."""

    checkout: Path
    origin: Path
    commits: tuple[str, ...]
    """The main branch along first parents; number 0 is the one before the first."""

    def push(self, number: int) -> str:
        """Move the main branch of the repository to a commit, and give its id."""
        commit = self.commits[number]
        git(self.checkout, "push", "-q", str(self.origin), f"{commit}:refs/heads/main")
        return commit


def written(folder: Path) -> History:
    """Write the history into a folder; nothing is pushed yet."""
    checkout, origin = folder / "checkout", folder / "origin.git"
    git(folder, "init", "-q", "--initial-branch=main", "--bare", str(origin))
    git(folder, "init", "-q", "--initial-branch=main", str(checkout))
    commits: list[str] = []
    for number in range(COMMITS + 1):
        _change(checkout, number, commits)
        commits.append(_commit(checkout, number, _title(number)))
    return History(checkout, origin, tuple(commits))


def git(folder: Path, *arguments: str, day: int = 0) -> str:
    """Run git as somebody whose commits have the same ids in each test."""
    at = (START + timedelta(days=day)).isoformat()
    known = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    for one in ("AUTHOR", "COMMITTER"):
        known |= {f"GIT_{one}_NAME": "Ada Lovelace", f"GIT_{one}_EMAIL": "ada@example.org"}
        known[f"GIT_{one}_DATE"] = at
    command = ["git", *arguments]
    done = subprocess.run(
        command, cwd=folder, env=os.environ | known, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def _title(number: int) -> str:
    titles = {
        REVERTED: "Check all gradients",
        REVERTED + 1: 'Revert "Check all gradients"',
        CRASHING: "Half of an idea",
        CRASHING + 1: "The idea given up",
        SLOW: 'Reapply "Check all gradients"',
        UNBUILDABLE: "Code in another folder",
        MERGE: "Merge the branch of another idea",
        MENDED: 'Revert "Check all gradients" once more',
    }
    return titles.get(number, f"Change number {number}")


def _change(checkout: Path, number: int, before: list[str]) -> None:
    """Do in the checkout what commit ``number`` does."""
    reverted = {REVERTED + 1: REVERTED, SLOW: REVERTED + 1, MENDED: SLOW}
    if number == 0:
        (checkout / "src").mkdir()
        _write(checkout, FAST)
    elif number == REVERTED:
        _write(checkout, CHECKED)
    elif number in reverted:
        git(checkout, "revert", "--no-commit", before[reverted[number]])
    elif number in (CRASHING, CRASHING + 1):
        _write(checkout, CRASHES if number == CRASHING else FAST)
    elif number == UNBUILDABLE:
        git(checkout, "mv", "src", "lib")
    elif number == MERGE:
        _merge_side(checkout, number)
    else:
        (checkout / "src" / "notes.txt").write_text(f"{number}\n")


def _merge_side(checkout: Path, day: int) -> None:
    """Merge a branch that was twice as slow on its way, which main never was."""
    git(checkout, "switch", "-q", "-c", "side")
    git(checkout, "mv", "lib", "src")
    for title, code in (("Another idea", CHECKED_TWICE), ("The same, once", CHECKED)):
        _write(checkout, code)
        _commit(checkout, day, title)
    git(checkout, "switch", "-q", "main")
    git(checkout, "merge", "-q", "--no-ff", "--no-commit", "side")


def _write(checkout: Path, code: str) -> None:
    (checkout / "src" / "training.py").write_text(code)


def _commit(checkout: Path, day: int, title: str) -> str:
    git(checkout, "add", "--all")
    git(checkout, "commit", "-q", "-m", title, day=day)
    return git(checkout, "rev-parse", "HEAD")
