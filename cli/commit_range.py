"""The commits of a range in a git checkout, along first parents, the oldest first."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from benchmarks.contracts import values
from cli.exits import Stop
from cli.revision import Version, commit_named, git
from service.wording.formats import counted

UNASKED = 30
"""Most commits that a range may have without a yes: each is measured by itself."""
_FORMAT = "%H%x00%cI%x00%an%x00%s"


def commits_of(text: str, folder: Path, *, sure: bool) -> list[Version]:
    """List the commits of ``A..B``: after A, up to B.

    Args:
        text: the range; without B it ends at the commit that is checked out.
        folder: a git checkout.
        sure: any number of commits is wanted.

    Raises:
        Stop: it is no range here, it is empty, or its commits are where no worker finds them.
    """
    first, last = _ends(text, folder)
    _check_order(text, first, last, folder)
    how = "--first-parent", "--reverse", f"--format={_FORMAT}"
    listed = git(folder, "log", *how, f"{first}..{last}", "--")
    if not listed:
        raise Stop(f"git lists no commits of {text} here: fetch the whole history.")
    lines = listed.split("\n")
    if len(lines) > UNASKED and not sure:
        raise Stop(
            f"{text} has {len(lines)} commits, and each is measured by itself: name a shorter "
            "range, or say --yes."
        )
    _check_pushed(first, last, folder)
    return [_version(line) for line in lines]


def with_good_end(text: str, folder: Path) -> list[Version]:
    """List the commits of ``A..B`` with A itself before them.

    Raises:
        Stop: as `commits_of`, which asks for no yes here.
    """
    commits = commits_of(text, folder, sure=True)
    first, _ = _ends(text, folder)
    line = git(folder, "log", "-1", f"--format={_FORMAT}", first, "--")
    return [_version(line) if line else Version(first), *commits]


def _ends(text: str, folder: Path) -> tuple[str, str]:
    first, dots, last = text.partition("..")
    if not (first and dots) or last.startswith(".") or ".." in last:
        raise Stop(f"--range {text}: write A..B, for the commits after A up to B.")
    if git(folder, "rev-parse", "--git-dir") is None:
        raise Stop("The current folder is no git checkout, so no range has commits here.")
    return _commit(first, folder), _commit(last or "HEAD", folder)


def _commit(name: str, folder: Path) -> str:
    commit = None if name.startswith("-") else commit_named(name, folder)
    if commit is None:
        raise Stop(f"There is no commit {name} in this checkout: check the name, or fetch it.")
    return commit


def _check_order(text: str, first: str, last: str, folder: Path) -> None:
    """Refuse what is not the way from a commit to one that came after it."""
    if first == last:
        raise Stop(f"{text} is empty: both ends are the commit {first[:12]}.")
    if _leads_to(first, last, folder):
        return
    if _leads_to(last, first, folder):
        raise Stop(f"{text} is empty: its end came before its beginning. Turn it round.")
    fork = git(folder, "merge-base", first, last)
    since = f"they parted at {fork[:12]}" if fork else "they have no commit in common here"
    raise Stop(f"{text}: its beginning is no ancestor of its end; {since}.")


def _leads_to(ancestor: str, commit: str, folder: Path) -> bool:
    return git(folder, "merge-base", "--is-ancestor", ancestor, commit) is not None


def _check_pushed(first: str, last: str, folder: Path) -> None:
    """Refuse commits that are in no branch of a remote; without a remote nobody knows."""
    if not git(folder, "remote"):
        return
    span = "--first-parent", f"{first}..{last}"
    unpushed = (git(folder, "rev-list", *span, "--not", "--remotes", "--") or "").split()
    if unpushed:
        raise Stop(
            f"{counted(len(unpushed), 'commit')} of the range, such as {unpushed[-1][:12]}, "
            f"{'is' if len(unpushed) == 1 else 'are'} in no branch of a remote, and workers build "
            "what was pushed: push first."
        )


def _version(line: str) -> Version:
    commit, at, author, title = line.split("\0", 3)
    committed_at = datetime.fromisoformat(at).astimezone(UTC)
    return Version(commit, committed_at, values.line(author), values.line(title))
