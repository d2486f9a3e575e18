"""`submit --range A..B` submits each commit of a line of history once, the oldest first."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from builders.commands import free_port, serving
from builders.forked import ForkServer

from cli import commit_range
from cli.commit_range import commits_of
from cli.exits import Exit, Stop
from cli.revision import checked_out

Run = Callable[..., subprocess.CompletedProcess[str]]
SMOKE = ("submit", "smoke", "--require", "pool=none")


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=Ann", "-c", "user.email=t@example.org"]
    done = subprocess.run(
        ["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def commit(folder: Path, title: str) -> str:
    git(folder, "commit", "-q", "--allow-empty", "-m", title)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    git(tmp_path, "init", "-q", "--initial-branch=main", str(folder))
    return folder


@pytest.fixture
def line(checkout: Path) -> list[str]:
    """Four commits of the main branch; the third one merged a branch of two."""
    made = [commit(checkout, "one"), commit(checkout, "two")]
    git(checkout, "switch", "-q", "-c", "side")
    commit(checkout, "beside")
    commit(checkout, "beside again")
    git(checkout, "switch", "-q", "main")
    git(checkout, "merge", "-q", "--no-ff", "-m", "three", "side")
    made.append(git(checkout, "rev-parse", "HEAD"))
    return [*made, commit(checkout, "four")]


def found(text: str, folder: Path, *, sure: bool = False) -> list[str]:
    return [version.revision for version in commits_of(text, folder, sure=sure)]


def test_a_range_has_the_commits_of_the_main_line_the_oldest_first(
    checkout: Path, line: list[str]
) -> None:
    assert found(f"{line[0]}..main", checkout) == line[1:]
    assert found(f"{line[1][:9]}..{line[2][:9]}", checkout) == [line[2]]
    git(checkout, "switch", "-q", "--detach", line[2])
    assert found(f"{line[0]}..", checkout) == line[1:3]
    third = commits_of(f"{line[1]}..{line[2]}", checkout, sure=False)[0]
    assert (third.author, third.title) == ("Ann", "three")
    assert third.revision_at is not None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("main", "write A..B"),
        ("main~1...main", "write A..B"),
        ("..main", "write A..B"),
        ("gone..main", "There is no commit gone in this checkout: check the name, or fetch it."),
        ("--all..main", "There is no commit --all"),
        ("main~1..gone", "There is no commit gone"),
        ("main..main", "main..main is empty: both ends are the commit "),
        ("main..main~1", "is empty: its end came before its beginning. Turn it round."),
        ("other..main", "its beginning is no ancestor of its end; they parted at "),
        ("orphan..main", "they have no commit in common here."),
    ],
)
def test_what_is_no_range_says_why(checkout: Path, line: list[str], text: str, says: str) -> None:
    git(checkout, "switch", "-q", "-c", "other", line[0])
    commit(checkout, "elsewhere")
    git(checkout, "switch", "-q", "--orphan", "orphan")
    commit(checkout, "another beginning")
    with pytest.raises(Stop) as stopped:
        commits_of(text, checkout, sure=True)
    assert says in stopped.value.sentence
    assert stopped.value.code is Exit.USAGE


def test_a_title_may_hold_the_end_of_a_line_of_another_system(
    checkout: Path, line: list[str]
) -> None:
    tree = git(checkout, "rev-parse", "HEAD^{tree}")
    odd = git(checkout, "commit-tree", tree, "-p", "HEAD", "-m", "fixed\rand more")
    [version] = commits_of(f"main..{odd}", checkout, sure=False)
    assert (version.revision, version.title) == (odd, "fixed and more")
    git(checkout, "switch", "-q", "--detach", odd)
    here = checked_out(checkout)
    assert here is not None
    assert here.title == "fixed and more"


def test_outside_a_checkout_there_is_no_range(tmp_path: Path) -> None:
    with pytest.raises(Stop, match="is no git checkout"):
        commits_of("a..b", tmp_path, sure=False)


def test_a_large_range_needs_a_yes(
    checkout: Path, line: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_range, "UNASKED", 2)
    with pytest.raises(Stop, match=r"has 3 commits, .* or say --yes\."):
        found(f"{line[0]}..main", checkout)
    assert found(f"{line[0]}..main", checkout, sure=True) == line[1:]
    assert found(f"{line[1]}..main", checkout) == line[2:]


def test_commits_that_no_remote_has_are_to_be_pushed_first(
    checkout: Path, line: list[str], tmp_path: Path
) -> None:
    remote = tmp_path / "remote.git"
    git(tmp_path, "init", "-q", "--bare", str(remote))
    git(checkout, "remote", "add", "origin", str(remote))
    git(checkout, "push", "-q", "origin", f"{line[2]}:refs/heads/main")
    assert found(f"{line[0]}..{line[2]}", checkout) == line[1:3]
    with pytest.raises(Stop, match=f"1 commit of the range, such as {line[3][:12]}, is in no "):
        found(f"{line[0]}..main", checkout)
    git(checkout, "push", "-q", "origin", "main")
    assert found(f"{line[0]}..main", checkout) == line[1:]


# With a service


@pytest.fixture
def throughline(
    checkout: Path,
    environment: dict[str, str],
    migrated: None,
    forks: ForkServer,
    throughline_in: Callable[[Path, dict[str, str]], Run],
) -> Iterator[Run]:
    told = environment | {"THROUGHLINE_URL": f"http://127.0.0.1:{free_port()}"}
    with serving(forks, checkout, told):
        yield throughline_in(checkout, told)


def listed(throughline: Run) -> Any:
    """Every submission of the service, the oldest first: its suite and revision."""
    told = throughline("jobs", "list", "--limit", "200", "--json")
    jobs = json.loads(told.stdout)["items"]
    ids = {job["submission_id"]: (job["suite"], job["revision"]) for job in jobs}
    return [ids[name] for name in sorted(ids)]


def test_each_commit_is_submitted_once(line: list[str], throughline: Run) -> None:
    done = throughline(*SMOKE, "--range", f"{line[1]}..main", "--json")
    assert done.returncode == Exit.OK, done.stderr
    assert [one["revision"] for one in json.loads(done.stdout)] == line[2:]
    assert "2 of 2 commits submitted." in done.stderr
    assert "Each of them: It will wait: no worker" in done.stderr

    more = throughline(*SMOKE, "--range", f"{line[0]}..main")
    assert [text.split()[-1] for text in more.stdout.splitlines()] == [f"{line[1]}."]
    assert more.stderr.count("skipped. --again submits it again.") == 2
    assert "1 of 3 commits submitted." in more.stderr
    nothing = throughline(*SMOKE, "--range", f"{line[0]}..main")
    assert (nothing.returncode, nothing.stdout) == (Exit.OK, "")
    assert "0 of 3 commits submitted." in nothing.stderr
    assert len(listed(throughline)) == 3
    again = throughline(*SMOKE, "--range", f"{line[2]}..main", "--again")
    assert "1 of 1 commit submitted." in again.stderr
    assert sorted(listed(throughline))[-1][0] == "smoke"
    assert len(listed(throughline)) == 4


def test_what_was_quick_or_of_another_case_does_not_count(
    line: list[str], throughline: Run
) -> None:
    last = ("--range", f"{line[2]}..main", "--json")

    def submitted(*arguments: str, require: str = "pool=none") -> list[Any]:
        done = throughline("submit", *arguments, *last, "--require", require)
        assert done.returncode == Exit.OK, done.stderr
        made: list[Any] = json.loads(done.stdout)
        return made

    bf16 = ("unet", "precision=bf16")
    assert submitted(*bf16, "--tier", "quick")
    [first] = submitted(*bf16)
    assert submitted(*bf16) == []
    assert submitted("unet")
    assert submitted("unet", "--preset", "tiny")
    assert submitted("smoke", "--only", "nanogpt")
    assert submitted("smoke", "--only", "unet")
    assert submitted("smoke"), "a part of it was measured, and not all"
    assert submitted("smoke", "--project", "red")
    assert submitted("smoke", "--project", "blue")
    assert submitted("smoke", "--project", "red") == []
    assert submitted(*bf16, "--project", "red"), "another project measures it for itself"
    assert submitted(*bf16, require="device=cuda"), "it was measured elsewhere"
    for job in first["jobs"]:
        throughline("jobs", "cancel", job["id"])
    assert submitted(*bf16) == []
    assert submitted(*bf16, "--again"), "what was cancelled is submitted when that is asked for"


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--range", "main~1..main", "--wait"), "--wait is of one submission"),
        (("--range", "main~1..main", "-r", "v1"), "--revision is of one submission"),
        (
            ("--range", "main~1..main", "--idempotency-key", "x"),
            "--idempotency-key is of one submission",
        ),
        (("--again",), "--again and --yes say how to submit a --range: name one."),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    line: list[str],
    checkout: Path,
    environment: dict[str, str],
    throughline_in: Callable[[Path, dict[str, str]], Run],
    more: tuple[str, ...],
    says: str,
) -> None:
    done = throughline_in(checkout, environment)(*SMOKE, *more)
    assert (done.returncode, done.stdout) == (Exit.USAGE, "")
    assert says in done.stderr
