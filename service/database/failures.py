"""Meanings of the database driver's errors."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from service.schemas import errors

MIGRATE = "run: throughline migrate"
ADDRESS = "check its address (THROUGHLINE_DATABASE_URL)"
READ_ONLY = "The database is read-only; make its file and folder writable, then try again."

_FAULTS: Sequence[tuple[tuple[str, ...], errors.ServiceError]] = (
    (
        ("no such table", "no such column", "undefinedtable"),
        errors.NotMigrated(f"Not migrated; {MIGRATE}"),
    ),
    (("readonly", "read-only"), errors.DatabaseUnavailable(READ_ONLY)),
    (("locked", "busy"), errors.DatabaseUnavailable(errors.BUSY)),
    (
        ("disk is full", "disk full", "diskfull", "no space left on device"),
        errors.DatabaseUnavailable("The database's disk is full; free space."),
    ),
    (
        ("disk i/o error",),
        errors.DatabaseUnavailable(
            "The database's disk fails, or a limit of its size is reached; look at it."
        ),
    ),
    (
        ("deadlock", "serializ"),
        errors.DatabaseUnavailable("Two requests met in the database; try again in a moment."),
    ),
    (
        ("insufficientprivilege",),
        errors.DatabaseUnavailable(
            "The database's role lacks rights: let it create tables there, and own them."
        ),
    ),
    (
        ("file is not a database",),
        errors.DatabaseUnavailable(
            f"The database's file is no SQLite database; {ADDRESS}, or move the file away."
        ),
    ),
    (
        ("unable to open database file",),
        errors.DatabaseUnavailable(
            "The database's file cannot be opened; let the service's user read and write it and "
            "its folder."
        ),
    ),
)

_REFUSALS: Sequence[tuple[re.Pattern[str], str]] = (
    (re.compile(r'database ".*" does not exist'), f"has no such database; create it, or {ADDRESS}"),
    (re.compile(r'role ".*" does not exist'), f"knows no such role; create it, or {ADDRESS}"),
    (
        re.compile(r"authentication failed|no password supplied|pg_hba|not permitted to log in"),
        f"does not let this role in; {ADDRESS}, with role and password",
    ),
    (
        re.compile(r"starting up|shutting down|recovery mode|not yet accepting"),
        "starts or stops; try again in a moment",
    ),
    (re.compile(r"too many|connection slots"), "has no connection left; raise max_connections"),
    (re.compile(r"FATAL:"), "refuses the connection; its log says why"),
)
"""PostgreSQL's connection errors, with messages without names: anyone can read them."""


def explain(error: DBAPIError) -> errors.ServiceError | None:
    """Say in one sentence what is wrong with the database; None if the fault is ours."""
    if isinstance(error, DataError | IntegrityError):  # whatever words the data themselves hold
        return None
    said = f"{type(error.orig).__name__} {error.orig}".lower()
    for words, meaning in _FAULTS:
        if any(word in said for word in words):
            return meaning
    if error.connection_invalidated or type(error).__name__ in (
        "OperationalError",
        "InterfaceError",
    ):
        return errors.DatabaseUnavailable(_away(str(error.orig)))
    return None


def _away(said: str) -> str:
    for words, sentence in _REFUSALS:
        if words.search(said):
            return f"The database server {sentence}."
    return "The database cannot be reached; check that it runs."


def passes(error: Exception) -> bool:
    """Return True if an error passes, so that the same work may succeed later.

    It passes if database or service are away, or if another was faster. Anything else, such as a
    value that the database does not take, comes again with the same data, and must cost whoever
    brought it and nobody else.
    """
    if isinstance(error, DBAPIError):
        taken = isinstance(error, IntegrityError) and "unique" in str(error.orig).lower()
        return taken or explain(error) is not None
    return isinstance(error, errors.DatabaseUnavailable | errors.Conflict | PoolTimeout)
