"""Runs one job: its replicates one after another, each in a fresh process, merged into a Result."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from benchmarks.contracts import Canary, JobSpec, ProcessSpec, Progress, Rejected, Result, Status
from benchmarks.diagnosis.disturbances import THROTTLED as HELD_BACK
from benchmarks.diagnosis.merge import merge
from benchmarks.exits import NO_DEVICE
from worker.child.compile_cache import Caches, Turn
from worker.child.process import Ending, Exit, Task
from worker.child.target import Target, TargetAbsent, refused, target_of
from worker.child.workspace import environment_in, workspace
from worker.device import canary, usable
from worker.device.canary import NodeHistory
from worker.device.telemetry import attach, flagged
from worker.device.usable import Unusable
from worker.outbox import trace
from worker.result_builder import (
    REFUSED,
    Run,
    failure,
    judge,
    last_line,
    last_words,
    whole,
    without_numbers,
)
from worker.settings import Settings
from worker.supervisor import Interrupted, Station, Watch, listed

log = logging.getLogger(__name__)

ROOM_FOR_ANOTHER = 1.5
"""A replicate is measured again only if so many times its own duration is left for the job."""


@dataclass(frozen=True)
class Job:
    """The values that stay the same over a job's replicates."""

    spec: JobSpec
    target: Target
    folder: Path
    until_s: float
    watch: Watch
    first_c: float | None
    """The device's temperature before the first replicate."""
    caches: Path | None
    """Where compiled code is kept, if other replicates of the case need it."""
    measured: int
    """Replicates of the case that earlier jobs have measured."""
    local: Local | None


@dataclass(frozen=True)
class Local:
    """The wishes of a person who measures here, beside what the job says."""

    caches: Path
    """Where compiled code is kept from one job to the next."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """On top of what every child gets."""
    seed: int = 0
    """Of the first process; each further one adds one."""
    trace: Path | None = None
    """The file in which the first process keeps the profiler's trace."""
    beat: tuple[float, float] | None = None
    """As `ProcessSpec.beat`."""


class Runner:
    """Runs jobs at one station."""

    def __init__(self, settings: Settings, station: Station) -> None:
        self._settings = settings
        self.station = station
        self._node = NodeHistory(settings.folder, settings.canary_every_s)
        self._caches = Caches(settings.folder / "caches")

    def run(
        self,
        spec: JobSpec,
        watch: Watch,
        turn: Turn | None = None,
        local: Local | None = None,
    ) -> Result:
        """Measure ``spec``; no process of any child is left when this returns or raises.

        With ``turn`` it measures that one replicate of a case; the others are jobs of their own.
        ``local`` is for a job of no service.

        Raises:
            Interrupted: ``watch`` gave a cause.
            Unusable: the device cannot be used for any job.
        """
        if refusal := refused(spec.case.workload, self._settings.allowed_models):
            return without_numbers(spec, Status.UNSUPPORTED, refusal)
        until_s = time.monotonic() + spec.timeout_s
        results: list[Result] = []
        rejected: list[Rejected] = []
        node: Canary | None = None
        measured = turn.measured if turn else 0
        first_c = self.station.device.temperature_c()
        try:
            target = target_of(self._settings, spec.revision)
            with workspace() as folder, self._caches.of(turn) as kept:
                caches = local.caches if local else kept
                job = Job(spec, target, folder, until_s, watch, first_c, caches, measured, local)
                node = self._node.now(lambda: self._canary(job))
                while len(results) < (1 if turn else spec.protocol.replicates):
                    results.append(self._replicate(job, results, rejected))
                    if results[-1].status is not Status.OK:
                        break
        except TargetAbsent as absent:
            run = self._run_of(spec, results, measured)
            results.append(failure(run, Status.INFRA_ERROR, str(absent)))
        except OSError as error:
            sentence = f"This worker could not run the job: {error}. Check its disk and settings."
            run = self._run_of(spec, results, measured)
            results.append(failure(run, Status.INFRA_ERROR, sentence))
        run = self._run_of(spec, results, measured)
        return whole(run, lambda: with_conditions(merge(results), rejected, node))

    def _replicate(self, job: Job, results: list[Result], rejected: list[Rejected]) -> Result:
        """The next replicate, measured again if the device held itself back meanwhile."""
        run = self._run_of(job.spec, results, job.measured)
        if results and (left := self._occupied(job, self._settings.cool_limit_s)):
            return failure(run, Status.INFRA_ERROR, left)
        for retries_left in range(self._settings.throttle_retries, -1, -1):
            began_s = time.monotonic()
            result = self._measured(job, run)
            again_until_s = time.monotonic() + ROOM_FOR_ANOTHER * (time.monotonic() - began_s)
            if not held_back(result) or not retries_left or again_until_s > job.until_s:
                break
            log.warning("The device held itself back during a replicate: measuring it again.")
            if self._occupied(job, self._settings.throttle_cool_s):
                break
            rate = result.replicates[-1].full.rate
            rejected.append(Rejected(replicate=run.replicate, reasons=(HELD_BACK,), rate=rate))
        return result

    def _measured(self, job: Job, run: Run) -> Result:
        """One child's result, and with that of the first one the trace if one is wanted."""
        if not job.spec.protocol.of_replicate(run.replicate).trace:
            return self._one(job, run)
        with trace.place(job.folder) as place:
            result = self._one(job, run, place.file)
            body, absent = place.take(result)
        job.watch.keep(body)
        return trace.told(result, absent)

    def _one(self, job: Job, run: Run, trace_file: Path | None = None) -> Result:
        flags = self.station.device.await_idle(_goes_on(job.watch))
        environment = environment_in(job.folder, self._settings, job.caches)
        environment = job.target.environment(environment)
        environment |= job.local.environment if job.local else {}
        limits = self.station.limits(job.until_s)
        spec = self._spec(job, run.replicate, trace_file)
        target = job.target
        task = Task(target.command, environment, job.folder, target.folder, limits, spec)
        outcome = self.station.supervise(task, job.watch, _numbered(job.watch.tell, run))
        if outcome.ending is Ending.EXITED and outcome.left.code in (NO_DEVICE, REFUSED):
            self._insist_on_device(outcome.left, job.watch)
        result = judge(run, outcome.ending, outcome.left, limits, outcome.last)
        return whole(run, lambda: flagged(attach(result, outcome.readings), flags))

    def _insist_on_device(self, left: Exit, watch: Watch) -> None:
        """Give the job up unless the device can be used, and only the child could not.

        A refused case is doubted as well: a revision that knows no exit code for a device that has
        gone says it so.

        Raises:
            Unusable: it cannot, or the child says so and nobody else can tell.
            Interrupted: ``watch`` gave a cause meanwhile.
        """
        why = usable.obstacle(self._settings, _goes_on(watch))
        if cause := watch.cause():
            raise Interrupted(cause)
        if why is None and left.code == NO_DEVICE:
            why = last_words(left.stderr)
        if why:
            raise Unusable(why)

    def _occupied(self, job: Job, limit_s: float) -> str:
        """Let the device cool; a sentence if processes of the last child do not leave it."""
        goes_on = _goes_on(job.watch)
        self.station.device.cool(job.first_c, limit_s, goes_on)
        pids = self.station.device.remaining(goes_on)
        if not pids:
            return ""
        return (
            f"Processes {listed(pids)} of the last replicate hold the device, and the next one "
            "would measure beside them: see whether the driver is stuck."
        )

    def _canary(self, job: Job) -> Canary | None:
        """Measure what the node can do now; None, with a word in the log, if it does not tell."""
        command = [self._settings.python, *canary.ARGUMENTS, "--device", self._settings.device]
        limits = self.station.limits(min(job.until_s, time.monotonic() + canary.LIMIT_S))
        environment = environment_in(job.folder, self._settings)
        task = Task(command, environment, job.folder, None, limits)
        outcome = self.station.supervise(task, job.watch, job.watch.tell)
        self._occupied(job, self._settings.cool_limit_s)
        if outcome.ending is Ending.EXITED and outcome.left.code == 0:
            with suppress(ValidationError):
                return Canary.model_validate_json(last_line(outcome.left.stdout.kept))
        log.warning("The node's canary gave no reading: %s.", outcome.ending)
        return None

    def _run_of(self, spec: JobSpec, results: Sequence[Result], measured: int) -> Run:
        earlier = results[-1] if results else None
        at = datetime.now(UTC)
        return Run(spec, measured + len(results) + 1, earlier, at, self._settings.log_tail_b)

    def _spec(self, job: Job, replicate: int, trace_file: Path | None) -> ProcessSpec:
        """The same replicate of every case has the same seed, so that cases stay comparable."""
        root = self._settings.data_root
        local = job.local or Local(job.folder)
        return ProcessSpec(
            case=job.spec.case,
            protocol=job.spec.protocol.of_replicate(replicate),
            seed=local.seed + replicate - 1,
            device=self._settings.device,
            data_root=root.expanduser().absolute() if root else None,
            trace=local.trace if local.trace and replicate == 1 else trace_file,
            beat=local.beat,
        )


def held_back(result: Result) -> bool:
    """Return True if the device was slower than it can be while ``result`` was measured."""
    return any(HELD_BACK in replicate.flags for replicate in result.replicates)


def with_conditions(result: Result, rejected: Sequence[Rejected], node: Canary | None) -> Result:
    """``result`` with what is to be said of the conditions under which it came to be."""
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


def _numbered(tell: Callable[[Progress], None], run: Run) -> Callable[[Progress], None]:
    place = {"replicate": run.replicate, "replicates": run.spec.protocol.replicates}
    return lambda progress: tell(progress.model_copy(update=place))
