"""Names the version under test after the checkout in the current folder."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.contracts import values
from cli.exits import Stop


@dataclass(frozen=True)
class Version:
    """A revision with its time, author and title, where they are known."""

    revision: str
    revision_at: datetime | None = None
    author: str = ""
    title: str = ""

    def request(self) -> dict[str, str]:
        """Return it as the fields of a request to the service."""
        request = {"revision": self.revision}
        if self.revision_at is not None:
            request["revision_at"] = self.revision_at.isoformat()
        said = {"revision_author": self.author, "revision_title": self.title}
        return request | {name: text for name, text in said.items() if text}


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
    head = git(folder, "show", "--no-patch", "--format=%H%n%cI%n%an%n%s", "HEAD")
    if head is None:
        return None
    commit, at, author, title = [*head.split("\n", 3), "", ""][:4]
    committed_at = datetime.fromisoformat(at).astimezone(UTC)
    if git(folder, "status", "--porcelain", "--untracked-files=no"):
        return Version(f"{commit}+dirty", committed_at)  # the changes have no author yet
    return Version(commit, committed_at, values.line(author), values.line(title))


def commit_named(name: str, folder: Path) -> str | None:
    """The commit that git knows by ``name`` (a branch, a tag, an abbreviation) in ``folder``."""
    return git(folder, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")


MAIN_BRANCHES = ("origin/HEAD", "origin/main", "origin/master", "main", "master")
"""Names of the branch that others start from, the likeliest first."""


def fork_point(folder: Path, of: str = "HEAD") -> str | None:
    """Return the commit where the history of ``of`` left the main branch.

    For a commit of the main branch that is the one before. None if there is no such commit.
    """
    head = commit_named(of, folder)
    main = next((name for name in MAIN_BRANCHES if commit_named(name, folder)), None)
    if head is None or main is None:
        return None
    fork = git(folder, "merge-base", head, main)
    return commit_named(f"{head}^", folder) if fork == head else fork


CHANGES = "refs/throughline/"
"""Folder of refs to which changes that are on no branch are pushed, each under its commit."""


def pushed_changes(folder: Path) -> Version:
    """Push the changes of tracked files to ``origin``, as a commit that is on no branch.

    Branch, index and files stay as they are. Without changes it is the commit checked out.

    Raises:
        Stop: ``folder`` is no git checkout with a commit, or git refuses; the sentence says why.
    """
    given_or_checked_out(None, folder, "--contender")
    stashed = _told(folder, "stash", "create")
    if not stashed:
        return given_or_checked_out(None, folder, "--contender")
    # The stash has the index as a second parent, which holds what nobody means to send.
    message = "Changes sent by throughline gate"
    changed = _told(folder, "commit-tree", f"{stashed}^{{tree}}", "-p", "HEAD", "-m", message)
    _told(folder, "push", "--quiet", "origin", f"{changed}:{CHANGES}{changed}")
    return Version(changed)


def _told(folder: Path, *arguments: str) -> str:
    """What git prints.

    Raises:
        Stop: it fails.
    """
    done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, check=False)
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").split("\n")
        said = " / ".join([line for line in lines if line.strip()][:3])
        raise Stop(f"The changes could not be pushed: `git {arguments[0]}` failed: {said}")
    return done.stdout.decode().strip()


def of_today(now: datetime) -> Version:
    """Name the version after the day, for a folder without a commit."""
    return Version(f"local-{now.date().isoformat()}")


def git(folder: Path, *arguments: str) -> str | None:
    """Run git; None when it is not there or refuses."""
    command = ["git", "-c", "log.showSignature=false", *arguments]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    except OSError:
        return None
    # As bytes: text would turn a CR, which a title may hold, into the end of a line.
    said = done.stdout.decode(errors="replace").strip()
    return said if done.returncode == 0 else None
