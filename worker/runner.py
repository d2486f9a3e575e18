"""Runs one job: a fresh process that measures one replicate of a case, and its Result."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import inf
from pathlib import Path

from pydantic import ValidationError

from benchmarks.contracts import (
    Canary,
    Id,
    JobSpec,
    ProcessSpec,
    Progress,
    Rejected,
    Result,
    Status,
)
from benchmarks.diagnosis.disturbances import THROTTLED as HELD_BACK
from benchmarks.diagnosis.merge import merge
from benchmarks.exits import NO_DEVICE
from worker.child.process import Ending, Exit, Task
from worker.child.target import Target, TargetAbsent, refused, target_of
from worker.child.workspace import Caches, environment_in, workspace
from worker.device import canary, usable
from worker.device.canary import NodeHistory
from worker.device.telemetry import attach, flagged
from worker.device.usable import Unusable
from worker.outbox import trace
from worker.result_builder import (
    REFUSED,
    Run,
    computed,
    last_line,
    last_words,
    result_of,
    sendable,
    without_numbers,
)
from worker.settings import Settings
from worker.supervisor import Interrupted, Station, Watch

log = logging.getLogger(__name__)

ROOM_FOR_ANOTHER = 1.5
"""A replicate is only repeated if the job has this many times its duration left."""


@dataclass(frozen=True)
class Local:
    """Options of a person who measures here, beside the job's own."""

    caches: Path | None = None
    """The folder that keeps compiled code from one job to the next."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """On top of what every child gets."""
    seed: int = 0
    """Of the first replicate; each further one adds one."""
    trace: Path | None = None
    """The file in which the process keeps the profiler's trace."""
    beat: tuple[float, float] | None = None
    """As `ProcessSpec.beat`."""
    until_s: float = inf
    """When every process is to be gone, on CLOCK_MONOTONIC."""


NO_WISHES = Local()


@dataclass(frozen=True)
class _Launch:
    """The values that stay the same when a process is repeated."""

    spec: JobSpec
    target: Target
    folder: Path
    until_s: float
    watch: Watch
    first_c: float | None
    """The device's temperature before the first process."""
    caches: Path | None
    """Where compiled code is kept, if other replicates of the case need it."""
    local: Local


class Runner:
    """Runs jobs at one station."""

    def __init__(self, settings: Settings, station: Station) -> None:
        self._settings = settings
        self.station = station
        self._node = NodeHistory(settings.folder, settings.canary_every_s)
        self._caches = Caches(settings.folder / "caches")

    def run(
        self, spec: JobSpec, watch: Watch, group: Id | None = None, local: Local = NO_WISHES
    ) -> Result:
        """Measure ``spec``; no process of any child is left when this returns or raises.

        Args:
            spec: one replicate of a case.
            watch: may stop it.
            group: of the case's replicates, which share what they compile.
            local: the wishes of a person, for a job of no service.

        Raises:
            Interrupted: ``watch`` gave a cause.
            Unusable: the device cannot be used for any job.
        """
        if refusal := refused(spec.case.workload, self._settings.allowed_models):
            return without_numbers(spec, Status.UNSUPPORTED, refusal)
        until_s = min(time.monotonic() + spec.timeout_s, local.until_s)
        first_c = self.station.device.temperature_c()
        try:
            target = target_of(self._settings, spec.revision)
            with workspace() as folder, self._caches.of(group, spec) as kept:
                caches = local.caches or kept
                launch = _Launch(spec, target, folder, until_s, watch, first_c, caches, local)
                node = self._node.now(lambda: self._canary(launch))
                result, rejected = self._unthrottled(launch)
        except TargetAbsent as absent:
            return without_numbers(spec, Status.INFRA_ERROR, str(absent))
        except OSError as error:
            sentence = f"This worker could not run the job: {error}. Check its disk and settings."
            return without_numbers(spec, Status.INFRA_ERROR, sentence)
        run = self._run_of(spec)
        return sendable(run, lambda: with_conditions(merge([result]), rejected, node))

    def _unthrottled(self, launch: _Launch) -> tuple[Result, list[Rejected]]:
        """The result of the first process during which the device did not throttle, else the last
        one's."""
        rejected: list[Rejected] = []
        for retries_left in range(self._settings.throttle_retries, -1, -1):
            began_s = time.monotonic()
            result = self._measured(launch)
            again_until_s = time.monotonic() + ROOM_FOR_ANOTHER * (time.monotonic() - began_s)
            if not held_back(result) or not retries_left or again_until_s > launch.until_s:
                break
            log.warning("The device held itself back during a replicate: measuring it again.")
            if self._await_free(launch, self._settings.throttle_cool_s):
                break
            rate = result.replicates[-1].full.rate
            number = launch.spec.replicate
            rejected.append(Rejected(replicate=number, reasons=(HELD_BACK,), rate=rate))
        return result, rejected

    def _measured(self, launch: _Launch) -> Result:
        """One child's result; its trace, if one is wanted, goes to the watch."""
        if not launch.spec.protocol.trace:
            return self._one(launch)
        with trace.place(launch.folder) as place:
            result = self._one(launch, place.file)
            body, absent = place.take(result)
        launch.watch.keep(body)
        return trace.with_trace_outcome(result, absent)

    def _one(self, launch: _Launch, trace_file: Path | None = None) -> Result:
        run, watch, target = self._run_of(launch.spec), launch.watch, launch.target
        flags = self.station.device.await_idle(_goes_on(watch))
        environment = environment_in(launch.folder, self._settings, launch.caches)
        environment = target.environment(environment)
        environment |= launch.local.environment
        limits = self.station.limits(launch.until_s)
        spec = self._spec(launch, trace_file)
        task = Task(target.command, environment, launch.folder, target.folder, limits, spec)
        outcome = self.station.supervise(task, watch, _numbered(watch.tell, launch.spec))
        if outcome.ending is Ending.EXITED and outcome.left.code in (NO_DEVICE, REFUSED):
            self._insist_on_device(outcome.left, watch)
        result = result_of(run, outcome.ending, outcome.left, limits, outcome.last)
        return computed(run, lambda: flagged(attach(result, outcome.readings), flags))

    def _insist_on_device(self, left: Exit, watch: Watch) -> None:
        """Give the job up if the device cannot be used.

        A refused case is checked as well: an old revision has no exit code for a lost device and
        refuses the case.
        """
        why = usable.obstacle(self._settings, _goes_on(watch))
        if cause := watch.cause():
            raise Interrupted(cause)
        if why is None and left.code == NO_DEVICE:
            why = last_words(left.stderr)
        if why:
            raise Unusable(why)

    def _await_free(self, launch: _Launch, limit_s: float) -> str:
        return self.station.await_free(launch.first_c, limit_s, _goes_on(launch.watch))

    def _canary(self, launch: _Launch) -> Canary | None:
        """Measure what the node can do now; None, with a word in the log, if it does not tell."""
        command = [self._settings.python, *canary.ARGUMENTS, "--device", self._settings.device]
        limits = self.station.limits(min(launch.until_s, time.monotonic() + canary.LIMIT_S))
        environment = environment_in(launch.folder, self._settings)
        task = Task(command, environment, launch.folder, None, limits)
        outcome = self.station.supervise(task, launch.watch, launch.watch.tell)
        self._await_free(launch, self._settings.cool_limit_s)
        if outcome.ending is Ending.EXITED and outcome.left.code == 0:
            with suppress(ValidationError):
                return Canary.model_validate_json(last_line(outcome.left.stdout.kept))
        log.warning("The node's canary gave no reading: %s.", outcome.ending)
        return None

    def _run_of(self, spec: JobSpec) -> Run:
        return Run(spec, datetime.now(UTC), self._settings.log_tail_b)

    def _spec(self, launch: _Launch, trace_file: Path | None) -> ProcessSpec:
        """The process's specification; equal replicates of all cases have the same seed."""
        root = self._settings.data_root
        return ProcessSpec(
            case=launch.spec.case,
            protocol=launch.spec.protocol,
            seed=launch.local.seed + launch.spec.replicate - 1,
            device=self._settings.device,
            data_root=root.expanduser().absolute() if root else None,
            trace=launch.local.trace or trace_file,
            beat=launch.local.beat,
        )


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


def _goes_on(watch: Watch) -> Callable[[], bool]:
    return lambda: watch.cause() is None


def _numbered(tell: Callable[[Progress], None], spec: JobSpec) -> Callable[[Progress], None]:
    place = {"replicate": spec.replicate, "replicates": spec.protocol.replicates}
    return lambda progress: tell(progress.model_copy(update=place))
