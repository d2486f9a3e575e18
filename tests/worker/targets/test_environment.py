"""The environment of a commit, shared by those with the same lock."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from builders.long_forms import long_but
from builders.repository import LOCK, PROJECT

from tests.worker.targets.origin import Commit
from worker.targets.builds import Builds
from worker.targets.commands import BuildFailed, Unbuildable


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


def test_a_target_may_have_its_own_python(
    commit: Commit, build: Callable[..., Builds], uv: Path, tmp_path: Path
):
    one = commit(uv__lock=LOCK, pyproject__toml=PROJECT)
    python = tmp_path / "python3.99"
    python.touch()
    for chosen in ({}, {"python": str(python)}):
        assert build(install="uv-sync", **chosen).folder_of(one)
        shutil.rmtree(tmp_path / "builds" / "checkouts")
    assert uv.with_name("pythons").read_text().split() == [sys.executable, str(python)]
    assert len(list((tmp_path / "builds" / "environments").iterdir())) == 2


def test_commits_with_other_default_groups_share_none(
    commit: Commit, build: Callable[..., Builds], uv: Path
):
    builds = build(install="uv-sync")
    groups = f'{PROJECT}[tool.uv]\ndefault-groups = ["bench"]\n'
    projects = [PROJECT, groups, f"{groups}[tool.x]\ny = 1\n", "[project", "x = " + "[" * 9_999]
    commits = [commit(uv__lock=LOCK, pyproject__toml=one) for one in projects]
    folders = [builds.folder_of(one) for one in commits]
    places = [folder and (folder / ".venv").resolve() for folder in folders]
    assert places[0] != places[1] == places[2]
    assert places[0] == places[3] == places[4], "uv refuses what cannot be read"
    large = commit(uv__lock=LOCK, pyproject__toml="#" * (2**20 + 1))
    with pytest.raises(Unbuildable, match=r"its pyproject\.toml has more than 1 MiB"):
        builds.folder_of(large)


@pytest.mark.parametrize("groups", ["", 'default-groups = ["bench"]\n'])
def test_uv_installs_the_default_groups_of_the_project_under_an_equal_lock(
    commit: Commit, build: Callable[..., Builds], groups: str
):
    bench = '[dependency-groups]\nbench = ["y"]\n'
    lock = f"""{LOCK}
[package.dev-dependencies]
bench = [{{ name = "y" }}]

[[package]]
name = "y"
version = "1"
{Y}"""
    one = commit(uv__lock=lock, pyproject__toml=f"{PROJECT}{bench}[tool.uv]\n{groups}")
    builds = build(install="uv-sync")
    if groups:  # it has no wheel
        with pytest.raises(Unbuildable):
            builds.folder_of(one)
    else:
        assert builds.folder_of(one)


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
    long_but(
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
            (
                "  cause: HTTP status client error (407 Proxy Authentication Required) for url",
                False,
            ),
            ("error: No interpreter found at path `/x/python`", False),
            ("error: No solution found\nhint: ... valid authentication credentials (401", False),
            ("error: No solution found\nhint: An index ... the credentials are valid.", False),
            ("error: No solution found when resolving dependencies", True),
            (
                "error: The lockfile at `uv.lock` uses an unsupported schema version (v9, but ...",
                False,
            ),
            (
                "error: Distribution `x` can't be installed because it is marked as `--no-build`",
                True,
            ),
            ("error: Distribution `x==1 @ registry+https://` can't be installed\n  because", True),
            ("error: Failed to download `x==1`\n  cause: Hash mismatch for `x==1`", True),
            ("error: Failed to download `x==1`\n  cause: The wheel is invalid: Missing", True),
            ("error: ... which is incompatible with the project's Python requirement: `>=4`", True),
            ("error: Failed to parse: pyproject.toml", True),
            ("error: Frozen lockfile discovery requires a lockfile with revision 5 or later", True),
            ("", False),
        ],
        *range(0, 24, 3),
    ),
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
            f'{NEEDS}{Y}wheels = [{{ url = "http://127.0.0.1:9/y-1-py3-none-win_amd64.whl", '
            f'hash = "sha256:{"0" * 64}" }}]\n',
            f'{PROJECT}dependencies = ["y"]\n',
            True,
        ),
        (LOCK.replace("3.11", "4.0"), PROJECT.replace("3.11", "4.0"), True),
        (
            f'{NEEDS}{Y}wheels = [{{ url = "http://127.0.0.1:9/y-1-py3-none-any.whl", '
            f'hash = "sha256:{"0" * 64}" }}]\n',
            f'{PROJECT}dependencies = ["y"]\n',
            False,
        ),
    ],
    ids=[
        "a broken lock",
        "a broken project",
        "no wheel",
        "a lock for another platform",
        "a lock for another Python",
        "an index that is away",
    ],
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
    commit: Commit, build: Callable[..., Builds], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    builds = build(install="uv-sync")
    one = commit(uv__lock=LOCK, pyproject__toml=PROJECT)
    folders = [builds.folder_of(each) for each in (one, commit(a__py="2\n"))]
    places = {folder and (folder / ".venv").resolve() for folder in folders}
    assert len(places) == 1
    (place,) = places
    assert place is not None
    assert subprocess.run([place / "bin" / "python", "-c", ""], check=True).returncode == 0
    assert list(temporary.iterdir()) == []


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


SETUP = """
import os, pathlib, socket
pathlib.Path({mark!r}).touch()
os.fork()
socket.create_connection(("127.0.0.1", 9))
open("large", "wb").write(bytes(2**30))
"""
BACKEND = '[build-system]\nrequires = []\nbuild-backend = "setup"\nbackend-path = ["."]\n'


@pytest.mark.parametrize("whose", ["its own", "a package's in its repository"])
def test_no_code_that_builds_a_package_runs(
    commit: Commit, build: Callable[..., Builds], origin: Path, tmp_path: Path, whose: str
):
    """It would fork, call out and fill the disk."""
    mark = tmp_path / "ran"
    setup, project = SETUP.format(mark=str(mark)), f"{PROJECT}{BACKEND}"
    if whose == "its own":
        lock = LOCK.replace("virtual", "editable")
        one = commit(uv__lock=lock, pyproject__toml=project, setup__py=setup)
        assert build(install="uv-sync").folder_of(one)
    else:
        (origin / "y").mkdir()
        (origin / "y" / "setup.py").write_text(setup)
        (origin / "y" / "pyproject.toml").write_text(project.replace('"x"', '"y"'))
        lock = f'{NEEDS}source = {{ directory = "y" }}\n'
        needs = 'dependencies = ["y"]\n[tool.uv.sources]\ny = { path = "y" }\n'
        one = commit(uv__lock=lock, pyproject__toml=f"{PROJECT}{needs}")
        with pytest.raises(Unbuildable, match="can't be installed because it is marked"):
            build(install="uv-sync").folder_of(one)
    assert not mark.exists()
