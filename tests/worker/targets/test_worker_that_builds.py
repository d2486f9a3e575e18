"""A worker that builds the commits which jobs name."""

from __future__ import annotations

import json
import os
import tempfile
import threading
from pathlib import Path

import psutil
import pytest
from builders.repository import LOCK
from pydantic import ValidationError

from benchmarks.contracts import Status
from cli.commands.worker import build as build_command
from cli.exits import Exit
from cli.exits import Stop as CommandStop
from tests.worker.miniature import eventually
from tests.worker.targets.origin import Commit
from worker import runner
from worker.heartbeat import Cause
from worker.runner import Runner
from worker.settings import Settings
from worker.supervisor import Interrupted, Station
from worker.targets.target import Target, target_of

CHILD = Path(__file__).parents[1] / "scripted_child.py"


TELLS = """
def main():
    asked = read()
    told = {"cwd": os.getcwd(), "path": os.environ.get("PYTHONPATH")}
    (asked["folder"] / "told.json").write_text(json.dumps(told))
    globals()[asked["workload"]](asked)
"""


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


def test_a_build_ends_soon_after_its_job(
    chosen: Settings, commit: Commit, contained, job, onlooker, origin: Path, uv: Path
):
    assert chosen.targets
    chosen.targets.write_text(f'[targets.ours]\ngit = "{origin}"\ninstall = "uv-sync"\n')
    seconds = f"97.{os.getpid()}"  # names the process that must be gone
    script = uv.parent / "bin" / "uv"
    script.write_text(f"#!/bin/sh\necho began > {uv}\nsleep {seconds}\n")
    one = commit(uv__lock=LOCK)

    def stop() -> None:
        eventually(uv.exists)
        onlooker.why = Cause.CANCELLED

    threading.Thread(target=stop).start()
    with pytest.raises(Interrupted) as told:
        Runner(chosen, Station(chosen, contained)).run(job("ok", revision=one), onlooker)
    assert told.value.cause is Cause.CANCELLED
    lines = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
    assert not [line for line in lines if seconds in line]
    left = [path.name for path in chosen.state.glob("builds/*/*") if "part" in path.name]
    assert left == []


def test_the_folder_of_a_job_is_removed_after_its_worker_died_while_it_built(
    chosen: Settings, commit: Commit, contained, job, onlooker, monkeypatch
):
    one = commit(a__py="1\n")
    noted: list[tuple[object, Path]] = []

    def died(*_: object) -> Target:
        (folder,) = Path(tempfile.gettempdir()).glob("tl-*")
        assert noted == [((), folder)]
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "target_of", died)
    station = Station(chosen, contained, None, lambda trees, folder: noted.append((trees, folder)))
    with pytest.raises(KeyboardInterrupt):
        Runner(chosen, station).run(job("ok", revision=one), onlooker)


def test_an_entry_point_that_a_commit_does_not_have_fails_its_job_with_the_reason(
    settings: Settings, commit: Commit, contained, job, onlooker, origin: Path
):
    """Another commit has it; the child is the real one."""
    file = settings.state_dir.parent / "targets.toml"
    file.write_text(f'[targets.ours]\ngit = "{origin}"\n')
    own = {"child_command": (), "targets": file, "models": "theirs"}
    chosen = settings.model_copy(update=own)
    one = commit(theirs__py="def other(size, context): ...\n")
    spec = job("theirs:build", revision=one, timeout_s=120)
    result = Runner(chosen, Station(chosen, contained)).run(spec, onlooker)
    assert result.status is Status.UNSUPPORTED
    assert result.reason == "theirs has no function build(size, context) -> Recipe."
