"""A worker builds the commits that jobs name, from real repositories; hostile ones harm nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from pydantic import ValidationError

from benchmarks.contracts import MOST_HEADS, Status, Worker
from cli.commands.worker import build as build_command
from cli.exits import Exit
from cli.exits import Stop as CommandStop
from worker import runner
from worker.child.containment import Containment, guarded, obstacle_to_namespaces
from worker.runner import Runner
from worker.settings import Settings
from worker.supervisor import Station
from worker.targets import builds as made
from worker.targets import commands, definitions, known_failures
from worker.targets import mirror as mirrors
from worker.targets.builds import Builds
from worker.targets.commands import BuildFailed, BuildLimits, Unbuildable
from worker.targets.definitions import BadTargets, Repository
from worker.targets.mirror import Mirror
from worker.targets.target import Target, target_of

CHILD = Path(__file__).with_name("scripted_child.py")
TELLS = """
def main():
    asked = read()
    told = {"cwd": os.getcwd(), "path": os.environ.get("PYTHONPATH")}
    (asked["folder"] / "told.json").write_text(json.dumps(told))
    globals()[asked["workload"]](asked)
"""
Commit = Callable[..., str]
KEEP_B = float(2**40)
LOCK = """version = 1
requires-python = ">=3.11"

[[package]]
name = "x"
version = "0"
source = { virtual = "." }
"""
PROJECT = '[project]\nname = "x"\nversion = "0"\nrequires-python = ">=3.11"\n'


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    folder = tmp_path / "origin"
    git(folder.parent, "init", "--quiet", "--initial-branch=main", str(folder))
    return folder


def git(place: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    more = ("-c", "protocol.file.allow=always", "-c", "commit.gpgsign=false")
    done = subprocess.run(
        ["git", *identity, *more, *arguments], cwd=place, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def commit(origin: Path) -> Commit:
    """Commit files by path, and return the commit's id."""

    def make(**files: str) -> str:
        for name, text in files.items():
            (origin / name.replace("__", ".")).write_text(text)
        git(origin, "add", "--all")
        git(origin, "commit", "--quiet", "--allow-empty", "--message", "one")
        return git(origin, "rev-parse", "HEAD")

    return make


@pytest.fixture
def build(tmp_path: Path, origin: Path) -> Callable[..., Builds]:
    def make(keep_b: float = KEEP_B, **more: object) -> Builds:
        target = Repository.model_validate({"git": str(origin), **more})
        return Builds(tmp_path / "builds", {"ours": target}, sys.executable, keep_b)

    return make


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


# Hostile repositories


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


def test_a_command_that_hangs_ends_with_all_that_it_started(tmp_path: Path):
    limits = BuildLimits(1.0)
    seconds = f"98.{os.getpid()}"  # names the process that must be gone
    script = f"import subprocess, time; subprocess.Popen(['sleep', '{seconds}']); time.sleep(99)"
    from_s = time.monotonic()
    with pytest.raises(BuildFailed, match="took longer than 1 s"):
        commands.run([sys.executable, "-c", script], limits, tmp_path / "log")
    assert time.monotonic() - from_s < 60
    lines = [one.info["cmdline"] or [] for one in psutil.process_iter(["cmdline"])]
    assert not [line for line in lines if seconds in line]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "git@x: Permission denied (publickey).\nfatal: Could not read from remote repository."
            "\n\nPlease make sure you have the correct access rights\nand the repository exists.",
            "git@x: Permission denied (publickey). / fatal: Could not read from remote repository.",
        ),
        (
            "error: Failed to download `x==1`\n  cause: Hash mismatch for `x==1`\n\n  Expected:\n"
            "    sha256:1\n\n  Computed:\n    sha256:2\n\nhint: `x` was included because ...",
            "error: Failed to download `x==1` / cause: Hash mismatch for `x==1` / Expected:",
        ),
        ("one\ntwo\nthree\nfour", "two / three / four"),
    ],
)
def test_a_failure_quotes_its_cause(tmp_path: Path, said: str, told: str):
    script = f"import sys; sys.exit({said!r})"
    with pytest.raises(BuildFailed) as failed:
        commands.run([sys.executable, "-c", script], BuildLimits(20.0), tmp_path / "log")
    assert str(failed.value).endswith(f" failed: {told}")


@pytest.mark.parametrize("containment", list(Containment))
def test_a_build_gives_way_to_what_is_measured(tmp_path: Path, containment: Containment):
    if containment is Containment.PID_NAMESPACE and (why := obstacle_to_namespaces()):
        pytest.skip(why)
    asks = [sys.executable, "-c", "import os; print(os.nice(0))"]
    if containment is Containment.PROCESS_GROUP:
        told = commands.run(asks, BuildLimits(20.0), tmp_path / "log")
    else:
        command = [*guarded(containment, commands.TASKS, gives_way=True), *asks]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert told == "19\n"


def test_a_build_sees_no_token_and_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("THROUGHLINE_TOKEN", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "GIT_DIR"):
        monkeypatch.setenv(name, "secret")
    show = "import os; print(sorted(os.environ.items()))"
    limits = BuildLimits(20.0)
    told = commands.run([sys.executable, "-c", show], limits, tmp_path / "log")
    assert "'secret'" not in told
    assert "('CUDA_VISIBLE_DEVICES', '')" in told


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
    assert builds.told() == {"revisions": (), "targets": {"ours": made.NOT_YET}, "heads": ()}
    builds.refresh()
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


# Environments


@pytest.fixture
def uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A uv that writes down how it was called and makes the folder that it was told to."""
    script = tmp_path / "bin" / "uv"
    script.parent.mkdir()
    script.write_text(
        "#!/bin/sh\n"
        f'echo "$@" >> {tmp_path}/calls\n'
        'mkdir -p "$UV_PROJECT_ENVIRONMENT/bin"\n'
        f'ln -s {sys.executable} "$UV_PROJECT_ENVIRONMENT/bin/python"\n'
        'grep -q broken uv.lock && { echo "no wheel for this platform" >&2; exit 2; }\n'
        f"[ -f {tmp_path}/words ] && {{ cat {tmp_path}/words >&2; exit 2; }}\n"
        "exit 0\n"
    )
    script.chmod(0o755)
    monkeypatch.setattr("worker.targets.environment._uv", lambda: str(script))
    return tmp_path / "calls"


def test_commits_with_the_same_lock_share_an_environment(
    commit: Commit, build: Callable[..., Builds], uv: Path
):
    builds = build(install="uv-sync")
    one = commit(uv__lock=LOCK, pyproject__toml=PROJECT)
    two, three = commit(a__py="2\n"), commit(uv__lock=f"{LOCK}\n")
    folders = [builds.folder_of(each) for each in (one, two, three)]
    places = [folder and (folder / ".venv").resolve() for folder in folders]
    assert places[0] == places[1] != places[2]
    calls = uv.read_text().splitlines()
    assert len(calls) == 2
    assert all("--frozen --no-build --no-install-project" in call for call in calls)
    # The repository's configuration names folders to write to, and has the new Python started.
    assert all("--no-config --no-compile-bytecode" in call for call in calls)


def test_what_cannot_be_installed_is_told_with_uvs_words_and_leaves_nothing(
    commit: Commit, build: Callable[..., Builds], uv: Path, tmp_path: Path
):
    one = commit(uv__lock="broken", pyproject__toml=PROJECT)
    with pytest.raises(BuildFailed, match=r"`uv sync` failed: no wheel for this platform The log"):
        build(install="uv-sync").folder_of(one)
    assert list((tmp_path / "builds").glob("checkouts/*/*")) == []
    assert list((tmp_path / "builds").glob("environments/*")) == []
    two = commit(uv__lock=LOCK)
    assert build(install="uv-sync").folder_of(two)
    assert uv.exists()


@pytest.mark.parametrize(
    ("words", "its_own"),
    [
        ("error: `networkx==3.4` has no wheel for the current platform", True),
        ("error: Failed to parse `uv.lock`", True),
        ("error: error sending request for url (https://pypi.org/simple/x/)", False),
        ("  Caused by: dns error: failed to lookup address information", False),
        ("Failed to download distribution due to network timeout.", False),
        ("error: HTTP status server error (503 Service Unavailable)", False),
        ("error: failed to write: No space left on device (os error 28)", False),
        ("Cannot contain /x/uv in a process_group: [Errno 11] Resource temporarily ...", False),
        ("Cannot start /x/uv: Text file busy.", False),
        ("error: ThreadPoolBuildError { kind: IOError(Os { code: 11 }) }", False),
        ("  cause: HTTP status client error (407 Proxy Authentication Required) for url", False),
        ("error: No interpreter found at path `/x/python`", False),
        ("error: No solution found\nhint: ... valid authentication credentials (401", False),
        ("error: No solution found\nhint: An index ... the credentials are valid.", False),
        ("error: No solution found when resolving dependencies", True),
        ("error: The lockfile at `uv.lock` uses an unsupported schema version (v9, but ...", False),
        ("error: Distribution `x` can't be installed because it is marked as `--no-build`", True),
        ("error: Distribution `x==1 @ registry+https://` can't be installed\n  because", True),
        ("error: Failed to download `x==1`\n  cause: Hash mismatch for `x==1`", True),
        ("error: Failed to download `x==1`\n  cause: The wheel is invalid: Missing", True),
        ("error: ... which is incompatible with the project's Python requirement: `>=4`", True),
        ("error: Failed to parse: pyproject.toml", True),
        ("error: Frozen lockfile discovery requires a lockfile with revision 5 or later", True),
        ("", False),
    ],
)
def test_only_what_is_the_commits_own_fault_makes_it_unbuildable(
    commit: Commit, build: Callable[..., Builds], uv: Path, words: str, its_own: bool
):
    uv.with_name("words").write_text(words)
    one = commit(uv__lock=LOCK)
    for tries in (1, 2):
        with pytest.raises(BuildFailed, match="`uv sync` failed: ") as told:
            build(install="uv-sync").folder_of(one)
        assert isinstance(told.value, Unbuildable) is its_own
        assert len(uv.read_text().splitlines()) == (1 if its_own else tries)
    uv.with_name("words").unlink()
    assert build(install="uv-sync").folder_of(one, anew=True)


NEEDS = f"""{LOCK}dependencies = [{{ name = "y" }}]

[[package]]
name = "y"
version = "1"
"""
Y = 'source = { registry = "http://127.0.0.1:9/simple" }\n'


@pytest.mark.parametrize(
    ("lock", "project", "its_own"),
    [
        ("version = [", PROJECT, True),
        (LOCK, "[project", True),
        (f"{NEEDS}{Y}", f'{PROJECT}dependencies = ["y"]\n', True),
        (
            f'{NEEDS}{Y}wheels = [{{ url = "http://127.0.0.1:9/y-1-py3-none-any.whl", '
            f'hash = "sha256:{"0" * 64}" }}]\n',
            f'{PROJECT}dependencies = ["y"]\n',
            False,
        ),
    ],
    ids=["a broken lock", "a broken project", "no wheel", "an index that is away"],
)
def test_uv_itself_says_whose_fault_it_is(
    commit: Commit,
    build: Callable[..., Builds],
    monkeypatch: pytest.MonkeyPatch,
    lock: str,
    project: str,
    its_own: bool,
):
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    one = commit(uv__lock=lock, pyproject__toml=project)
    with pytest.raises(BuildFailed, match="`uv sync` failed: ") as told:
        build(install="uv-sync").folder_of(one)
    assert isinstance(told.value, Unbuildable) is its_own, told.value


def test_uv_itself_makes_an_environment_that_commits_share(
    commit: Commit, build: Callable[..., Builds]
):
    builds = build(install="uv-sync")
    one = commit(uv__lock=LOCK, pyproject__toml=PROJECT)
    folders = [builds.folder_of(each) for each in (one, commit(a__py="2\n"))]
    places = {folder and (folder / ".venv").resolve() for folder in folders}
    assert len(places) == 1
    (place,) = places
    assert place is not None
    assert subprocess.run([place / "bin" / "python", "-c", ""], check=True).returncode == 0


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


def test_an_environment_that_needs_too_much_is_the_commits_fault_unless_others_filled_the_cache(
    commit: Commit, build: Callable[..., Builds], uv: Path, tmp_path: Path
):
    fills = 'dd if=/dev/zero of="$UV_CACHE_DIR/x" bs=1M count=3 2>/dev/null; sleep 30\n'
    script = tmp_path / "bin" / "uv"
    script.write_text(f"#!/bin/sh\n{fills}")
    others = tmp_path / "builds" / "cache"
    others.mkdir(parents=True)
    (others / "wheel").write_text("of another commit")
    one = commit(uv__lock=LOCK)
    for its_own in (False, True):
        with pytest.raises(BuildFailed, match=r"needs more than 0\.00195312 GiB") as told:
            build(install="uv-sync", disk_gib=2**-9).folder_of(one)
        assert isinstance(told.value, Unbuildable) is its_own
        assert not others.exists()


def test_without_a_lock_it_says_so(commit: Commit, build: Callable[..., Builds]):
    one = commit(a__py="1\n")
    with pytest.raises(BuildFailed, match=r'it has no uv\.lock, which install = "uv-sync" needs'):
        build(install="uv-sync").folder_of(one)


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


# The worker


@pytest.fixture
def chosen(settings: Settings, origin: Path, tmp_path: Path) -> Settings:
    """A worker that builds commits of the repository, whose own `benchmarks` says how it ran."""
    file = tmp_path / "targets.toml"
    file.write_text(f'[targets.ours]\ngit = "{origin}"\n')
    package = origin / "benchmarks"
    package.mkdir()
    (package / "__init__.py").touch()
    scripted = CHILD.read_text().partition("def main():")[0]
    (package / "__main__.py").write_text(f"{scripted}{TELLS}\n\nmain()\n")
    return settings.model_copy(update={"child_command": (), "targets": file})


def test_a_job_runs_the_commit_that_it_names(
    chosen: Settings, commit: Commit, contained, job, onlooker, notes: Path
):
    one = commit(a__py="1\n")
    runner = Runner(chosen, Station(chosen, contained))
    result = runner.run(job("ok", revision=one), onlooker)
    assert result.status is Status.OK, result.reason
    told = json.loads((notes / "told.json").read_text())
    assert told["cwd"] == str(chosen.state / "builds" / "checkouts" / "ours" / one)
    day = runner.run(job("ok", revision="2026-11-20"), onlooker)
    assert "is in no repository" not in day.reason


@pytest.mark.parametrize(
    ("revision", "says"),
    [("0" * 40, "is in no repository of this worker's targets"), ("v1", "names no commit")],
)
def test_a_commit_that_cannot_be_had_fails_its_job_with_the_reason(
    chosen: Settings, commit: Commit, contained, job, onlooker, revision: str, says: str
):
    commit(a__py="1\n")
    result = Runner(chosen, Station(chosen, contained)).run(job("ok", revision=revision), onlooker)
    assert result.status is Status.INFRA_ERROR
    assert says in result.reason


def test_a_commit_that_cannot_be_built_is_no_score_and_costs_one_build(
    chosen: Settings, commit: Commit, contained, job, onlooker, origin: Path
):
    (origin / "link").symlink_to("/etc/passwd")
    one = commit()
    runner = Runner(chosen, Station(chosen, contained))
    for _ in range(2):
        result = runner.run(job("ok", revision=one), onlooker)
        assert (result.status, result.samples) == (Status.UNBUILDABLE, ())
        assert f"Commit {one} of the target ours cannot be built: its link link" in result.reason
    log = (chosen.state / "builds" / "ours.log").read_text()
    assert list((chosen.state / "builds" / "failures").iterdir()), log


def test_the_end_of_the_builds_log_goes_with_the_result(
    chosen: Settings, commit: Commit, contained, job, onlooker, origin: Path, uv: Path
):
    assert chosen.targets
    chosen.targets.write_text(f'[targets.ours]\ngit = "{origin}"\ninstall = "uv-sync"\n')
    one = commit(uv__lock="broken")
    runner = Runner(chosen, Station(chosen, contained))
    told = [runner.run(job("ok", revision=one), onlooker) for _ in range(2)]
    assert {result.status for result in told} == {Status.UNBUILDABLE}
    assert {result.log_tail for result in told} == {"no wheel for this platform"}
    assert "`uv sync` failed: no wheel for this platform" in told[1].reason
    assert len(uv.read_text().splitlines()) == 1


@pytest.mark.parametrize("side", ["baseline", "contender"])
def test_of_a_pair_the_side_that_cannot_be_built_is_told_from_the_other(
    chosen: Settings, commit: Commit, contained, job, onlooker, origin: Path, side: str
):
    good = commit(a__py="1\n")
    (origin / "link").symlink_to("/etc/passwd")
    bad = commit()
    baseline, contender = (bad, good) if side == "baseline" else (good, bad)
    duet = {"baseline": baseline, "baseline_first": True}
    spec = job("turned", revision=contender, duet=duet)
    result = Runner(chosen, Station(chosen, contained)).run(spec, onlooker)
    assert result.baseline
    sides = {"baseline": result.baseline, "contender": result}
    assert sides.pop(side).status is Status.UNBUILDABLE
    other = sides.popitem()[1]
    assert other.status is Status.INFRA_ERROR
    assert other.reason == f"Not measured: the other revision of its pair, {bad}, cannot be built."


def test_a_disk_that_fills_while_a_side_is_built_ends_no_worker(
    chosen: Settings, commit: Commit, contained, job, onlooker, origin: Path, monkeypatch
):
    good = commit(a__py="1\n")
    (origin / "link").symlink_to("/etc/passwd")
    bad = commit()

    def full(settings: Settings, revision: str) -> Target:
        if revision == good:
            raise OSError(28, "No space left on device")
        return target_of(settings, revision)

    monkeypatch.setattr(runner, "target_of", full)
    spec = job("turned", revision=bad, duet={"baseline": good, "baseline_first": True})
    result = Runner(chosen, Station(chosen, contained)).run(spec, onlooker)
    assert result.baseline
    assert (result.status, result.baseline.status) == (Status.UNBUILDABLE, Status.INFRA_ERROR)
    assert "No space left on device" in result.baseline.reason


def test_two_sources_of_revisions_exclude_one_another(tmp_path: Path):
    with pytest.raises(ValidationError, match="exclude one another"):
        Settings(worker_target="/x/{revision}", targets=tmp_path / "targets.toml")


def test_the_command_builds_ahead_and_says_where(
    origin: Path, commit: Commit, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "targets.toml"
    file.write_text(f'[targets.ours]\ngit = "{origin}"\n')
    one = commit(a__py="1\n")
    build_command(one, targets=file, state_dir=tmp_path / "state")
    folder = Path(capsys.readouterr().out.strip())
    assert (folder / "a.py").read_text() == "1\n"
    for revision, code in (("0" * 40, Exit.FAILED), ("main", Exit.USAGE)):
        with pytest.raises(CommandStop) as stop:
            build_command(revision, targets=file, state_dir=tmp_path / "state")
        assert stop.value.code == code


# The file


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "targets: Field required"),
        ("targets = 1", "Input should be a valid dictionary"),
        ('[targets.a]\ngit = "ext::sh -c id"', "must begin with one of https://"),
        ('[targets.a]\ngit = "-oProxyCommand=id"', "must begin with one of https://"),
        ('[targets.a]\ngit = "/x"\npath = "../y"', "must be a folder within the repository"),
        ('[targets.a]\ngit = "/x"\ninstall = "make"', "Input should be 'none' or 'uv-sync'"),
        ('[targets.a]\ngit = "/x"\nrefs = ["--upload-pack=id"]', "should match pattern"),
        ('[targets.a]\ngit = "/x"\ncommand = "id"', "Extra inputs are not permitted"),
        ("[targets", "is no TOML"),
    ],
)
def test_a_wrong_file_says_what_is_wrong(tmp_path: Path, text: str, says: str):
    file = tmp_path / "targets.toml"
    file.write_text(text)
    with pytest.raises(BadTargets, match=r"targets\.toml") as told:
        definitions.read(file)
    assert says in str(told.value)


def test_a_file_that_is_not_there_says_so(tmp_path: Path):
    with pytest.raises(BadTargets, match=r"none\.toml cannot be read: No such file"):
        definitions.read(tmp_path / "none.toml")


def test_a_mirror_that_was_never_fetched_knows_nothing(tmp_path: Path):
    mirror = Mirror(tmp_path / "m", Repository(git="/nowhere"), tmp_path / "log")
    assert (mirror.commit("0" * 40), mirror.newest(5)) == (None, [])
