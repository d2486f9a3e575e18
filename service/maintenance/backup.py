"""A copy of the database, taken while the service goes on, and the way back from it.

SQLite is copied by its own backup interface, page by page within one view, and the copy is checked
before it gets its name. PostgreSQL is left to its own tools, ``pg_dump`` and ``pg_restore``.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from sqlalchemy import inspect
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError

from service.database.engine import make_engine, parse
from service.database.failures import explain
from service.database.migrate import version_of
from service.history.artifacts.folder import FolderStore, sync
from service.schemas.errors import DatabaseUnavailable

_MAGIC = b"SQLite format 3\0"
_WRITE_AHEAD = ("-wal", "-shm", "-journal")
_MIGRATED = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'alembic_version'"
_UNMIGRATED = (
    "has no tables of Throughline; check that it is the one you mean (THROUGHLINE_DATABASE_URL, "
    "the state folder)."
)


class BackupRefused(DatabaseUnavailable):
    """A backup or a restore that cannot be done as asked; nothing was changed."""


def backup(url: str, to: Path) -> None:
    """Copy the database at ``url`` to the file ``to``, which must not exist yet.

    Raises:
        BackupRefused: there is a file already, or no migrated database, or no tool to do it.
        DatabaseUnavailable: the database cannot be read.
    """
    parsed = parse(url)
    with _draft(to) as draft:
        if parsed.get_backend_name() == "sqlite":
            source = _file(parsed)
            if not source.exists():
                raise BackupRefused(f"There is no database at {source}.")
            _copy(source, draft)
        else:
            _refuse_unmigrated(parsed)
            _tool("pg_dump", parsed, ["--format=custom", f"--file={draft}"])


def artifacts_of(copy: Path) -> FolderStore:
    """Where a backup has its artifacts: they are copied after the database, which names them."""
    return FolderStore(Path(f"{copy}.artifacts"))


def restore(url: str, source: Path) -> None:
    """Make the database at ``url``, which must not exist or be empty, out of a backup.

    Raises:
        BackupRefused: there is something already, or ``source`` is no sound backup of its kind.
        DatabaseUnavailable: the database cannot be written.
    """
    parsed = parse(url)
    if not source.is_file():
        raise BackupRefused(f"There is no backup at {source}.")
    if parsed.get_backend_name() == "sqlite":
        _restore_file(source, _file(parsed))
    else:
        _refuse_tables(parsed)
        options = ["--exit-on-error", "--single-transaction", "--no-owner"]
        _tool("pg_restore", parsed, [*options, str(source)])


def _restore_file(source: Path, target: Path) -> None:
    with source.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise BackupRefused(f"{source} is no backup of a SQLite database.")
    if target.exists():
        raise BackupRefused(f"{target} exists already; nothing is overwritten.")
    left = [Path(f"{target}{end}") for end in _WRITE_AHEAD]
    if there := [path for path in left if path.exists()]:
        # SQLite would take them for the restored database's own.
        raise BackupRefused(f"{there[0]} is still there, of another database; move it away first.")
    with _draft(target) as draft:
        _copy(source, draft)


def _copy(source: Path, draft: Path) -> None:
    try:
        with (
            closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=rw", uri=True)) as old,
            closing(sqlite3.connect(draft)) as new,
        ):
            old.backup(new)  # all pages in one step: a single view, however many write meanwhile
            new.execute("PRAGMA journal_mode=DELETE")  # one file, whole by itself
            lines = [row[0] for row in new.execute("PRAGMA integrity_check")]
            broken = new.execute("PRAGMA foreign_key_check").fetchall()
            migrated = new.execute(_MIGRATED).fetchone()
    except sqlite3.Error as error:
        raise BackupRefused(f"{source} cannot be copied: {error}.") from error
    if lines != ["ok"] or broken:
        detail = lines[0] if lines != ["ok"] else f"{len(broken)} rows without their parents"
        raise BackupRefused(f"{source} is damaged ({detail}); nothing was kept.")
    if migrated is None:
        raise BackupRefused(f"{source} {_UNMIGRATED}")


@contextmanager
def _draft(to: Path) -> Iterator[Path]:
    """A file beside ``to`` that becomes it once it is complete and on the disk."""
    draft = to.parent / f".{to.name}.{os.getpid()}.part"  # a folder such as . has no name
    try:
        if to.exists():
            raise BackupRefused(f"{to} exists already; nothing is overwritten.")
        to.parent.mkdir(parents=True, exist_ok=True)
        yield draft
        sync(draft)
        _name(draft, to)
        sync(to.parent)
    except FileExistsError:
        raise BackupRefused(f"{to} exists already; nothing is overwritten.") from None
    except OSError as error:
        raise BackupRefused(f"{to} cannot be written: {error.strerror}.") from error
    finally:
        for end in ("", *_WRITE_AHEAD):
            with suppress(OSError):  # of a name that cannot be, which was told already
                Path(f"{draft}{end}").unlink(missing_ok=True)


def _name(draft: Path, to: Path) -> None:
    """Make ``draft`` be ``to`` without replacing what came meanwhile, which a rename would do.

    Raises:
        FileExistsError: something came.
        OSError: the file system refuses.
    """
    try:
        os.link(draft, to)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links: take the name first, then replace our own
        to.touch(exist_ok=False)
        try:
            draft.replace(to)
        except OSError:
            to.unlink()
            raise


def _file(url: URL) -> Path:
    assert url.database is not None
    return Path(url.database.removeprefix("file:"))


def _apart(url: URL) -> tuple[str, str]:
    given = url.query.get("password", "")
    password = url.password or (given if isinstance(given, str) else given[-1])
    plain = url.set(drivername="postgresql")._replace(password=None)
    return plain.difference_update_query(["password"]).render_as_string(), password


def _refuse_unmigrated(url: URL) -> None:
    engine = make_engine(url, reader=True)
    try:
        with engine.connect() as connection:
            if version_of(connection) is None:
                raise BackupRefused(f"This database {_UNMIGRATED}")
    except DBAPIError as error:
        raise explain(error) or error from error
    finally:
        engine.dispose()


def _refuse_tables(url: URL) -> None:
    engine = make_engine(url)
    try:
        if inspect(engine).get_table_names():
            raise BackupRefused("This database has tables already; restore into an empty one.")
    except DBAPIError as error:
        raise explain(error) or error from error
    finally:
        engine.dispose()


def _tool(name: str, url: URL, arguments: Sequence[str]) -> None:
    path = shutil.which(name)
    if path is None:
        raise BackupRefused(f"PostgreSQL is copied by its own {name}, which is not installed here.")
    database, password = _apart(url)
    answer = subprocess.run(
        [path, f"--dbname={database}", *arguments],
        env=os.environ | {"LC_ALL": "C"} | ({"PGPASSWORD": password} if password else {}),
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if answer.returncode:
        raise BackupRefused(f"{name} failed: {_reason(answer.stderr)}")


def _reason(output: str) -> str:
    lines = output.strip().splitlines() or ["no reason given"]
    errors = (line.partition("error: ")[2] for line in lines)
    return next(filter(None, errors), lines[-1])
