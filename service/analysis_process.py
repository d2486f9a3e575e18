"""Answers questions that read and compute in a process of its own.

Python lets one thread of a process compute at a time, and a request gives that right away with
each statement that it waits for: beside a thread that computes, it takes ten times as long.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from typing import Protocol, TypeVar

from sqlalchemy.orm import Session

from benchmarks.terminal import log_to_stderr
from service.database.session import Database
from service.errors import ProcessEnded

log = logging.getLogger(__name__)
T = TypeVar("T")

Question = Callable[[Session], T]
"""What is done in a session that reads; one that goes to another process, and what it gives, must
be picklable."""
_NICENESS = 10
"""Of the other process: where processors are few, requests come first."""
_TRIES = 2
"""A process may be ended by anybody; over one question, it is not asked of a third one."""
_HERE_S = 60.0
"""How long questions are answered in this process after no other could be had."""
_IDLE_S = 300.0
"""Not asked for so long, the process gives its memory back."""
_NONE_TO_BE_HAD = (BrokenProcessPool, OSError, ImportError, NotImplementedError)
"""It was ended, or cannot be started: no processes or memory are left, or no shared memory is."""


class AnalysisQuestion(Protocol):
    """Answers questions, here or elsewhere."""

    def __call__(self, question: Question[T], /) -> T:
        """Give the answer, or raise what the question raised."""
        ...


class AnalysisProcess:
    """The other process: started with the first question, and again if it was ended.

    One thread asks, and lets it go; any may end it. Where no process can be had, this one answers.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._pool: ProcessPoolExecutor | None = None
        self._asked_s = 0.0
        self._here_until_s = 0.0
        self._ended = False

    def ask(self, question: Question[T]) -> T:
        """Answer a question.

        Raises:
            ProcessEnded: the service ends.
        """
        if time.monotonic() < self._here_until_s:
            return self._database.ask(question)
        for _ in range(_TRIES):
            try:
                return self._answered(question)
            except _NONE_TO_BE_HAD as fault:
                self._close()
                if self._ended:
                    raise ProcessEnded from None
                log.warning("judging has lost its process, or got none: %s", fault)
        log.warning("judging has no process of its own, and does without for a minute")
        self._here_until_s = time.monotonic() + _HERE_S
        return self._database.ask(question)

    def spare(self) -> None:
        """Let the process go if it was not asked for a while."""
        if time.monotonic() - self._asked_s >= _IDLE_S:
            self._close()

    def end(self) -> None:
        """End the process, also over a question."""
        self._ended = True
        for child in multiprocessing.active_children():  # the service has no others
            child.kill()
        self._close()

    def _answered(self, question: Question[T]) -> T:
        if self._ended:
            raise ProcessEnded
        if self._pool is None:
            # Spawned: a forked process would inherit connections and the locks of other threads.
            self._pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _begin)
        self._asked_s = time.monotonic()
        url = self._database.url.render_as_string(hide_password=False)
        return self._pool.submit(_answer, url, question).result()

    def _close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown()


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


def _answer(url: str, question: Question[T]) -> T:
    return _database_at(url).ask(question)


_database_at = cache(Database)
