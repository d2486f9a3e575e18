"""The folder of a commit: built once, renamed into place, removed when nobody uses it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.worker.targets.origin import Commit
from worker.targets import builds as made
from worker.targets import commands, known_failures
from worker.targets import mirror as mirrors
from worker.targets.builds import Builds
from worker.targets.commands import BuildFailed, Unbuildable


def test_a_commit_is_built_once_with_its_own_files(commit: Commit, build: Callable[..., Builds]):
    first, second = commit(a__py="1\n"), commit(a__py="2\n")
    builds = build()
    folders = [builds.folder_of(one) for one in (first, second)]
    assert [folder and (folder / "a.py").read_text() for folder in folders] == ["1\n", "2\n"]
    assert folders[0]
    (folders[0] / "mark").touch()
    assert builds.folder_of(first) == folders[0]
    assert (folders[0] / "mark").exists(), "it was written anew"
    assert builds.folder_of(second[:10]) == folders[1]
    assert builds.folder_of("2026-11-20") is None
    assert builds.revisions() == tuple(sorted((first, second)))
    assert build(refs=["refs/heads/gone", "refs/heads/main"]).revisions() == builds.revisions()


def test_what_comes_later_is_fetched_when_it_is_asked_for(
    commit: Commit, build: Callable[..., Builds]
):
    commit(a__py="1\n")
    builds = build()
    assert builds.revisions() == ()  # whoever introduces the worker waits for no repository
    builds.refresh()
    assert len(builds.revisions()) == 1
    later = commit(a__py="2\n")
    assert builds.folder_of(later)
    assert later in builds.revisions()


def test_a_dangling_venv_is_refused_too(commit: Commit, build: Callable[..., Builds], origin: Path):
    (origin / ".venv").symlink_to("nowhere")
    one = commit(a__py="1\n")
    with pytest.raises(BuildFailed, match=r"it has a \.venv of its own\."):
        build().folder_of(one)


def test_a_venv_of_its_own_is_refused(commit: Commit, build: Callable[..., Builds], origin: Path):
    (origin / ".venv" / "bin").mkdir(parents=True)
    (origin / ".venv" / "bin" / "python").write_text("#!/bin/sh\n")
    one = commit(a__py="1\n")
    with pytest.raises(BuildFailed, match=r"it has a \.venv of its own\."):
        build().folder_of(one)


def test_a_commit_that_could_not_be_built_is_tried_again_once_something_changed(
    commit: Commit, build: Callable[..., Builds], monkeypatch: pytest.MonkeyPatch
):
    one = commit(a__py="1\n")
    for _ in range(2):
        with pytest.raises(Unbuildable, match=r"it has no folder src\."):
            build(path="src").folder_of(one)
    assert build().folder_of(one), "another definition of the target can build it"
    two = commit(a__py="2\n")
    with pytest.raises(Unbuildable):
        build(path="src").folder_of(two)
    monkeypatch.setattr(known_failures, "KEPT_S", 0.0)
    tried: list[str] = []
    monkeypatch.setattr(Builds, "_build", lambda _, __, commit, ___: tried.append(commit))
    build(path="src").folder_of(two)
    assert tried == [two]


def test_what_was_not_used_for_longest_goes_first(
    commit: Commit, build: Callable[..., Builds], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(made, "IN_USE_S", 60.0)
    old, used, new = (commit(a__py=f"{number}\n") for number in range(3))
    builds = build()
    folders = {one: builds.folder_of(one) for one in (old, used)}
    assert all(folders.values())
    os.utime(folders[old], (1, 1))  # type: ignore[arg-type]
    builds = build(keep_b=10_000)  # two commits of one block each, and their folders
    assert builds.folder_of(new)
    assert not folders[old].exists()  # type: ignore[union-attr]
    assert folders[used].exists()  # type: ignore[union-attr]


def test_what_was_not_used_since_is_not_read_again_to_know_its_size(
    commit: Commit, build: Callable[..., Builds], monkeypatch: pytest.MonkeyPatch
):
    old, used, new = (build().folder_of(commit(a__py=f"{number}\n")) for number in range(3))
    assert used
    os.utime(used)
    read: list[Path] = []
    sizes_b = made.sizes_b
    monkeypatch.setattr(made, "sizes_b", lambda at: read.append(at) or sizes_b(at))
    newest = build().folder_of(commit(a__py="3\n"))
    assert {used, new, newest} < {*read}
    assert old not in read


def test_what_a_killed_build_left_is_removed_and_built_anew(
    commit: Commit, build: Callable[..., Builds], tmp_path: Path
):
    one = commit(a__py="1\n")
    half = tmp_path / "builds" / "checkouts" / "ours" / f"{one}.part"
    half.mkdir(parents=True)
    (half / "a.py").write_text("half")
    folder = build().folder_of(one)
    assert folder
    assert (folder / "a.py").read_text() == "1\n"
    assert not half.exists()


def test_a_git_that_is_killed_while_it_writes_files_leaves_nothing_in_the_way(
    commit: Commit, build: Callable[..., Builds], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    one = commit(a__py="1\n")
    run = mirrors.run

    def killed(command: list[str], *rest: Any, **more: Any) -> str:
        if "read-tree" in command:
            Path(f"{rest[2]['GIT_INDEX_FILE']}.lock").touch()
            raise BuildFailed("`git read-tree` failed: it said nothing.")
        return run(command, *rest, **more)

    monkeypatch.setattr(mirrors, "run", killed)
    with pytest.raises(BuildFailed, match="it said nothing"):
        build().folder_of(one)
    monkeypatch.undo()
    assert list((tmp_path / "builds" / "checkouts" / "ours").iterdir()) == []
    folder = build().folder_of(one)
    assert folder
    assert [path.name for path in folder.iterdir()] == ["a.py"]


def test_who_waits_for_another_workers_build_can_be_stopped(
    commit: Commit, build: Callable[..., Builds], tmp_path: Path
):
    one, two = commit(a__py="1\n"), commit(a__py="2\n")
    builds = build()
    assert builds.folder_of(one)

    def stop() -> None:
        raise KeyboardInterrupt

    with (tmp_path / "builds" / "build.lock").open("w") as lock, commands.interrupted_by(stop):
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(KeyboardInterrupt):
            builds.folder_of(two)
    assert builds.folder_of(two)
