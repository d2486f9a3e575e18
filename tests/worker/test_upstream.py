"""A worker makes the versions of packages that jobs name, out of a folder of wheels."""

from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Callable
from importlib.metadata import version as installed
from pathlib import Path

import pytest

from benchmarks.contracts import Status, Worker
from cli.commands.worker import build as build_command
from cli.exits import Exit
from cli.exits import Stop as CommandStop
from worker.child.containment import Containment
from worker.runner import Runner
from worker.settings import Settings
from worker.startup import introduce
from worker.supervisor import Station
from worker.targets import builds as made
from worker.targets import releases, upstream
from worker.targets.builds import Builds
from worker.targets.commands import BuildFailed, Unbuildable
from worker.targets.definitions import Upstream, read
from worker.targets.target import builds_of

HERE = Path(__file__).parent
TELLS = """
def main():
    import torch

    told = globals()["result"]

    def with_torch(asked, *args, **more):
        found = told(asked, *args, **more)
        found["environment"]["facts"]["sw.torch"] = torch.__version__
        return found

    globals()["result"] = with_torch
    asked = read()
    globals()[asked["workload"]](asked)


main()
"""


@pytest.fixture(params=["stand-in", "uv"])
def uv(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """uv itself where it is installed, and something that stands in for it."""
    if request.param == "uv":
        config = tmp_path / "uv.toml"
        config.write_text("[pip]\nno-index = true\n")
        monkeypatch.setenv("UV_CONFIG_FILE", str(config))
        monkeypatch.delenv("UV_FIND_LINKS", raising=False)
        return
    script = tmp_path / "bin" / "uv"
    script.parent.mkdir()
    script.write_text(f"#!{sys.executable}\n{(HERE / 'stand_in_uv.py').read_text()}")
    script.chmod(0o755)
    monkeypatch.setattr("worker.targets.environment._uv", lambda: str(script))


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three versions of something named torch, and two of what is needed beside it."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for version in ("1.0.0", "2.0.0", "3.0.0+cpu"):
        wheel(folder, "torch", version)
    for version in (installed("numpy"), "99.0"):
        wheel(folder, "numpy", version)
    monkeypatch.setattr(upstream, "NEEDS", ("numpy", "torch"))
    return folder


def wheel(folder: Path, name: str, version: str, tells: str = "") -> None:
    facts = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    tags = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    about = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as file:
        file.writestr(f"{name}/__init__.py", f"__version__ = {(tells or version)!r}\n")
        file.writestr(f"{about}/METADATA", facts)
        file.writestr(f"{about}/WHEEL", tags)
        file.writestr(f"{about}/RECORD", "")


@pytest.fixture
def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The worker's own code that measures: a scripted one, which tells its torch."""
    package = tmp_path / "own" / "benchmarks"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    scripted = (HERE / "scripted_child.py").read_text().partition("def main():")[0]
    (package / "__main__.py").write_text(scripted + TELLS)
    monkeypatch.setattr(upstream, "HARNESS", package)
    return package


@pytest.fixture
def chosen(settings: Settings, wheels: Path, tmp_path: Path) -> Settings:
    file = tmp_path / "targets.toml"
    file.write_text(f'[upstream]\npackages = ["torch"]\nindex = "{wheels}"\n')
    return settings.model_copy(update={"child_command": (), "targets": file})


@pytest.fixture
def builds(wheels: Path, harness: Path, tmp_path: Path) -> Builds:
    allowed = Upstream(packages=("torch",), index=str(wheels))
    return Builds(tmp_path / "builds", {}, sys.executable, float(2**40), allowed)


def has(folder: Path | None, name: str) -> Path:
    assert folder
    [packages] = (folder / ".venv").glob("lib/python3*/site-packages")
    return next(packages.glob(f"{name}-*.dist-info"))


def test_only_what_is_named_moves_and_the_harness_is_the_workers_own(
    builds: Builds, uv: None, harness: Path
):
    for version in ("1.0.0", "2.0.0"):
        folder = builds.folder_of(f"torch=={version}")
        assert has(folder, "torch").name == f"torch-{version}.dist-info"
        assert has(folder, "numpy").name == f"numpy-{installed('numpy')}.dist-info"
        assert folder
        assert (folder / "benchmarks").resolve() == harness
    assert builds.folder_of("2026-11-20") is None
    assert builds.folder_of("0" * 40) is None, "without repositories a commit runs what is there"


def test_versions_are_built_once_and_shared_by_what_resolves_alike(builds: Builds, uv: None):
    one = builds.folder_of("torch==3.0.0")
    assert one
    (one / ".venv" / "mark").touch()
    assert builds.folder_of("torch==3.0.0") == one
    other = builds.folder_of("torch==3.0.0+cpu")
    assert other != one
    assert other
    assert (other / ".venv" / "mark").exists()


def test_other_settings_of_uv_make_another_environment(
    builds: Builds, uv: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """They may name another index, whose wheels of one version are others."""
    config = tmp_path / "config" / "uv" / "uv.toml"
    config.parent.mkdir(parents=True)
    monkeypatch.delenv("UV_CONFIG_FILE", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    said = ("[pip]\nno-index = true\n", "[pip]\nno-index = true\n# changed\n")
    environments = set()
    for settings in (*said, said[0]):
        config.write_text(settings)
        folder = builds.folder_of("torch==2.0.0")
        assert folder
        environments.add((folder / ".venv").resolve())
    assert len(environments) == 2


@pytest.mark.parametrize(
    ("revision", "says"),
    [
        ("torch==9.9.9", "torch==9.9.9 cannot be built: `uv pip` failed: .*there is no version of"),
        ("torch==1.0", r"torch==1\.0 cannot be built: torch==1\.0 is torch==1\.0\.0: name that"),
    ],
)
def test_a_version_that_is_not_there_is_unbuildable_and_not_tried_again(
    builds: Builds,
    uv: None,
    wheels: Path,
    revision: str,
    says: str,
    request: pytest.FixtureRequest,
):
    if revision == "torch==1.0" and "stand-in" in request.node.name:
        pytest.skip("what stands in for uv compares no versions")
    for _ in range(2):
        with pytest.raises(Unbuildable, match=says):
            builds.folder_of(revision)
    wheel(wheels, "torch", "9.9.9")
    with pytest.raises(Unbuildable, match=says):
        builds.folder_of(revision)
    if revision == "torch==9.9.9":
        assert builds.folder_of(revision, anew=True)


def test_an_index_that_cannot_be_reached_is_no_fault_of_the_version(
    builds: Builds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    script = tmp_path / "uv"
    script.write_text("#!/bin/sh\necho 'cause: tcp connect error' >&2\nexit 2\n")
    script.chmod(0o755)
    monkeypatch.setattr("worker.targets.environment._uv", lambda: str(script))
    with pytest.raises(BuildFailed, match="tcp connect error") as told:
        builds.folder_of("torch==1.0.0")
    assert not isinstance(told.value, Unbuildable)


def test_what_the_operator_did_not_allow_is_refused(builds: Builds, tmp_path: Path):
    with pytest.raises(BuildFailed, match="This worker makes no versions of triton: its operator"):
        builds.folder_of("torch==1.0.0,triton==3.0.0")
    without = Builds(tmp_path / "builds", {}, sys.executable, 0.0)
    with pytest.raises(BuildFailed, match="This worker makes no versions of torch"):
        without.folder_of("torch==1.0.0")


def test_what_was_not_used_for_longest_goes_first(
    builds: Builds, uv: None, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(made, "IN_USE_S", 60.0)
    monkeypatch.setattr(builds, "_keep_b", 0.0)
    old = builds.folder_of("torch==1.0.0")
    assert old
    environment = (old / ".venv").resolve()
    for one in (old, environment):
        os.utime(one, (1, 1))
    assert builds.folder_of("torch==2.0.0")
    assert not old.exists()
    assert not environment.exists()


def test_the_newest_release_is_told_as_refs_are(
    builds: Builds, uv: None, wheels: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(releases, "LOOK_EVERY_S", 0.0)
    assert builds.told()["targets"] == {"upstream": "It was not asked yet."}
    for newest in ("3.0.0", "5.0.0"):
        if newest == "5.0.0":
            wheel(wheels, "torch", newest)
        builds.refresh()
        told = Worker.model_validate({"name": "w", **builds.told()})
        assert told.targets == {"upstream": ""}
        [head] = told.heads
        assert (head.ref, head.commit) == ("refs/heads/torch", f"torch=={newest}")


def test_an_index_that_is_away_is_told_with_its_reason(
    builds: Builds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    script = tmp_path / "uv"
    script.write_text("#!/bin/sh\necho 'cause: tcp connect error' >&2\nexit 2\n")
    script.chmod(0o755)
    monkeypatch.setattr("worker.targets.environment._uv", lambda: str(script))
    builds.refresh()
    told = builds.told()
    assert told["heads"] == ()
    assert told["targets"] == {"upstream": "`uv pip` failed: cause: tcp connect error"}


# The worker


@pytest.mark.parametrize("version", ["1.0.0", "2.0.0"])
def test_a_job_runs_the_version_that_it_names(
    chosen: Settings,
    uv: None,
    harness: Path,
    contained: Containment,
    job: Callable[..., object],
    onlooker: object,
    version: str,
):
    runner = Runner(chosen, Station(chosen, contained))
    result = runner.run(job("ok", revision=f"torch=={version}"), onlooker)  # type: ignore[arg-type]
    assert result.status is Status.OK, (result.reason, result.log_tail)
    assert result.environment.facts["sw.torch"] == version


def test_both_sides_of_a_pair_have_their_own_version(
    chosen: Settings,
    uv: None,
    harness: Path,
    contained: Containment,
    job: Callable[..., object],
    onlooker: object,
):
    duet = {"baseline": "torch==1.0.0", "baseline_first": True}
    spec = job("turned", revision="torch==2.0.0", duet=duet)
    result = Runner(chosen, Station(chosen, contained)).run(spec, onlooker)  # type: ignore[arg-type]
    assert result.baseline
    sides = result.baseline, result
    assert [side.status for side in sides] == [Status.OK, Status.OK], result.reason
    assert [side.environment.facts["sw.torch"] for side in sides] == ["1.0.0", "2.0.0"]


def test_numbers_of_another_version_are_not_counted(
    chosen: Settings,
    uv: None,
    harness: Path,
    wheels: Path,
    contained: Containment,
    job: Callable[..., object],
    onlooker: object,
):
    wheel(wheels, "torch", "4.0.0", tells="4.0.1")
    spec = job("ok", revision="torch==4.0.0")
    result = Runner(chosen, Station(chosen, contained)).run(spec, onlooker)  # type: ignore[arg-type]
    assert (result.status, result.samples) == (Status.INFRA_ERROR, ())
    assert result.reason == (
        "The revision is torch==4.0.0, and the process had torch 4.0.1: it is not counted."
    )


def test_a_worker_that_makes_no_versions_measures_none(
    settings: Settings, contained: Containment, job: Callable[..., object], onlooker: object
):
    runner = Runner(settings, Station(settings, contained))
    result = runner.run(job("ok", revision="torch==1.0.0"), onlooker)  # type: ignore[arg-type]
    assert result.status is Status.INFRA_ERROR
    assert "makes no versions of packages, so it did not measure torch==1.0.0" in result.reason


def test_a_worker_says_which_packages_it_makes(chosen: Settings, settings: Settings):
    labels = introduce(chosen, None, Containment.PROCESS_GROUP, "f").labels
    assert labels["builds.torch"] == "yes"
    assert "builds.triton" not in labels
    without = introduce(settings, None, Containment.PROCESS_GROUP, "f").labels
    assert not [name for name in without if name.startswith("builds.")]


def test_the_command_builds_ahead_and_says_how_long_it_took(
    chosen: Settings, uv: None, harness: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert chosen.targets
    build_command("torch==1.0.0", targets=chosen.targets, state_dir=tmp_path / "state")
    said = capsys.readouterr()
    assert Path(said.out.strip()).name.startswith("torch==1.0.0.")
    assert said.err.startswith("It was ready after ")
    for revision, code in (("torch==9.9.9", Exit.FAILED), ("torch==1.0.0;id", Exit.USAGE)):
        with pytest.raises(CommandStop) as stop:
            build_command(revision, targets=chosen.targets, state_dir=tmp_path / "state")
        assert stop.value.code == code


# The file


def test_commits_and_versions_stand_in_one_file(tmp_path: Path, settings: Settings):
    file = tmp_path / "targets.toml"
    file.write_text('[targets.ours]\ngit = "/x"\n\n[upstream]\npackages = ["torch"]\n')
    assert builds_of(settings, file).of_commits
    assert read(file).upstream
