"""Changes a database as a hand or a bad disk would, asking no trigger and no foreign key."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

from service.database.engine import make_engine
from service.database.session import Database
from service.maintenance.verify import CheckOutcome, VerificationReport

_TRIGGERS = text("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")


@lru_cache(maxsize=4)
def _engine(url: str) -> Engine:
    """One for all changes of a database: it has compiled what `verify` asks."""
    return make_engine(url, foreign_keys=False)


@contextmanager
def unguarded(database: Database) -> Iterator[Session]:
    """A session in which nothing is refused; all of it is undone at the end."""
    engine = _engine(database.url)
    try:
        with Session(engine) as session:
            if database.kind == "sqlite":
                for name, _ in session.execute(_TRIGGERS).all():
                    run(session, f"DROP TRIGGER {name}")
            else:
                run(session, "SET session_replication_role = replica")
            yield session
    finally:
        engine.dispose()


@contextmanager
def corrupted(database: Database, *statements: str) -> Iterator[Session]:
    """A session that sees what the statements did, with the guards in place again; undone."""
    with unguarded(database) as session:
        sqlite = database.kind == "sqlite"
        with database.reading() as before:
            guards = before.execute(_TRIGGERS).all() if sqlite else []
        for statement in statements:
            run(session, statement)
        for _, made in guards:
            run(session, made)
        if not sqlite:
            run(session, "SET session_replication_role = origin")
        yield session


def run(session: Session, statement: str) -> None:
    """Run a statement that is written for PostgreSQL, on either database."""
    connection = session.connection()
    if connection.dialect.name == "sqlite":
        statement = statement.replace("::json", "")
    connection.exec_driver_sql(statement)


def broken(report: VerificationReport) -> dict[int, str]:
    """What is said of each promise that is not kept."""
    return {
        f.number: "; ".join((f.sentence, *f.others))
        for f in report.findings
        if f.outcome is CheckOutcome.BROKEN
    }
