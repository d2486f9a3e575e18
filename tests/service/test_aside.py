"""The process that reads and computes for judging: what it answers, and how it ends."""

from __future__ import annotations

import errno
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest
from builders.questions import ending, endless, told, where
from builders.served import wait_until
from sqlalchemy.exc import DBAPIError

from service import analysis_process as aside_module
from service.analysis_process import AnalysisProcess
from service.database.failures import passes
from service.database.session import Database
from service.errors import ProcessEnded
from trials.chaos.replica import environment

pytestmark = pytest.mark.both_databases


@pytest.fixture
def aside(database: Database) -> Iterator[AnalysisProcess]:
    made = AnalysisProcess(database)
    yield made
    made.end()


@pytest.fixture
def embedded(sqlite_url: str) -> Iterator[AnalysisProcess]:
    database = Database(sqlite_url)
    made = AnalysisProcess(database)
    yield made
    made.end()
    database.close()


def test_one_other_process_answers_and_cannot_write(aside: AnalysisProcess) -> None:
    assert aside.ask(partial(told, "SELECT 6 * 7")) == 42
    there = aside.ask(where)
    assert there != os.getpid()
    with pytest.raises(DBAPIError, match=r"read-?only"):
        aside.ask(partial(told, "UPDATE revisions SET dated = dated RETURNING 1"))
    assert aside.ask(where) == there


def test_what_the_database_says_there_is_understood_here(aside: AnalysisProcess) -> None:
    with pytest.raises(DBAPIError) as fault:
        aside.ask(partial(told, "SELECT 1 FROM nowhere"))
    assert passes(fault.value)  # the tables are missing, which is no fault of the question


def test_a_process_that_is_ended_is_replaced(embedded: AnalysisProcess, tmp_path: Path) -> None:
    assert embedded.ask(partial(ending, 1, tmp_path)) == "lived"
    assert embedded.ask(where) != os.getpid()


def test_a_question_over_which_two_processes_ended_is_answered_here(
    embedded: AnalysisProcess, tmp_path: Path
) -> None:
    assert embedded.ask(partial(ending, 2, tmp_path)) == "lived"
    assert embedded.ask(where) == os.getpid()  # and so are those after it, for a minute


def test_where_no_process_can_be_had_this_one_answers_and_says_so_once(
    embedded: AnalysisProcess, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def none_left(*_: object) -> None:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(aside_module, "ProcessPoolExecutor", none_left)
    with caplog.at_level(logging.WARNING):
        assert [embedded.ask(where) for _ in range(3)] == [os.getpid()] * 3
    assert sum("no process of its own" in each.message for each in caplog.records) == 1
    monkeypatch.undo()
    monkeypatch.setattr(embedded, "_here_until_s", 0.0)  # the minute is over
    assert embedded.ask(where) != os.getpid()


def test_it_is_ended_over_a_question_that_has_no_end(
    embedded: AnalysisProcess, tmp_path: Path
) -> None:
    """The service ends, and waits for nobody."""
    heard: list[BaseException] = []

    def ask() -> None:
        try:
            embedded.ask(partial(endless, tmp_path))
        except ProcessEnded as ended:
            heard.append(ended)

    asking = threading.Thread(target=ask)
    asking.start()
    wait_until((tmp_path / "begun").exists)
    embedded.end()
    asking.join(20)
    assert len(heard) == 1
    with pytest.raises(ProcessEnded):
        embedded.ask(where)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_it_ends_with_the_service_however_that_ended(
    sqlite_url: str, number: signal.Signals
) -> None:
    command = [sys.executable, "-m", "builders.questions", sqlite_url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment()) as service:
        assert service.stdout
        other = psutil.Process(int(service.stdout.readline()))
        service.send_signal(number)
        wait_until(lambda: not other.is_running())


def test_a_process_that_nobody_asks_is_let_go(
    embedded: AnalysisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = psutil.Process(embedded.ask(where))
    embedded.spare()
    assert embedded.ask(where) == other.pid
    monkeypatch.setattr(aside_module, "_IDLE_S", 0.0)
    embedded.spare()
    wait_until(lambda: not other.is_running())
    assert embedded.ask(where) not in (other.pid, os.getpid())


def test_what_is_meant_for_the_service_does_not_end_it(embedded: AnalysisProcess) -> None:
    there = embedded.ask(where)
    for number in (signal.SIGINT, signal.SIGTERM):  # to all of a terminal, or of a unit
        os.kill(there, number)
    assert embedded.ask(where) == there
