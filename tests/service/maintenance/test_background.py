"""The process that analyses results: who starts it, how it ends, and what several do at once."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import httpx2
import psutil
import pytest
from builders import long_series as long
from builders.long_series import DROPPED, STEADY, noisy
from builders.served import wait_until
from builders.service_program import Program, outcome, run, serving
from fastapi.testclient import TestClient
from sqlalchemy import func, select

from service.app import create_app
from service.database.session import Database
from service.history import pending
from service.jobs import backfill
from service.jobs.types import Terms
from service.maintenance import background
from service.maintenance.background import AnalysisProcess
from service.models import FindingRow
from service.settings import Settings

TERMS = Terms(timedelta(seconds=60), timedelta(seconds=10), max_lost_attempts=3)
QUICK = {"ROLE": "all", "SWEEP_S": "0.1", "CONFIRMATIONS": "0"}


@contextmanager
def analysing(url: str) -> Iterator[Program]:
    """The process by itself, as on another machine, at work."""
    process = run("--role", "analysis", DATABASE_URL=url, **QUICK)
    assert process.stderr is not None
    try:
        assert "analysis runs as process" in process.stderr.readline()
        yield process
    finally:
        process.kill()
        process.communicate()


def add_a_drop(database: Database, *series: str) -> None:
    with database.writing() as session:
        long.prepare(session)
        for place, series_id in enumerate(series or (long.SERIES,)):
            values = dict(enumerate(noisy(STEADY + DROPPED)))
            long.add(session, values, series_id=series_id, place=place)


def is_analysed(database: Database) -> bool:
    with database.reading() as session:
        return not pending.pending_series(session).notes


def findings_of(database: Database) -> int:
    with database.reading() as session:
        return session.scalars(select(func.count()).select_from(FindingRow)).one()


def analysis_of(process: Program) -> psutil.Process:
    """The process that analyses for ``serve``, once it runs its own program.

    ``serve`` calls it running as soon as it is started, when it still has the name of a copy.
    """
    wait_until(lambda: len(children(process)) == 1)
    (child,) = children(process)
    return child


def children(process: Program) -> list[psutil.Process]:
    """The processes that it started and that run the program of analysis by now."""
    return [
        child
        for child in psutil.Process(process.pid).children()
        if background.ANALYSIS[-1] in child.cmdline() and "-I" not in child.cmdline()
    ]


def test_serve_has_results_analysed_and_starts_a_killed_process_again(database: Database) -> None:
    url = database.url.render_as_string(hide_password=False)
    with serving(url, **QUICK) as (address, process):

        def health() -> str:
            return str(httpx2.get(f"{address}/api/v1/health").json()["analysis"])

        wait_until(lambda: health() == "running")
        first = analysis_of(process)
        first.kill()
        wait_until(lambda: not first.is_running())
        add_a_drop(database)
        wait_until(lambda: is_analysed(database))
        assert findings_of(database) == 1
        second = analysis_of(process)
        assert second.pid != first.pid
        assert second.nice() > psutil.Process(process.pid).nice()
        assert health() == "running"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_it_ends_with_serve_however_that_ended(sqlite_url: str, number: signal.Signals) -> None:
    with serving(sqlite_url, **QUICK) as (_, process):
        analysis = analysis_of(process)
        analysis.suspend()  # not even then
        process.send_signal(number)
        wait_until(lambda: not analysis.is_running())


@pytest.mark.both_databases
def test_two_at_once_open_each_finding_once(database: Database) -> None:
    url = database.url.render_as_string(hide_password=False)
    with analysing(url) as one, analysing(url) as other:
        add_a_drop(database, long.SERIES, long.OTHER)
        wait_until(lambda: is_analysed(database))
        assert findings_of(database) == 1
        for process in (one, other):
            process.send_signal(signal.SIGTERM)
        assert [process.wait(30) for process in (one, other)] == [0, 0]


def test_it_ends_though_the_signal_comes_while_an_object_is_finalized(sqlite_url: str) -> None:
    program = """if True:
        import os, signal
        from service import __main__ as program

        class Dying:
            def __del__(self):
                os.kill(os.getpid(), signal.SIGTERM)
                "the signal arrives by now"

        def run(*_):
            Dying()
            os._exit(9)

        program.pipeline.run = run
        program.main(["--role", "analysis"])
    """
    chosen = os.environ | {"THROUGHLINE_DATABASE_URL": sqlite_url}
    subprocess.run([sys.executable, "-c", program], env=chosen, timeout=60, check=True)


def test_a_database_that_cannot_be_used_is_said_in_one_sentence() -> None:
    code, said = outcome(run("--role", "analysis", DATABASE_URL="sqlite:////none/such.sqlite3"))
    assert code == 3
    assert "throughline migrate" in said
    assert "Traceback" not in said


def test_a_replica_that_only_serves_starts_none(sqlite_url: str) -> None:
    with serving(sqlite_url, **QUICK | {"ROLE": "web"}) as (address, process):
        assert httpx2.get(f"{address}/api/v1/health").json()["analysis"] == "elsewhere"
        assert children(process) == []


def test_an_embedded_application_starts_it_and_ends_it(sqlite_url: str) -> None:
    app = create_app(Settings(database_url=sqlite_url, sweep_s=0.1))
    before = psutil.Process().children()
    with TestClient(app) as client:
        wait_until(lambda: client.get("/api/v1/health").json()["analysis"] == "running")
        (analysis,) = set(psutil.Process().children()) - set(before)
    assert not analysis.is_running()


def test_a_process_that_keeps_ending_is_started_ever_more_rarely(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "ANALYSIS", ("/bin/false",))
    now_s = 0.0
    monkeypatch.setattr(background.time, "monotonic", lambda: now_s)
    kept = AnalysisProcess(Settings(database_url=sqlite_url))
    starts: list[float] = []
    for now_s in range(200):
        before = kept._process
        kept.keep()
        if kept._process is not before:
            starts.append(now_s)
            kept._process.wait()
    assert starts == [0, 1, 3, 7, 15, 31, 63, 123, 183]
    now_s = 183 + 121  # it has lasted
    kept.keep()
    assert kept._pause_s == 1
    kept.end()


def test_where_no_process_can_be_had_the_rest_goes_on(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def none_left(*_: object, **__: object) -> None:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(background.subprocess, "Popen", none_left)
    swept = threading.Event()
    monkeypatch.setattr(background.Background, "_sweep", lambda _: swept.set())
    with TestClient(create_app(Settings(database_url=sqlite_url))) as client:
        assert swept.wait(20)
        assert client.get("/api/v1/health").json()["analysis"] == "stopped"
    assert "trying again" in caplog.text


def test_a_fault_in_what_nobody_asked_for_holds_no_comparison_up(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    database: Database = client.app.state.database  # type: ignore[attr-defined]
    looked: list[str] = []

    def fail(*_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(backfill, "fill", fail)
    unasked = background.Unasked(backfill=1)
    watch = background.Background(database, TERMS, 5.0, unasked=unasked)
    monkeypatch.setattr(watch, "_compare", lambda: looked.append("comparisons"))
    with pytest.raises(RuntimeError):
        watch._look()
    assert looked == ["comparisons"]
