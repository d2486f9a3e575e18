"""Measures one revision by itself: a process of a case, again while the device throttles."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from pydantic import ValidationError

from benchmarks.contracts import Canary, DuetSide, JobSpec, Progress, Rejected, Result
from benchmarks.diagnosis.disturbances import THROTTLED as HELD_BACK
from benchmarks.diagnosis.merge import merge
from benchmarks.exits import NO_DEVICE
from worker.ahead import Ahead
from worker.child import bytecode
from worker.child.process import Child, Ending, Exit, Task
from worker.child.workspace import environment_in
from worker.device import canary, usable
from worker.device.canary import NodeHistory
from worker.device.telemetry import attach, flagged
from worker.device.usable import Unusable
from worker.launch import Launch
from worker.outbox import trace
from worker.result_builder import REFUSED, Run, computed, last_line, last_words, result_of
from worker.settings import Settings
from worker.supervisor import Interrupted, Outcome, Station, Watch

log = logging.getLogger(__name__)

ROOM_FOR_ANOTHER = 1.5
"""A replicate is only repeated if the job has this many times its duration left."""
_WARM_UP = "warmup"
"""The phase in which the next job's process may load: before it a compiler may need all processors,
and what follows is timed."""
_ALONE = "alone"


class Alone:
    """Measures one revision at a time at one station."""

    def __init__(self, settings: Settings, station: Station, ahead: Ahead) -> None:
        self._settings = settings
        self.station = station
        self._ahead = ahead
        self._node = NodeHistory(settings.folder, settings.canary_every_s)

    def measure(self, launch: Launch) -> Callable[[], Result]:
        """Measure one revision; returns what makes the job's Result of it."""
        node = self._node.now(lambda: self._canary(launch))
        result, rejected = self.unthrottled(launch, self._next_begins(launch))
        # Merging concludes, and a verdict holds the case against the rates that the canary tells.
        return lambda: merge([with_conditions(result, rejected, node)])

    def unthrottled(
        self, launch: Launch, while_warming: Callable[[], None] = lambda: None
    ) -> tuple[Result, list[Rejected]]:
        """The result of the first process during which the device did not throttle, else the last
        one's; ``while_warming`` is called, again and again, while a process warms up."""
        rejected: list[Rejected] = []
        for retries_left in range(self._settings.throttle_retries, -1, -1):
            began_s = time.monotonic()
            result = self._measured(launch, while_warming)
            again_until_s = time.monotonic() + ROOM_FOR_ANOTHER * (time.monotonic() - began_s)
            if not held_back(result) or not retries_left or again_until_s > launch.until_s:
                break
            log.warning("The device held itself back during a replicate: measuring it again.")
            if self.await_free(launch, self._settings.throttle_cool_s):
                break
            rate = result.replicates[-1].full.rate
            number = launch.spec.replicate
            rejected.append(Rejected(replicate=number, reasons=(HELD_BACK,), rate=rate))
        return result, rejected

    def _measured(self, launch: Launch, while_warming: Callable[[], None]) -> Result:
        """One child's result; its trace, if one is wanted, goes to the watch."""
        if not launch.spec.protocol.trace:
            return self._one(launch, while_warming)
        with trace.place(launch.folder) as place:
            result = self._one(launch, while_warming, place.file)
            body, absent = place.take(result)
        launch.watch.keep(body)
        return trace.with_trace_outcome(result, absent)

    def _one(
        self, launch: Launch, while_warming: Callable[[], None], trace_file: Path | None = None
    ) -> Result:
        flags = self.station.device.await_idle(goes_on(launch.watch), launch.spec.case.gpus)
        numbered = _numbered(launch.watch.tell, launch.spec)

        def tell(progress: Progress) -> None:
            numbered(progress)
            if progress.phase == _WARM_UP:
                while_warming()

        with self._seated(launch, trace_file) as (task, begin):
            outcome = self.station.supervise(task, launch.watch, tell, begin)
        if outcome.ending is Ending.EXITED and outcome.left.code in (NO_DEVICE, REFUSED):
            self._insist_on_device(outcome.left, launch.watch)
        return self.read(launch, task, outcome, flags)

    @contextmanager
    def _seated(
        self, launch: Launch, trace_file: Path | None
    ) -> Iterator[tuple[Task, Callable[[Task], Child]]]:
        """The task, and how it begins: in the process that waits for it, or in a fresh one.

        The lead of a gang measures nothing: it takes none.
        """
        waiting = None if launch.spec.case.is_of_gang else self._ahead.taken()
        if waiting is not None:
            with waiting:
                there = replace(launch, folder=waiting.folder / _ALONE)
                task = self.task(there, trace_file=trace_file)
                if waiting.fit([task]):
                    yield task, waiting.begin
                    return
        self._ahead.end()
        yield self.task(launch, trace_file=trace_file), self.station.begun

    def _next_begins(self, launch: Launch) -> Callable[[], None]:
        """Return what starts the process of a next job of this revision, if it can disturb nothing.

        Bytecode that is kept for a case is no use to the next one.
        """
        if bytecode.lost() is not None:
            return lambda: None

        def tasks(folder: Path, ends: Mapping[str, int]) -> list[Task]:  # noqa: ARG001
            return [self.task(replace(launch, folder=folder / _ALONE))]

        return partial(self._ahead.begin_beside, launch.spec.case, tasks)

    def task(
        self, launch: Launch, duet: DuetSide | None = None, trace_file: Path | None = None
    ) -> Task:
        """What a process of ``launch`` is started with."""
        environment = environment_in(launch.folder, self._settings, launch.caches)
        environment = launch.target.environment(environment)
        environment |= launch.local.environment
        return Task(
            launch.target.command,
            environment,
            launch.folder,
            launch.target.folder,
            self.station.limits(launch.until_s),
            launch.process(self._settings, trace_file, duet),
            () if duet is None else (duet.socket_fd,),
            revision=launch.spec.revision,
        )

    def read(self, launch: Launch, task: Task, outcome: Outcome, flags: Sequence[str]) -> Result:
        """The result of a process that has ended, with what the device told meanwhile."""
        run = run_of(launch.spec, self._settings)
        result = result_of(run, outcome.ending, outcome.left, task.limits, outcome.last)
        return computed(run, lambda: flagged(attach(result, outcome.readings), flags))

    def _insist_on_device(self, left: Exit, watch: Watch) -> None:
        """Give the job up if the device cannot be used.

        A refused case is checked as well: an old revision has no exit code for a lost device and
        refuses the case.
        """
        why = usable.obstacle(self._settings, goes_on(watch))
        if cause := watch.cause():
            raise Interrupted(cause)
        if why is None and left.code == NO_DEVICE:
            why = last_words(left.stderr)
        if why:
            raise Unusable(why)

    def await_free(self, launch: Launch, limit_s: float) -> str:
        """As the station's, down to the temperature before the job."""
        return self.station.await_free(launch.first_c, limit_s, goes_on(launch.watch))

    def _canary(self, launch: Launch) -> Canary | None:
        """Measure what the node can do now; None, with a word in the log, if it does not tell."""
        device, *others = self._settings.devices
        command = [self._settings.python, *canary.ARGUMENTS, "--device", device]
        command += ["--beside", *others] if others else []
        limits = self.station.limits(min(launch.until_s, time.monotonic() + canary.LIMIT_S))
        environment = dict(environment_in(launch.folder, self._settings))
        environment |= launch.local.environment
        task = Task(command, environment, launch.folder, None, limits)
        outcome = self.station.supervise(task, launch.watch, launch.watch.tell)
        self.await_free(launch, self._settings.cool_limit_s)
        if outcome.ending is Ending.EXITED and outcome.left.code == 0:
            with suppress(ValidationError):
                return Canary.model_validate_json(last_line(outcome.left.stdout.kept))
        log.warning("The node's canary gave no reading: %s.", outcome.ending)
        return None


def held_back(result: Result) -> bool:
    """Return True if the device was slower than it can be while ``result`` was measured."""
    return any(HELD_BACK in replicate.flags for replicate in result.replicates)


def with_conditions(result: Result, rejected: Sequence[Rejected], node: Canary | None) -> Result:
    """``result`` with the conditions of its measurement."""
    flags = ("node_drift",) if node is not None and node.moved else ()
    return result.model_copy(
        update={
            "rejected": tuple(rejected),
            "canary": node,
            "flags": tuple(dict.fromkeys((*result.flags, *flags))),
        }
    )


def run_of(spec: JobSpec, settings: Settings) -> Run:
    """The run of ``spec`` that begins now."""
    return Run(spec, datetime.now(UTC), settings.log_tail_b)


def goes_on(watch: Watch) -> Callable[[], bool]:
    """What says whether to wait any longer: until ``watch`` has a cause to stop."""
    return lambda: watch.cause() is None


def _numbered(tell: Callable[[Progress], None], spec: JobSpec) -> Callable[[Progress], None]:
    place = {"replicate": spec.replicate, "replicates": spec.protocol.replicates}
    return lambda progress: tell(progress.model_copy(update=place))
