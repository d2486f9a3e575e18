"""Answers questions that read and compute in a process of its own.

Python lets one thread of a process compute at a time, and a request gives that right away with
each statement that it waits for: beside a thread that computes, it takes ten times as long.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from typing import Protocol, TypeVar

from sqlalchemy.orm import Session

from benchmarks.printable import log_to_stderr
from service.database import Database

T = TypeVar("T")

Question = Callable[[Session], T]
"""What is done in a session that reads; one that goes to another process, and what it gives, must
be picklable."""
_NICENESS = 10
"""Of the other process: where processors are few, requests come first."""
_TRIES = 2


class Ask(Protocol):
    """Answers questions, here or elsewhere."""

    def __call__(self, question: Question[T], /) -> T:
        """Give the answer, or raise what the question raised."""
        ...


class Aside:
    """The other process: started with the first question, and again if it was ended."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._pool: ProcessPoolExecutor | None = None

    def ask(self, question: Question[T]) -> T:
        """Answer a question there; one thread may ask at a time.

        Raises:
            BrokenProcessPool: the process was ended over this question, twice.
        """
        for _ in range(_TRIES - 1):
            try:
                return self._answer(question)
            except BrokenProcessPool:
                self.close()
        return self._answer(question)

    def close(self) -> None:
        """End the process; the next question starts another."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown()

    def _answer(self, question: Question[T]) -> T:
        if self._pool is None:
            # Spawned: a forked process would inherit connections and the locks of other threads.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(1, context, _begin)
        return self._pool.submit(_answered, self._url, question).result()


def _begin() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):  # meant for the service, which ends this process
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_the_service, daemon=True).start()
    os.nice(_NICENESS)
    log_to_stderr()


def _end_with_the_service() -> None:
    """End also when nobody could say so: the service was killed."""
    service = multiprocessing.parent_process()
    if service is not None:
        service.join()
    os._exit(0)


def _answered(url: str, question: Question[T]) -> T:
    return _database_at(url).ask(question)


_database_at = cache(Database)
