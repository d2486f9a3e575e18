"""Work that a request wants done in a session, and what came of it.

Several errands may share one transaction, and so one wait for the disk; each is undone alone if it
fails. None is answered before the transaction is committed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar, cast

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from service.errors import BUSY, DatabaseUnavailable

T = TypeVar("T")


class Errand(Generic[T]):
    """One request's work; it waits until somebody takes it."""

    def __init__(self, work: Callable[[Session], T]) -> None:
        self.over = False
        """Whether its transaction has ended: before, nobody may be told what came of it."""
        self._work = work
        self._done: T | None = None
        self._fault: Exception | None = None

    def do(self, session: Session, commit: Callable[[Session], None]) -> None:
        """Do the work and keep what came of it; a fault undoes what was done in ``session``."""
        try:
            self._done = self._work(session)
            commit(session)
        except Exception as fault:
            session.rollback()
            self._fault = fault

    def fail(self, fault: Exception) -> None:
        """Note that nothing came of it."""
        self._fault = fault

    def outcome(self) -> T:
        """Return what the work gave, or raise its fault.

        Raises:
            DatabaseUnavailable: whoever took it was stopped, and what became of it is not known.
        """
        if not self.over:
            raise DatabaseUnavailable(BUSY)
        if self._fault is not None:
            raise self._fault
        return cast(T, self._done)


def do_together(engine: Engine, errands: Sequence[Errand[Any]]) -> None:
    """Do errands one after the other in one transaction, each in a savepoint of its own."""
    try:
        with engine.connect() as connection, connection.begin():
            for errand in errands:
                # Its own session, so that none sees what another has read.
                with Session(
                    connection, expire_on_commit=False, join_transaction_mode="create_savepoint"
                ) as session:
                    errand.do(session, Session.commit)
    except Exception as fault:  # not one of theirs: the database is away, or its disk is full
        for errand in errands:
            errand.fail(fault)
    for errand in errands:
        errand.over = True


def do_alone(session: Session, errand: Errand[Any], commit: Callable[[Session], None]) -> None:
    """Do one errand in a transaction of its own."""
    with session:
        errand.do(session, commit)
    errand.over = True
