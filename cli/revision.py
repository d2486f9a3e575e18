"""Names the version under test after the checkout in the current folder."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cli.exits import Stop


@dataclass(frozen=True)
class Version:
    """A revision, and when it was made if that is known."""

    revision: str
    revision_at: datetime | None = None


def given_or_checked_out(given: str | None, folder: Path, option: str = "--revision") -> Version:
    """Take the revision that the user named with ``option``, else the commit that ``folder`` has
    checked out.

    Raises:
        Stop: none was named, and ``folder`` is no git checkout with a commit.
    """
    if given is not None:
        return Version(given)
    version = checked_out(folder)
    if version is None:
        raise Stop(
            "The current folder is no git checkout with a commit: "
            f"name the version under test with {option}."
        )
    return version


def checked_out(folder: Path) -> Version | None:
    """Name the commit of ``folder``, with ``+dirty`` when tracked files differ from it."""
    head = _git(folder, "show", "--no-patch", "--format=%H %cI", "HEAD")
    if head is None:
        return None
    commit, _, committed_at = head.partition(" ")
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return Version(
        f"{commit}+dirty" if changed else commit,
        datetime.fromisoformat(committed_at).astimezone(UTC),
    )


def commit_named(name: str, folder: Path) -> str | None:
    """The commit that git knows by ``name`` (a branch, a tag, an abbreviation) in ``folder``."""
    return _git(folder, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")


def of_today(now: datetime) -> Version:
    """Name the version after the day, for a folder without a commit."""
    return Version(f"local-{now.date().isoformat()}")


def _git(folder: Path, *arguments: str) -> str | None:
    """Run git; None when it is not there or refuses."""
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=folder, capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
