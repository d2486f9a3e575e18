"""A worker lists the commits of a range along first parents, or says why it cannot."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from builders.long_forms import long_but
from builders.repository import git

from benchmarks.contracts import CommitRange, ListedRange, Worker
from tests.worker.targets.origin import Commit
from worker.targets import mirror as mirrors
from worker.targets.builds import Builds
from worker.targets.commands import BuildFailed
from worker.targets.mirror import Mirror


def told_between(builds: Builds, good: str, bad: str) -> ListedRange:
    """What an introduction says after it was asked for a range."""
    builds.list_range(CommitRange(good=good, bad=bad))
    listed = Worker.model_validate({"name": "w", **builds.told()}).listed
    assert listed is not None
    assert (listed.good, listed.bad) == (good, bad)
    builds.list_range(None)
    assert "listed" not in builds.told()
    return listed


def test_the_commits_of_a_range_are_listed_along_first_parents(
    commit: Commit, build: Callable[..., Builds], origin: Path
):
    good, one = commit(a__py="1\n"), commit(a__py="2\n")
    git(origin, "switch", "--quiet", "--create", "side", good)
    commit(b__py="aside\n")
    git(origin, "switch", "--quiet", "main")
    git(origin, "merge", "--quiet", "--no-ff", "--message", "a\x1b[31m <b>merge</b>", "side")
    merge = git(origin, "rev-parse", "HEAD")
    bad = commit(a__py="3\n")
    builds = build()
    builds.refresh()
    listed = told_between(builds, good, bad)
    assert [one.commit for one in listed.commits] == [one, merge, bad]
    assert [one.title for one in listed.commits] == ["one", "a [31m <b>merge</b>", "one"]
    assert {one.author for one in listed.commits} == {"A"}
    assert all(one.at.tzinfo for one in listed.commits)


@pytest.mark.parametrize(
    ("why", "says"),
    long_but(
        [
            ("turned round", "is no ancestor of"),
            ("unrelated", "is no ancestor of"),
            ("gone", "No allowed ref of this worker's targets leads to both commits any more."),
            ("too many", "The range has 3 commits, and 2 can be listed."),
            ("without a time", "git tells a commit of the range without a time or an author."),
        ],
        0,
        2,
        3,
    ),
)
def test_a_range_that_cannot_be_listed_says_why(
    commit: Commit,
    build: Callable[..., Builds],
    origin: Path,
    monkeypatch: pytest.MonkeyPatch,
    why: str,
    says: str,
):
    good, _, _, bad = (commit(a__py=f"{place}\n") for place in range(4))
    if why == "turned round":
        good, bad = bad, good
    elif why == "unrelated":
        git(origin, "switch", "--quiet", "--orphan", "other")
        good = commit(a__py="9\n")
    elif why == "gone":
        bad = "0" * 40
    elif why == "too many":
        monkeypatch.setattr(mirrors, "MOST_COMMITS", 2)
    else:
        monkeypatch.setenv("GIT_COMMITTER_DATE", "@999999999999 +0000")
        bad = commit(a__py="9\n")
        monkeypatch.delenv("GIT_COMMITTER_DATE")
    builds = build()
    builds.refresh()
    listed = told_between(builds, good, bad)
    assert (listed.commits, listed.passing) == ((), False)
    assert says in listed.reason


def test_trouble_of_the_machine_may_pass(
    commit: Commit, build: Callable[..., Builds], monkeypatch: pytest.MonkeyPatch
):
    good, bad = commit(a__py="1\n"), commit(a__py="2\n")
    builds = build()
    builds.refresh()

    def late(*_: str) -> list[tuple[str, ...]]:
        raise BuildFailed("`git log` took longer than 600 s.")

    with monkeypatch.context() as patch:
        patch.setattr(Mirror, "between", late)
        listed = told_between(builds, good, bad)
    assert (listed.reason, listed.passing) == ("`git log` took longer than 600 s.", True)
    assert len(told_between(builds, good, bad).commits) == 1
