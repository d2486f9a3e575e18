"""Each revision runs in its own checkout, if the worker has a folder for them."""

import json
import os
import sys
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from pydantic import ValidationError

from benchmarks.contracts import CommitRange, Status
from cli.revision import of_today
from tests.worker.miniature import eventually
from worker import checkouts as looked
from worker.checkouts import Checkouts, Deployments
from worker.runner import Runner
from worker.settings import Settings
from worker.supervisor import Station
from worker.targets.target import TargetAbsent, names_a_day, target_of

SCRIPT = Path(__file__).with_name("scripted_child.py")
TELLS = """
def main():
    asked = read()
    told = {"cwd": os.getcwd(), "python": sys.executable, "path": os.environ.get("PYTHONPATH")}
    (asked["folder"] / "told.json").write_text(json.dumps(told))
    globals()[asked["workload"]](asked)
"""


@pytest.fixture
def checkouts(tmp_path: Path) -> Path:
    folder = tmp_path / "checkouts"
    folder.mkdir()
    return folder


@pytest.fixture
def deploy(checkouts):
    """Put a revision there, whose own ``python -m benchmarks`` says how it was run."""

    def put(revision: str, *, has_python: bool = False) -> Path:
        package = checkouts / revision / "benchmarks"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        scripted = SCRIPT.read_text().partition("def main():")[0]
        (package / "__main__.py").write_text(f"{scripted}{TELLS}\n\nmain()\n")
        if has_python:
            python = checkouts / revision / ".venv" / "bin" / "python"
            python.parent.mkdir(parents=True)
            python.symlink_to(sys.executable)
        return checkouts / revision

    return put


@pytest.fixture
def chosen(settings, checkouts, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/somewhere/else")
    return settings.model_copy(
        update={"child_command": (), "worker_target": f"{checkouts}/{{revision}}"}
    )


@pytest.fixture
def run(chosen, contained, job, onlooker, notes):
    def measure(revision: str):
        result = Runner(chosen, Station(chosen, contained)).run(
            job("ok", revision=revision), onlooker
        )
        told = notes / "told.json"
        return result, json.loads(told.read_text()) if told.exists() else None

    return measure


def test_a_revision_runs_its_own_code_in_its_own_folder(run, deploy):
    folder = deploy("feature/x")
    result, told = run("feature/x")
    assert result.status is Status.OK, result.reason
    assert told["cwd"] == str(folder)
    assert told["path"].split(os.pathsep) == [str(folder), "/somewhere/else"]


def test_a_checkout_with_a_python_of_its_own_uses_that_and_nothing_of_the_workers(run, deploy):
    folder = deploy("abc", has_python=True)
    result, told = run("abc")
    assert result.status is Status.OK, result.reason
    assert told["python"] == str(folder / ".venv" / "bin" / "python")
    assert told["path"] == str(folder)


def test_a_revision_that_is_not_there_is_a_failed_result_that_says_where_to_put_it(run, checkouts):
    result, told = run("abc")
    assert result.status is Status.INFRA_ERROR
    assert f"deploy it to {checkouts}/abc" in result.reason
    assert told is None


def test_a_day_names_what_is_installed_here_unless_somebody_deployed_it(chosen, deploy, settings):
    """The built-in nightly names its revisions so: with a target folder every case of it failed."""
    day = date(2026, 11, 20)
    for name in (day.isoformat(), of_today(datetime(2026, 11, 20, tzinfo=UTC)).revision):
        assert names_a_day(name)
        target = target_of(chosen, name)
        assert (target.command, target.folder) == (chosen.command, None)
    folder = deploy("2026-11-20")
    assert target_of(chosen, "2026-11-20").folder == folder


@pytest.mark.parametrize(
    "revision", ["2026-11-31", "20261120", "2026-W47-5", "2026-11-20-rc1", "v2026-11-20", "local-"]
)
def test_nothing_else_that_was_not_deployed_runs_as_what_is_installed(chosen, revision):
    assert not names_a_day(revision)
    with pytest.raises(TargetAbsent, match="deploy it to"):
        target_of(chosen, revision)


@pytest.mark.parametrize("revision", ["a/../../x", "a/..", "a/./b", "a//b", "a/"])
def test_no_revision_leads_out_of_the_folder(chosen, checkouts, revision):
    (checkouts / "a").mkdir()
    with pytest.raises(TargetAbsent, match="cannot name a folder"):
        target_of(chosen, revision)


def test_without_the_setting_nothing_changes(settings):
    target = target_of(settings, "a/../b")
    assert (target.command, target.folder) == (settings.command, None)
    assert target.environment({"PYTHONPATH": "/x"}) == {"PYTHONPATH": "/x"}


@pytest.mark.parametrize("told", ["/srv/checkouts", "srv/{revision}", "/{revision}/{revision}"])
def test_a_setting_that_names_no_folder_for_each_revision_is_refused(told):
    with pytest.raises(ValidationError, match="whole path"):
        Settings(worker_target=told)


def deployed(settings: Settings) -> tuple[str, ...] | None:
    return Checkouts(settings.worker_target).revisions()


def test_a_worker_says_which_revisions_are_deployed_to_it(chosen, checkouts, settings):
    assert deployed(settings) == (), "installed code is no revision of its own"
    assert deployed(chosen) == ()
    for name in ("v1.0", "abc", "feature/fast", "has spaces", ".hidden"):
        (checkouts / name).mkdir(parents=True)
        (checkouts / name / "bench.py").touch()
    (checkouts / "abc" / "src").mkdir()
    (checkouts / "a-file").touch()
    (checkouts / "current").symlink_to(checkouts / "abc")
    (checkouts / "dangling").symlink_to(checkouts / "none")
    told = deployed(chosen)
    assert told == ("abc", "current", "feature", "feature/fast", "v1.0")
    for revision in told:
        assert target_of(chosen, revision).folder == checkouts / revision


def test_what_stands_around_the_name_in_the_setting_is_no_part_of_it(settings, tmp_path):
    for name in ("run-abc-x/src", "run-def-x", "abc", "run--x/src", "run-x/src"):
        (tmp_path / name).mkdir(parents=True)
    told = settings.model_copy(update={"worker_target": f"{tmp_path}/run-{{revision}}-x/src"})
    assert deployed(told) == ("abc",)


def test_more_revisions_than_can_be_told_are_none_told(chosen, checkouts, monkeypatch):
    monkeypatch.setattr(looked, "MOST_REVISIONS", 2)
    for name in ("a", "b", "c"):
        (checkouts / name).mkdir()
    assert deployed(chosen) is None


def test_a_folder_that_was_empty_is_looked_into_again_and_a_checkout_is_not(chosen, checkouts):
    known = Checkouts(chosen.worker_target)
    (checkouts / "feature").mkdir()
    (checkouts / "abc").mkdir()
    (checkouts / "abc" / "bench.py").touch()
    assert known.revisions() == ("abc", "feature")
    (checkouts / "feature" / "fast").mkdir()
    (checkouts / "abc" / "src").mkdir()
    (checkouts / "abc" / "bench.py").unlink()
    assert known.revisions() == ("abc", "feature", "feature/fast")


def test_a_folder_that_is_not_there_yet_holds_no_revision(chosen, checkouts):
    checkouts.rmdir()
    assert deployed(chosen) == ()


def test_what_is_deployed_later_is_told_while_the_worker_waits_and_while_it_measures(
    worker, service, chosen, checkouts, deploy, monkeypatch
):
    monkeypatch.setattr(looked, "LOOK_S", 0.1)
    deploy("abc")
    told = {"worker_target": chosen.worker_target, "child_command": chosen.child_command}
    with worker(**told) as stop:
        eventually(lambda: service.workers)
        assert "abc" in service.workers["w1"].revisions
        deploy("later")
        eventually(lambda: "later" in service.workers["w1"].revisions)
        service.submit("endless")
        eventually(lambda: service.started)
        deploy("latest")
        eventually(lambda: "latest" in service.workers["w1"].revisions)
        assert not service.results, "the job is still being measured"
        stop.ask()  # and once more at the end of the block: its case never ends by itself


def test_a_worker_without_a_target_says_that_it_has_no_revision_of_its_own(worker, service):
    with worker():
        eventually(lambda: service.workers)
    assert service.workers["w1"].revisions == ()


class Counted:
    """Refs that change as the test says; to look at them may fail."""

    def __init__(self) -> None:
        self.looks = 0
        self.fault: Exception | None = None
        self.listed: CommitRange | None = None

    def refresh(self) -> None:
        self.looks += 1

    def told(self) -> dict[str, object]:
        if self.fault:
            raise self.fault
        return {"heads": (), "listed": self.listed}

    def list_range(self, asked: CommitRange | None) -> None:
        self.listed = asked


def test_a_look_that_fails_is_logged_once_and_the_next_ones_go_on(monkeypatch, caplog):
    monkeypatch.setattr(looked, "LOOK_S", 0.01)
    refs, told = Counted(), []
    refs.fault = OSError(24, "Too many open files")
    with Deployments(refs, lambda: told.append(refs.looks)):
        eventually(lambda: refs.looks > 3)
        assert not told
        refs.fault = None
        eventually(lambda: told)
    assert caplog.text.count("Too many open files") == 1
    assert "The revisions here could not be told; trying again." in caplog.text


def test_what_does_not_change_is_told_again_every_few_minutes(monkeypatch):
    monkeypatch.setattr(looked, "LOOK_S", 0.01)
    refs, told = Counted(), []
    assert looked.TELL_AGAIN_S <= 300.0, "the service believes it for ten minutes"
    with Deployments(refs, lambda: told.append(refs.looks)):
        eventually(lambda: refs.looks > 5)
        assert len(told) == 1
        monkeypatch.setattr(looked, "TELL_AGAIN_S", 0.0)
        eventually(lambda: len(told) > 2)


def test_a_range_that_is_asked_for_is_told_at_once_and_then_no_more(monkeypatch):
    monkeypatch.setattr(looked, "LOOK_S", 0.01)
    asked = CommitRange(good="1" * 40, bad="2" * 40)
    refs, told, answers = Counted(), [], [asked, None]

    def tell() -> CommitRange | None:
        told.append(refs.listed)
        return answers.pop(0) if answers else None

    with Deployments(refs, tell):
        eventually(lambda: refs.looks > 10)
    assert told == [None, asked, None]
