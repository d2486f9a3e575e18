"""What a worker fetches, and what hostile repositories cannot do to it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders.repository import git

from benchmarks.contracts import MOST_HEADS, Worker
from tests.worker.targets.origin import Commit
from worker.targets import builds as made
from worker.targets import commands
from worker.targets import mirror as mirrors
from worker.targets.builds import Builds
from worker.targets.commands import BuildFailed, BuildLimits, Unbuildable
from worker.targets.definitions import Repository
from worker.targets.mirror import Mirror


@pytest.mark.parametrize("how", ["another branch", "force-pushed away", "never there"])
def test_only_commits_that_allowed_refs_reach_are_built(
    commit: Commit, build: Callable[..., Builds], origin: Path, how: str
):
    base = commit(a__py="1\n")
    builds = build(refs=["refs/heads/main"])
    assert builds.folder_of(base)
    lost = "0" * 39 + "1"
    if how == "another branch":
        git(origin, "switch", "--quiet", "--create", "other")
        lost = commit(a__py="3\n")
    if how == "force-pushed away":
        lost = commit(a__py="3\n")
        assert builds._find(lost)
        git(origin, "reset", "--quiet", "--hard", base)
        builds._fetch("ours", 60.0)
    with pytest.raises(BuildFailed, match=r"is in no repository of this worker's targets \(ours\)"):
        builds.folder_of(lost)


def test_refs_that_are_allowed_no_more_go_all_at_once_and_a_fetch_without_that_is_one(
    commit: Commit, build: Callable[..., Builds], origin: Path, monkeypatch: pytest.MonkeyPatch
):
    one = commit(a__py="1\n")
    for number in range(5):
        git(origin, "branch", f"b{number}")
    assert build().folder_of(one)
    asked: list[str] = []
    full = [OSError(28, "No space left on device"), BuildFailed("`git update-ref` failed: full")]
    run = mirrors.run

    def spy(command: list[str], *rest: Any, **more: Any) -> str:
        asked.append(" ".join(command))
        if "update-ref" in command and full:
            raise full.pop()
        return run(command, *rest, **more)

    monkeypatch.setattr(mirrors, "run", spy)
    builds = build(refs=["refs/heads/main"])
    assert [builds._fetch("ours", 60.0) for _ in range(3)] == ["", "", ""]
    assert sum("update-ref" in one for one in asked) == 3, "one for each fetch"
    assert heads(builds) == {"refs/heads/main": one}


def test_a_tag_that_moved_moves_no_commit(
    commit: Commit, build: Callable[..., Builds], origin: Path
):
    first = commit(a__py="1\n")
    git(origin, "tag", "v1")
    builds = build(refs=["refs/heads/main", "refs/tags/*"])
    assert builds.folder_of(first)
    second = commit(a__py="2\n")
    git(origin, "tag", "--force", "v1")
    folder = builds.folder_of(first)
    assert folder
    assert (folder / "a.py").read_text() == "1\n"
    assert builds.folder_of(second) != folder


def test_an_unreachable_repository_keeps_what_is_known_of_it(
    commit: Commit, build: Callable[..., Builds], origin: Path, caplog: pytest.LogCaptureFixture
):
    known, other = commit(a__py="1\n"), commit(a__py="2\n")
    builds = build()
    assert builds.folder_of(known)
    origin.rename(origin.with_name("gone"))
    assert builds.folder_of(other)
    with pytest.raises(BuildFailed, match="is in no repository"):
        builds.folder_of("0" * 40)
    assert "was not fetched: `git fetch` failed: " in caplog.text


def test_no_hook_and_no_filter_runs(
    commit: Commit, build: Callable[..., Builds], origin: Path, tmp_path: Path
):
    mark = tmp_path / "ran"
    for hook in ("post-checkout", "post-update", "upload-pack", "pre-auto-gc"):
        path = origin / ".git" / "hooks" / hook
        path.write_text(f"#!/bin/sh\ntouch {mark}\n")
        path.chmod(0o755)
    one = commit(__gitattributes="* filter=evil\n", a__py="1\n")
    folder = build().folder_of(one)
    assert folder
    assert (folder / "a.py").read_text() == "1\n"
    assert not mark.exists()


def test_a_submodule_is_an_empty_folder(
    commit: Commit, build: Callable[..., Builds], origin: Path, tmp_path: Path
):
    other = tmp_path / "other"
    git(tmp_path, "init", "--quiet", str(other))
    git(other, "commit", "--quiet", "--allow-empty", "--message", "x")
    git(origin, "submodule", "--quiet", "add", str(other), "sub")
    folder = build().folder_of(commit(a__py="1\n"))
    assert folder
    assert list((folder / "sub").iterdir()) == []


@pytest.mark.parametrize("to", ["/etc/passwd", "../outside", "a/../../x"])
def test_a_link_that_leads_out_is_refused(
    commit: Commit, build: Callable[..., Builds], origin: Path, to: str, tmp_path: Path
):
    (origin / "link").symlink_to(to)
    one = commit(a__py="1\n")
    with pytest.raises(BuildFailed, match="its link link leads out of it, to "):
        build().folder_of(one)
    assert list((tmp_path / "builds" / "checkouts" / "ours").iterdir()) == []


def test_a_link_within_stays(commit: Commit, build: Callable[..., Builds], origin: Path):
    (origin / "link").symlink_to("a.py")
    folder = build().folder_of(commit(a__py="1\n"))
    assert folder
    assert (folder / "link").read_text() == "1\n"


def test_a_repository_that_is_too_large_is_given_up(
    commit: Commit, build: Callable[..., Builds], origin: Path, caplog: pytest.LogCaptureFixture
):
    (origin / "blob").write_bytes(os.urandom(3 * 2**20))
    one = commit(a__py="1\n")
    with pytest.raises(BuildFailed, match="is in no repository"):
        build(disk_gib=2**-10).folder_of(one)
    assert "`git fetch` needs more than 0.000976562 GiB of disk" in caplog.text


def test_files_that_unpack_to_more_than_is_allowed_are_not_written(
    commit: Commit, build: Callable[..., Builds], origin: Path, tmp_path: Path
):
    with (origin / "zeros").open("wb") as file:
        file.truncate(10 * 2**20)
    blob = git(origin, "hash-object", "-w", "zeros")
    (origin / "zeros").unlink()
    names = [f"100644 blob {blob}\tzeros-{number}" for number in range(3080)]
    tree = typed(origin, names, "mktree")
    git(origin, "update-ref", "refs/heads/main", git(origin, "commit-tree", tree, "-m", "30 GB"))
    one = git(origin, "rev-parse", "main")
    with pytest.raises(Unbuildable, match=r"its files have 30\.1 GiB, of 20 allowed\."):
        build().folder_of(one)
    written = sum(path.stat().st_blocks * 512 for path in (tmp_path / "builds").rglob("*"))
    assert written < 10 * 2**20


def test_folders_without_end_in_a_few_bytes_are_not_written(
    build: Callable[..., Builds], origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(commands, "PRINTED_B", 2**20)
    inner = f"100644 blob {typed(origin, ['x'], 'hash-object', '-w', '--stdin')}\tx"
    for _ in range(10):
        tree = typed(origin, [f"{inner}{number}" for number in range(10)], "mktree")
        inner = f"040000 tree {tree}\td"
    git(origin, "update-ref", "refs/heads/main", git(origin, "commit-tree", tree, "-m", "bomb"))
    one = git(origin, "rev-parse", "main")
    with pytest.raises(Unbuildable, match="`git ls-tree` printed more than 1 MiB"):
        build().folder_of(one)
    assert list((tmp_path / "builds" / "checkouts" / "ours").iterdir()) == []


def typed(place: Path, lines: list[str], *arguments: str) -> str:
    """What git says of lines that it reads."""
    said = "\n".join(lines) + "\n"
    done = subprocess.run(
        ["git", *arguments], cwd=place, input=said, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_a_branch_that_is_named_like_an_abbreviation_is_not_taken_for_it(
    commit: Commit, build: Callable[..., Builds], origin: Path
):
    asked, other = commit(a__py="1\n"), commit(a__py="2\n")
    git(origin, "branch", asked[:8], other)
    with pytest.raises(BuildFailed, match="is in no repository"):
        build().folder_of(asked[:8])
    folder = build().folder_of(asked)
    assert folder
    assert (folder / "a.py").read_text() == "1\n"


def test_no_reference_replaces_a_commit(commit: Commit, build: Callable[..., Builds], origin: Path):
    asked, other = commit(a__py="1\n"), commit(a__py="2\n")
    git(origin, "replace", asked, other)
    folder = build(refs=["refs/*"]).folder_of(asked)
    assert folder
    assert (folder / "a.py").read_text() == "1\n"


def test_links_that_lead_out_over_a_link_are_refused(
    commit: Commit, build: Callable[..., Builds], origin: Path
):
    (origin / "a" / "b").mkdir(parents=True)
    (origin / "a" / "b" / "s").symlink_to("../..")
    (origin / "src").symlink_to("a/b/s/../../../outside")
    one = commit(a__py="1\n")
    with pytest.raises(BuildFailed, match="its link src leads out of it"):
        build(path="src").folder_of(one)


def test_a_long_link_and_a_loud_command_are_given_up(
    commit: Commit,
    build: Callable[..., Builds],
    origin: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    (origin / "link").symlink_to("a" * 4_000)
    monkeypatch.setattr(mirrors, "LONGEST_LINK_B", 100)
    one = commit(a__py="1\n")
    with pytest.raises(BuildFailed, match="its link link is too long"):
        build().folder_of(one)
    monkeypatch.setattr(commands, "PRINTED_B", 2**20)
    shout = "import time\nwhile True: print('x' * 2**16, flush=True); time.sleep(0.001)"
    for to in ("", "import sys; sys.stdout = sys.stderr\n"):
        with pytest.raises(BuildFailed, match="printed more than 1 MiB"):
            commands.run([sys.executable, "-c", to + shout], BuildLimits(20.0), tmp_path / "log")


def test_a_mirror_beyond_its_limit_is_forgotten_and_stops_nothing(
    commit: Commit, build: Callable[..., Builds], origin: Path
):
    one = commit(a__py="1\n")
    assert build().folder_of(one)
    (origin / "blob").write_bytes(os.urandom(3 * 2**20))
    commit(a__py="2\n")
    small = build(disk_gib=2**-10)
    small.refresh()
    assert small.revisions() == ()
    assert small.folder_of(one)


@pytest.mark.parametrize(
    "left",
    ["config.lock", "HEAD.lock", "packed-refs.lock", "refs/heads/main.lock", "refs/heads/b/c.lock"],
)
def test_no_lock_of_a_git_that_was_killed_is_in_the_way(
    commit: Commit, build: Callable[..., Builds], origin: Path, tmp_path: Path, left: str
):
    first = commit(a__py="1\n")
    git(origin, "branch", "b/c")
    builds = build()
    assert builds.folder_of(first)
    second = commit(a__py="2\n")
    git(origin, "branch", "--force", "b/c")
    mirror = tmp_path / "builds" / "mirrors" / "ours.git"
    halves = [mirror / left, *(mirror / "objects" / "pack" / name for name in ("tmp_1", "p.keep"))]
    for half in halves:
        half.parent.mkdir(parents=True, exist_ok=True)
        half.write_text("half")
    assert builds._fetch("ours", 60.0) == ""
    assert heads(builds) == {"refs/heads/main": second, "refs/heads/b/c": second}
    assert not any(half.exists() for half in halves)


@pytest.mark.parametrize("what", ["unreachable", "force-pushed away", "ref that vanished"])
def test_what_happened_to_a_commit_has_its_sentence(
    commit: Commit, build: Callable[..., Builds], origin: Path, what: str
):
    base = commit(a__py="1\n")
    git(origin, "switch", "--quiet", "--create", "other")
    lost = commit(a__py="2\n")
    builds = build()
    builds.refresh()
    if what == "force-pushed away":
        git(origin, "reset", "--quiet", "--hard", base)
    elif what == "ref that vanished":
        git(origin, "switch", "--quiet", "main")
        git(origin, "branch", "--quiet", "--delete", "--force", "other")
    else:
        origin.rename(origin.with_name("gone"))
        lost = "0" * 40
    builds._fetch("ours", 60.0)
    with pytest.raises(BuildFailed, match="is in no repository") as told:
        builds.folder_of(lost)
    assert not isinstance(told.value, Unbuildable)
    assert ("The repository of the target ours was not fetched" in str(told.value)) == (
        what == "unreachable"
    )
    assert ("no allowed ref leads to it any more" in str(told.value)) == (what != "unreachable")


def heads(builds: Builds) -> dict[str, str]:
    told = builds.told()["heads"]
    assert isinstance(told, tuple)
    return {head.ref: head.commit for head in told}


def test_where_refs_are_is_told_and_follows_them(
    commit: Commit, build: Callable[..., Builds], origin: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(made, "FETCH_EVERY_S", 0.0)
    first = commit(a__py="1\n")
    git(origin, "tag", "--annotate", "--message", "x", "v1")
    builds = build(refs=["refs/heads/*", "refs/tags/*"])
    assert builds.told() == {"revisions": None, "targets": {"ours": made.NOT_YET}, "heads": ()}
    builds.refresh()
    again = build(refs=["refs/heads/*", "refs/tags/*"]).told()
    assert (again["revisions"], again["targets"]) == ((first,), {"ours": made.NOT_YET})
    told = builds.told()
    assert told["targets"] == {"ours": ""}
    (head,) = told["heads"]
    assert (head.target, head.ref, head.commit) == ("ours", "refs/heads/main", first)
    assert (head.author, head.title) == ("A", "one")
    assert Worker.model_validate({"name": "w", **told}).heads == (head,)

    second = commit(a__py="2\n")
    git(origin, "branch", "other")
    builds.refresh()
    assert heads(builds) == {"refs/heads/main": second, "refs/heads/other": second}
    git(origin, "reset", "--quiet", "--hard", first)  # a force-push
    git(origin, "branch", "--quiet", "--delete", "--force", "other")
    builds.refresh()
    assert heads(builds) == {"refs/heads/main": first}


def test_refs_that_were_fetched_long_ago_are_not_told_but_why(
    commit: Commit, build: Callable[..., Builds], origin: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(made, "FETCH_EVERY_S", 0.0)
    commit(a__py="1\n")
    builds = build()
    builds.refresh()
    origin.rename(origin.with_name("gone"))
    builds.refresh()
    assert builds.told()["targets"] == {"ours": ""}
    assert heads(builds)
    monkeypatch.setattr(made, "FRESH_S", 0.0)
    told = builds.told()
    assert told["heads"] == ()
    assert isinstance(told["targets"], dict)
    assert told["targets"]["ours"].startswith("`git fetch` failed: fatal: '")
    origin.with_name("gone").rename(origin)
    monkeypatch.setattr(made, "FRESH_S", 600.0)
    builds.refresh()
    assert builds.told()["targets"] == {"ours": ""}


def test_a_fetch_that_ends_while_another_thread_looks_does_not_hide_what_was_seen(
    commit: Commit, build: Callable[..., Builds], monkeypatch: pytest.MonkeyPatch
):
    first = commit(a__py="1\n")
    builds = build()
    builds.refresh()
    forgotten = property(lambda _: None, lambda *_: None)
    for name in ("_known", "_heads"):  # as if a fetch ended just after each was looked up
        monkeypatch.setattr(Builds, name, forgotten, raising=False)
    told = builds.told()
    assert told["revisions"] == (first,)
    assert heads(builds) == {"refs/heads/main": first}


def test_a_ref_that_is_allowed_no_more_is_forgotten(
    commit: Commit, build: Callable[..., Builds], origin: Path
):
    base = commit(a__py="1\n")
    git(origin, "switch", "--quiet", "--create", "feature/other")
    other = commit(a__py="2\n")
    builds = build()
    builds.refresh()
    assert heads(builds) == {"refs/heads/main": base, "refs/heads/feature/other": other}
    narrower = build(refs=["refs/heads/main"])
    narrower.refresh()
    assert heads(narrower) == {"refs/heads/main": base}
    with pytest.raises(BuildFailed, match="is in no repository"):
        narrower.folder_of(other)


def test_no_more_heads_are_told_than_an_introduction_may_have_branches_first(
    commit: Commit, build: Callable[..., Builds], origin: Path
):
    commit(a__py="1\n")
    for number in range(MOST_HEADS):
        git(origin, "update-ref", f"refs/pull/{number}/head", "HEAD")
    builds = build(refs=["refs/heads/*", "refs/pull/*"])
    builds.refresh()
    assert len(heads(builds)) == MOST_HEADS
    assert "refs/heads/main" in heads(builds)


def test_a_mirror_that_was_never_fetched_knows_nothing(tmp_path: Path):
    mirror = Mirror(tmp_path / "m", Repository(git="/nowhere"), tmp_path / "log")
    assert (mirror.commit("0" * 40), mirror.newest(5)) == (None, [])
