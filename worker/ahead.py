"""Processes of a probable next job, which load torch before that job is known.

A gate asks for pair after pair of the same two revisions, a night for case after case of one
revision, and each job begins with fresh processes. Their interpreters and imports take seconds that
need neither the job nor the device. So they are started ahead, load, and wait for their
specification. A process waits for one job, and is ended if one of other code comes or none does:
what measured once never measures again.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Self

from benchmarks.contracts import Case
from benchmarks.cpus import usable_cpus
from worker.child.process import Child, Task
from worker.child.workspace import COMPILED, workspace
from worker.state_dir import Journal
from worker.supervisor import Station
from worker.targets.target import TargetAbsent

log = logging.getLogger(__name__)

SIDES = ("baseline", "contender")
KEPT_S = 20.0
"""Longest wait for the next job; a gate or a night asks for it within a second or two."""
ENOUGH_CPUS = 6
"""With so many beside those of the case's loader, the imports, of one thread each, find processors
that the measurement does not need; with fewer, those of a pair wait until both sides have ended,
and a single process is not started ahead. A lower priority would not do instead, for without
privilege it cannot be given back."""

Tasks = Callable[[Path, Mapping[str, int]], Sequence[Task]]
"""Makes the tasks of a job, in a folder; those of a pair with the descriptors of their socket, by
side."""


class Waiting:
    """The processes of one job; leaving the ``with`` block ends those that did not begin."""

    def __init__(self, tasks: Tasks, start: Callable[[Task], Child]) -> None:
        """Start all.

        Raises:
            OSError: one cannot be started.
            TargetAbsent: its code is not here any more.
        """
        with ExitStack() as undo, ExitStack() as started, ExitStack() as handed_over:
            self.folder = undo.enter_context(workspace())
            pair = zip(SIDES, socket.socketpair(), strict=True)
            self.ends = {name: handed_over.enter_context(end).fileno() for name, end in pair}
            made = sorted(tasks(self.folder, self.ends), key=_name)
            self._awaited = [_process(task) for task in made]
            self._children = {
                _name(task): started.enter_context(start(replace(task, spec=None, ahead=True)))
                for task in made
            }
            self.trees = [child.tree for child in self._children.values()]
            started.pop_all()
            self._undo = undo.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._undo:
            for child in self._children.values():
                child.__exit__()

    def ready(self) -> bool:
        """Return True if all live, and have begun to load."""
        return all(child.waits() for child in self._children.values())

    def fit(self, tasks: Sequence[Task]) -> bool:
        """Return True if all are ready for just these: the same code, environment and folders."""
        return self._awaited == [*map(_process, sorted(tasks, key=_name))] and self.ready()

    def begin(self, task: Task) -> Child:
        """The process that waited for ``task``, which it now knows."""
        self._children[_name(task)].take(task)
        return self._children.pop(_name(task))


def _name(task: Task) -> str:
    return task.folder.name


def _process(task: Task) -> tuple[object, ...]:
    """Whatever of ``task`` cannot be changed any more once its process runs."""
    environment = {name: value for name, value in task.environment.items() if name not in COMPILED}
    fixed = task.command, environment, task.folder, task.place, task.passed_fds, task.hidden
    return (*fixed, task.revision, task.limits.allowance)


class Ahead:
    """Holds the processes that wait, if any, from one job to the next."""

    def __init__(
        self,
        station: Station,
        journal: Journal | None = None,
        wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        """``journal`` knows of the processes after a crash; none are started unless ``wanted``."""
        self._station = station
        self._journal = journal
        self._wanted = wanted
        self._lock = threading.Lock()
        self._waiting: Waiting | None = None
        self._tried = False
        self._expiry = threading.Timer(KEPT_S, self.end)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._expiry.cancel()
        if self._expiry.is_alive():  # it may have begun to end what waits
            self._expiry.join()
        self.end()

    @contextmanager
    def during(self) -> Iterator[None]:
        """While a job runs, what waits does not expire; one that is given up ends it."""
        self._expiry.cancel()
        self._tried = False
        try:
            yield
        except BaseException:
            self.end()
            raise
        self._expiry = threading.Timer(KEPT_S, self.end)
        self._expiry.daemon = True
        self._expiry.start()

    def begin_beside(self, case: Case, tasks: Tasks) -> None:
        """As `begin`, while ``case`` is measured, if that cannot disturb it."""
        cpus = usable_cpus() - int(case.axes.get("workers", "0"))
        if self._station.room_beside and cpus >= ENOUGH_CPUS:
            self.begin(case, tasks)

    def begin(self, case: Case, tasks: Tasks) -> None:
        """Start what the next job of ``case`` will need; once in a job.

        The lead of a gang measures nothing, and its ranks load at once themselves, so nothing is
        started for it.
        The kernel ends them with the thread that calls this: it has to be the one that runs jobs.
        """
        if self._tried or case.is_of_gang or not self._wanted():
            return
        self._tried = True
        try:
            self._waiting = Waiting(tasks, self._station.begun)
            if self._journal is not None:
                self._journal.started_ahead(self._waiting.trees, self._waiting.folder)
        except (OSError, TargetAbsent) as error:  # the next job will tell, if it matters
            log.info("The next job's processes could not be started ahead: %s", error)
            self.end()

    def taken(self) -> Waiting | None:
        """What waits, if anything; from now on it is the caller's."""
        with self._lock:
            waiting, self._waiting = self._waiting, None
        return waiting

    def end(self) -> None:
        """End what waits; nothing of it is left."""
        if waiting := self.taken():
            with waiting:
                pass
        if self._journal is not None:
            with suppress(OSError):
                self._journal.ended_ahead()
