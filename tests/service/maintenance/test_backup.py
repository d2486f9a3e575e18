"""A backup is whole though the service writes on, and comes back as it was."""

from __future__ import annotations

import secrets
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders.postgres_server import PostgresServer, find_binaries
from builders.service_hand import result_of

from benchmarks.contracts import Case, Claim, Worker
from service.database.session import Database, now_of
from service.jobs import attempts, leases, workers
from service.jobs.requests import SubmissionRequest
from service.jobs.submit import submit
from service.jobs.types import Holder
from service.maintenance.backup import BackupRefused, backup, restore
from service.maintenance.verify import verify
from tests.service.maintenance.test_verify import TERMS

pytestmark = pytest.mark.both_databases


def measure(database: Database) -> None:
    """Take one job all the way."""
    with database.writing() as session:
        now = now_of(session)
        workers.introduce(session, Worker(name="w1"), now)
        submit(session, SubmissionRequest(case=Case(workload="unet"), revision="r"), now)
        lease = leases.lease(
            session, Claim(worker="w1", claim_id=secrets.token_hex(16)), TERMS, now
        )
        assert lease is not None
        holder = Holder(lease.job_id, lease.attempt, lease.secret)
        attempts.complete(session, holder, result_of(lease), now)


@pytest.fixture
def busy(sqlite_url: str) -> Iterator[Database]:
    """A database that a thread goes on to write into."""
    database = Database(sqlite_url)
    measure(database)
    ended = threading.Event()

    def write() -> None:
        while not ended.is_set():
            measure(database)

    thread = threading.Thread(target=write)
    thread.start()
    yield database
    ended.set()
    thread.join()
    database.close()


def test_a_backup_under_load_is_whole_and_comes_back(
    busy: Database, sqlite_url: str, tmp_path: Path
) -> None:
    for number in range(5):
        backup(sqlite_url, tmp_path / f"copy{number}")
        target = f"sqlite:///{tmp_path}/back/{number}.sqlite3"
        restore(target, tmp_path / f"copy{number}")
        back = Database(target)
        report = verify(back)
        assert report.kept
        assert report.jobs == report.results > 0
        measure(back)
        back.close()
    assert not list(tmp_path.glob(".*part*"))


def test_postgresql_goes_there_and_back_by_its_own_tools(
    postgres: PostgresServer, postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(find_binaries() / "bin"), prepend=":")
    database = Database(postgres_url)
    measure(database)
    backup(postgres_url, tmp_path / "copy")
    with pytest.raises(BackupRefused, match="empty one"):
        restore(postgres_url, tmp_path / "copy")
    name = f"back{secrets.token_hex(4)}"
    postgres.run(f"CREATE DATABASE {name}")
    restore(postgres.url(name), tmp_path / "copy")
    back = Database(postgres.url(name))
    report = verify(back)
    assert (report.kept, report.jobs, report.results) == (True, 1, 1)
    assert report.warnings == []
    measure(back)
    for each in (back, database):
        each.close()
    postgres.run(f"DROP DATABASE {name} WITH (FORCE)")


def test_without_its_tools_postgresql_says_which(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BackupRefused, match="pg_dump, which is not installed"):
        backup(postgres_url, tmp_path / "copy")


def test_why_a_tool_of_postgresql_failed_is_its_first_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    says = """pg_dump: warning: there are circular foreign-key constraints
pg_dump: error: query failed: ERROR:  permission denied for table jobs
pg_dump: detail: Query was: LOCK TABLE public.jobs
"""
    (tmp_path / "said").write_text(says)
    tool = tmp_path / "pg_dump"
    tool.write_text(f"#!/bin/sh\ncat {tmp_path}/said >&2\nexit 1\n")
    tool.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr("service.maintenance.backup._refuse_unmigrated", lambda url: None)
    wanted = r"^pg_dump failed: query failed: ERROR:  permission denied for table jobs$"
    with pytest.raises(BackupRefused, match=wanted):
        backup("postgresql://ann@db.example/throughline", tmp_path / "copy")


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://ann:p%40ss@db.example/throughline?sslmode=require",
        "postgresql://ann@db.example/throughline?password=p%40ss&sslmode=require",
    ],
)
def test_a_password_is_on_no_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    """Every user of a machine may read those."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("pg_dump", "pg_restore"):
        seen = f'echo "$0 $@ / $PGPASSWORD" >>{tmp_path}/seen'
        writes = 'for word; do case $word in --file=*) echo x >"${word#--file=}";; esac; done'
        (tools / name).write_text(f"#!/bin/sh\n{seen}\n{writes}\n")
        (tools / name).chmod(0o700)
    monkeypatch.setenv("PATH", str(tools), prepend=":")
    for needs_a_server in ("_refuse_tables", "_refuse_unmigrated"):
        monkeypatch.setattr(f"service.maintenance.backup.{needs_a_server}", lambda url: None)
    backup(address, tmp_path / "copy")
    restore(address, tmp_path / "copy")
    for line in (tmp_path / "seen").read_text().splitlines():
        shown, _, password = line.rpartition(" / ")
        assert "--dbname=postgresql://ann@db.example/throughline?sslmode=require" in shown
        assert "p@ss" not in shown
        assert "p%40ss" not in shown
        assert password == "p@ss"


def test_a_backup_needs_no_hard_links(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*paths: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", refused)
    backup(sqlite_url, tmp_path / "copy")
    restore(f"sqlite:///{tmp_path}/back.sqlite3", tmp_path / "copy")
    assert (tmp_path / "back.sqlite3").stat().st_size > 0
    assert not list(tmp_path.glob(".*part*"))


def test_without_hard_links_nothing_that_came_meanwhile_is_overwritten(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(draft: Path, to: Path) -> None:
        to.write_text("precious")
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", late)
    with pytest.raises(BackupRefused, match="exists already"):
        backup(sqlite_url, tmp_path / "copy")
    assert (tmp_path / "copy").read_text() == "precious"


def test_nothing_is_overwritten(sqlite_url: str, tmp_path: Path) -> None:
    (tmp_path / "there").write_text("precious")
    with pytest.raises(BackupRefused, match="exists already"):
        backup(sqlite_url, tmp_path / "there")
    assert (tmp_path / "there").read_text() == "precious"
    backup(sqlite_url, tmp_path / "copy")
    with pytest.raises(BackupRefused, match="exists already"):
        restore(sqlite_url, tmp_path / "copy")
    (tmp_path / "new.sqlite3-wal").write_bytes(b"of another database")
    with pytest.raises(BackupRefused, match="move it away"):
        restore(f"sqlite:///{tmp_path}/new.sqlite3", tmp_path / "copy")


@pytest.mark.parametrize("name", ["", ".", "/", "a" * 250, "a" * 300])
def test_a_name_that_no_file_can_have_is_refused(sqlite_url: str, name: str) -> None:
    Database(sqlite_url).close()
    with pytest.raises(BackupRefused):
        backup(sqlite_url, Path(name))


def test_a_damaged_database_makes_no_backup(sqlite_url: str, tmp_path: Path) -> None:
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    content = bytearray(path.read_bytes())
    content[8 * 4096 : 9 * 4096] = b"\xaa" * 4096
    path.write_bytes(content)
    with pytest.raises(BackupRefused, match=r"damaged|cannot be copied"):
        backup(sqlite_url, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    shutil.copyfile(path, tmp_path / "torn")
    with pytest.raises(BackupRefused):
        restore(f"sqlite:///{tmp_path}/new.sqlite3", tmp_path / "torn")
    assert not (tmp_path / "new.sqlite3").exists()


def test_what_is_no_backup_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BackupRefused, match="no database"):
        backup(f"sqlite:///{tmp_path}/none", tmp_path / "copy")
    with pytest.raises(BackupRefused, match="no backup"):
        restore(f"sqlite:///{tmp_path}/new", tmp_path / "none")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(BackupRefused, match="no backup of a SQLite"):
        restore(f"sqlite:///{tmp_path}/new", tmp_path / "text")


def test_nothing_is_no_backup(tmp_path: Path, postgres: PostgresServer) -> None:
    """A wrong address would make green backups, night after night, with nothing in them."""
    empty, copy = tmp_path / "empty.sqlite3", tmp_path / "copy"
    empty.touch()
    for url in (f"sqlite:///{empty}", postgres.url("postgres")):
        with pytest.raises(BackupRefused, match="no tables of Throughline"):
            backup(url, copy)
        assert not copy.exists()
    with sqlite3.connect(copy) as made:
        made.execute("CREATE TABLE other (id INTEGER)")
    made.close()
    with pytest.raises(BackupRefused, match="no tables of Throughline"):
        restore(f"sqlite:///{tmp_path}/new.sqlite3", copy)
    assert not (tmp_path / "new.sqlite3").exists()


def test_a_backup_is_one_file_that_needs_no_other(sqlite_url: str, tmp_path: Path) -> None:
    backup(sqlite_url, tmp_path / "copy")
    connection = sqlite3.connect(tmp_path / "copy")
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    connection.close()
    assert sorted(path.name for path in tmp_path.glob("copy*")) == ["copy"]
