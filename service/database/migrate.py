"""Brings a database to this version's tables. Configured in code, so an installed wheel can too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError

import migrations
from service.database.engine import make_engine, parse
from service.database.failures import explain
from service.schemas.errors import DatabaseUnavailable, MadeByNewer

_TURN = 7_346_822_310_015
"""Key of the advisory lock that makes replicas migrate one after another."""


def upgrade(url: str) -> None:
    """Apply every migration that the database does not have yet.

    Raises:
        DatabaseUnavailable: it cannot be written or reached.
        MadeByNewer: it has some that this code does not know.
    """
    _run(parse(url), lambda config: command.upgrade(config, "head"))


def downgrade(url: str, version: str) -> None:
    """Undo migrations down to ``version``; ``base`` undoes all."""
    _run(parse(url), lambda config: command.downgrade(config, version))


def configuration(connection: Connection | None = None) -> Config:
    """Alembic's settings, with the connection that migrations run on."""
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


def heads() -> tuple[str, ...]:
    """The versions that this code works with."""
    return tuple(ScriptDirectory.from_config(configuration()).get_heads())


def version_of(connection: Connection) -> str | None:
    """The version that a database is at; None before the first migration."""
    return MigrationContext.configure(connection).get_current_revision()


def refuse_newer(version: str | None) -> None:
    """Make sure that a database at ``version`` is not ahead of this code.

    Raises:
        MadeByNewer: it is; this code knows neither its tables nor the way back.
    """
    scripts = ScriptDirectory.from_config(configuration()).walk_revisions()
    if version is not None and version not in {script.revision for script in scripts}:
        raise MadeByNewer(
            f"The database is at version {version}, which a newer version of Throughline made: "
            "install that one, or restore a backup from before it."
        )


def _run(url: URL, step: Callable[[Config], None]) -> None:
    try:
        _make_folder(url)
        # Rebuilding a SQLite table drops the old one, which must not cascade to its children.
        engine = make_engine(url, foreign_keys=False)
        try:
            with engine.begin() as connection:
                if connection.dialect.name == "postgresql":
                    connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_TURN})")
                refuse_newer(version_of(connection))
                step(configuration(connection))
                _check_foreign_keys(connection)
        finally:
            engine.dispose()
    except DBAPIError as error:
        raise explain(error) or error from error
    except OSError as error:
        raise DatabaseUnavailable(
            f"The database's folder cannot be made ({error.strerror}); choose another with "
            "THROUGHLINE_STATE_DIR."
        ) from error


def _make_folder(url: URL) -> None:
    if url.get_backend_name() == "sqlite" and url.database and not url.query:
        Path(url.database).parent.mkdir(mode=0o700, parents=True, exist_ok=True)


def _check_foreign_keys(connection: Connection) -> None:
    if connection.dialect.name == "sqlite":
        broken = connection.exec_driver_sql("PRAGMA foreign_key_check").fetchall()
        assert not broken, f"a migration left rows without their parents: {broken[:3]}"
