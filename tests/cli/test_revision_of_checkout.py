import subprocess
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
from builders import repository

from cli.exits import Exit, Stop
from cli.gate.order import GateOptions
from cli.revision import checked_out, commit_named, fork_point, given_or_checked_out, of_today
from worker.targets.builds import Builds
from worker.targets.commands import BuildFailed
from worker.targets.definitions import Repository


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    done = subprocess.run(
        ["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    (tmp_path / "train.py").write_text("print()\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first", "--date", "2026-01-02T03:04:05+01:00")
    return tmp_path


def test_the_revision_is_the_commit_with_its_time(checkout: Path) -> None:
    version = checked_out(checkout)
    assert version is not None
    assert version.revision == git(checkout, "rev-parse", "HEAD")
    assert version.revision_at is not None
    assert version.revision_at.tzinfo is UTC
    assert version.request() == {
        "revision": version.revision,
        "revision_at": version.revision_at.isoformat(),
        "revision_author": "t",
        "revision_title": "first",
    }


def test_a_branch_or_an_abbreviation_names_its_commit(checkout: Path) -> None:
    commit = git(checkout, "rev-parse", "HEAD")
    git(checkout, "branch", "my-branch")
    assert commit_named("my-branch", checkout) == commit
    assert commit_named(commit[:9], checkout) == commit
    assert commit_named("my-brnch", checkout) is None


def test_changed_tracked_files_make_the_revision_dirty(checkout: Path) -> None:
    (checkout / "train.py").write_text("print(1)\n")
    version = checked_out(checkout)
    assert version is not None
    assert version.revision.endswith("+dirty")
    assert (version.author, version.title) == ("", "")


def test_untracked_files_do_not_make_it_dirty(checkout: Path) -> None:
    (checkout / "notes.txt").write_text("x")
    version = checked_out(checkout)
    assert version is not None
    assert not version.revision.endswith("+dirty")


def test_a_folder_without_commit_has_no_revision(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    assert checked_out(tmp_path) is None


def test_without_checkout_the_user_must_name_the_revision(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    with pytest.raises(Stop, match="--revision") as stopped:
        given_or_checked_out(None, tmp_path)
    assert stopped.value.code is Exit.USAGE


def test_a_named_revision_needs_no_checkout(tmp_path: Path) -> None:
    assert given_or_checked_out("v1.2", tmp_path).revision == "v1.2"


def test_the_day_names_the_revision_where_there_is_no_commit() -> None:
    assert of_today(datetime(2026, 11, 20, tzinfo=UTC)).revision == "local-2026-11-20"


def test_a_branch_is_compared_with_where_it_left_the_main_branch(tmp_path: Path) -> None:
    git = partial(repository.git, tmp_path)
    git("init", "--quiet", "--initial-branch=main")
    assert fork_point(tmp_path) is None
    for message in ("one", "two"):
        git("commit", "--quiet", "--allow-empty", "--message", message)
    first, second = git("rev-parse", "HEAD^"), git("rev-parse", "HEAD")
    assert fork_point(tmp_path) == first  # on the main branch: the commit before
    git("switch", "--quiet", "--create", "mine")
    for message in ("three", "four"):
        git("commit", "--quiet", "--allow-empty", "--message", message)
    assert fork_point(tmp_path) == second
    assert fork_point(tmp_path / "..") is None


@pytest.fixture
def cloned(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: a checkout of a bare repository, on its main branch."""
    git(checkout, "clone", "--quiet", "--bare", ".", "origin.git")
    folder = checkout / "clone"
    git(checkout, "clone", "--quiet", "origin.git", "clone")
    for name in ("user.name", "user.email"):
        git(folder, "config", name, "t@example.org")
    monkeypatch.chdir(folder)
    return folder


def order(case: str) -> GateOptions:
    """A gate of the changes here, with nothing else chosen."""
    none = (None, None, None)
    return GateOptions(*none, (case,), *none, "20m", (), *none, push_changes=True)


def test_changes_are_gated_where_the_worker_allows_them_and_leave_no_trace(
    cloned: Path, tmp_path: Path
) -> None:
    head, origin = git(cloned, "rev-parse", "HEAD"), tmp_path / "origin.git"
    (cloned / "train.py").write_text("a password")
    git(cloned, "add", "train.py")
    (cloned / "train.py").write_text("print(2)\n")
    (cloned / "notes.txt").write_text("in no commit")
    asked = order("unet").request()
    changed = asked["contender"]
    assert (asked["baseline"], git(cloned, "rev-parse", "HEAD")) == (head, head)
    assert git(cloned, "status", "--porcelain") == "MM train.py\n?? notes.txt"
    parents = git(cloned, "rev-list", "--parents", "-n1", changed).split()[1:]
    assert parents == [head], "what is staged alone is not sent"
    assert git(cloned, "stash", "list") == ""
    assert git(origin, "for-each-ref", "--format=%(refname)").splitlines()[1:] == [
        f"refs/throughline/{changed}"
    ]
    allowed = ("refs/heads/*", "refs/throughline/*")
    target = {"ours": Repository(git=str(origin), refs=allowed)}
    built = Builds(tmp_path / "builds", target, "python", 2**30).folder_of(changed)
    assert built is not None
    assert (built / "train.py").read_text() == "print(2)\n"
    assert not (built / "notes.txt").exists()
    cautious = Builds(tmp_path / "other", {"ours": Repository(git=str(origin))}, "python", 2**30)
    with pytest.raises(BuildFailed, match="is in no repository of this worker's targets"):
        cautious.folder_of(changed)


def test_without_changes_the_commit_is_gated_and_nothing_pushed(
    cloned: Path, tmp_path: Path
) -> None:
    git(cloned, "commit", "--quiet", "--allow-empty", "--message", "second")
    asked = order("unet").request()
    assert asked["contender"] == git(cloned, "rev-parse", "HEAD")
    assert asked["baseline"] == git(cloned, "rev-parse", "HEAD^")
    assert "throughline" not in git(tmp_path / "origin.git", "for-each-ref")


def test_changes_that_cannot_be_pushed_say_why(cloned: Path, tmp_path: Path) -> None:
    (cloned / "train.py").write_text("print(2)\n")
    with pytest.raises(Stop, match="leave --contender out"):
        replace(order("unet"), contender="main").request()
    with pytest.raises(Stop, match="no span of time"):
        replace(order("unet"), budget="soon").request()
    assert "throughline" not in git(tmp_path / "origin.git", "for-each-ref")
    (tmp_path / "origin.git").rename(tmp_path / "gone.git")
    with pytest.raises(Stop, match=r"The changes could not be pushed: `git push` failed: .*origin"):
        order("unet").request()
