"""The process that reads and computes for judging: what it answers, and how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from pathlib import Path

import psutil
import pytest
from builders.questions import ending, told, where
from builders.served import wait_until
from chaos.replica import environment
from sqlalchemy.exc import DBAPIError

from service.aside import Aside
from service.condition import passes


@pytest.fixture
def aside(database_url: str) -> Iterator[Aside]:
    made = Aside(database_url)
    yield made
    made.close()


def test_one_other_process_answers_and_cannot_write(aside: Aside) -> None:
    assert aside.ask(partial(told, "SELECT 6 * 7")) == 42
    there = aside.ask(where)
    assert there != os.getpid()
    with pytest.raises(DBAPIError, match=r"read-?only"):
        aside.ask(partial(told, "UPDATE revisions SET dated = dated RETURNING 1"))
    assert aside.ask(where) == there


def test_what_the_database_says_there_is_understood_here(aside: Aside) -> None:
    with pytest.raises(DBAPIError) as fault:
        aside.ask(partial(told, "SELECT 1 FROM nowhere"))
    assert passes(fault.value)  # the tables are missing, which is no fault of the question


def test_a_process_that_is_ended_is_replaced(sqlite_url: str, tmp_path: Path) -> None:
    aside = Aside(sqlite_url)
    assert aside.ask(partial(ending, 1, tmp_path)) == "lived"
    aside.close()


def test_a_question_that_ends_every_process_is_given_up_and_the_next_one_answered(
    sqlite_url: str, tmp_path: Path
) -> None:
    aside = Aside(sqlite_url)
    with pytest.raises(BrokenProcessPool) as fault:
        aside.ask(partial(ending, 9, tmp_path))
    assert not passes(fault.value)
    assert len(list(tmp_path.glob("ended-*"))) == 2
    assert aside.ask(partial(told, "SELECT 1")) == 1
    aside.close()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_it_ends_with_the_service_however_that_ended(
    sqlite_url: str, number: signal.Signals
) -> None:
    command = [sys.executable, "-m", "builders.questions", sqlite_url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment()) as service:
        assert service.stdout
        aside = psutil.Process(int(service.stdout.readline()))
        service.send_signal(number)
        wait_until(lambda: not aside.is_running())


def test_what_is_meant_for_the_service_does_not_end_it(sqlite_url: str) -> None:
    aside = Aside(sqlite_url)
    there = aside.ask(where)
    for number in (signal.SIGINT, signal.SIGTERM):  # to all of a terminal, or of a unit
        os.kill(there, number)
    assert aside.ask(where) == there
    aside.close()
