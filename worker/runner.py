"""Runs one job: its replicates one after another, each in a fresh process, merged into a Result."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from benchmarks.contracts import JobSpec, Progress, Result, Status
from benchmarks.merge import merge
from worker.child import Child, Ending, Exit, Limits
from worker.consumption import Allowance, Excess
from worker.containment import Containment, guarded
from worker.heartbeat import Cause
from worker.nvml import Gauge
from worker.occupancy import Occupancy
from worker.outcome import Run, failure, judge
from worker.processes import Process, Tree
from worker.settings import Settings
from worker.target import Target, TargetAbsent, target_of
from worker.telemetry import Sampler, attach
from worker.workspace import environment_in, workspace

log = logging.getLogger(__name__)

COOL_LOOK_S = 0.25
VACANCY_LOOK_S = 0.1
TASKS_PER_PROCESS = 8
"""Threads count as tasks too; the limit is there to end a fork bomb, not to save."""


class Interrupted(Exception):
    """The child was ended before its time; there is no result."""

    def __init__(self, cause: Cause) -> None:
        super().__init__(cause.value)
        self.cause = cause


class Watch(Protocol):
    """What the runner asks and tells while a child runs."""

    def cause(self) -> Cause | None:
        """Why to stop, if there is a reason."""

    def left_s(self) -> float:
        """Time within which every process must be gone, in s."""

    def tell(self, progress: Progress) -> None:
        """Take note of where the child is."""


class Runner:
    """Starts and supervises children on one device."""

    def __init__(
        self,
        settings: Settings,
        containment: Containment,
        gauge: Gauge | None = None,
        started: Callable[[Tree, Path], None] = lambda tree, folder: None,  # noqa: ARG005
    ) -> None:
        """``started`` is told of every child, and of the folder to remove, as soon as it runs."""
        self._settings = settings
        self._containment = containment
        self.occupancy = Occupancy(gauge)
        self._gauge = gauge
        self._started = started
        self.survivors: tuple[Process, ...] = ()
        """Processes of the last child that did not die; the next job has to wait for them."""

    def run(self, spec: JobSpec, watch: Watch) -> Result:
        """Measure ``spec``; no process of any child is left when this returns or raises.

        Raises:
            Interrupted: ``watch`` gave a cause.
        """
        until_s = time.monotonic() + spec.timeout_s
        results: list[Result] = []
        first_c = self._temperature_c()
        try:
            target = target_of(self._settings, spec.revision)
            with workspace() as folder:
                while len(results) < spec.protocol.replicates:
                    if results:
                        self._cool(first_c, watch)
                        if left := self._remaining(watch):
                            run = self._run_of(spec, results)
                            results.append(failure(run, Status.INFRA_ERROR, _occupied(left)))
                            break
                    if cause := watch.cause():
                        raise Interrupted(cause)
                    results.append(self._replicate(spec, results, target, folder, until_s, watch))
                    if results[-1].status is not Status.OK:
                        break
        except TargetAbsent as absent:
            run = self._run_of(spec, results)
            results.append(failure(run, Status.INFRA_ERROR, str(absent)))
        except OSError as error:
            sentence = f"This worker could not run the job: {error}. Check its disk and settings."
            run = self._run_of(spec, results)
            results.append(failure(run, Status.INFRA_ERROR, sentence))
        return merge(results)

    def _replicate(
        self,
        spec: JobSpec,
        results: list[Result],
        target: Target,
        folder: Path,
        until_s: float,
        watch: Watch,
    ) -> Result:
        run = self._run_of(spec, results)
        limits = self._limits(until_s)
        mark = uuid.uuid4().hex
        tasks = TASKS_PER_PROCESS * limits.allowance.processes
        own = [*target.command, *self._arguments(spec, run.replicate)]
        command = [*guarded(self._containment, tasks), *own]
        sampler = self._sampler()
        environment = target.environment(environment_in(folder, self._settings))
        with (
            sampler or nullcontext(),
            Child(command, environment, folder, mark, limits, target.folder) as child,
        ):
            self._started(child.tree, folder)
            self.occupancy.expect(child.tree)
            if sampler is not None:
                sampler.start()
            ending = child.watch(watch.cause, _numbered(watch.tell, run))
            left = self._end(child, ending, watch)
        if isinstance(ending, Cause):
            raise Interrupted(ending)
        result = judge(run, ending, left, limits, child.last)
        return attach(result, sampler.readings()) if sampler is not None else result

    def _end(self, child: Child, ending: Ending | Excess | Cause, watch: Watch) -> Exit:
        """Leave no process behind, in time for the next holder of the job."""
        grace_s = self._settings.kill_grace_s
        if ending is Ending.EXITED:
            grace_s = 0.0
        elif ending in (Cause.ISOLATED, Cause.FENCED):
            grace_s = min(grace_s, watch.left_s() / 2)
        left = child.end(grace_s, self._settings.kill_patience_s)
        self.survivors = left.survivors
        if left.survivors:
            pids = listed(process.pid for process in left.survivors)
            log.error("Processes %s do not die: the device or its driver is stuck.", pids)
        return left

    def _run_of(self, spec: JobSpec, results: list[Result]) -> Run:
        earlier = results[-1] if results else None
        at = datetime.now(UTC)
        return Run(spec, len(results) + 1, earlier, at, self._settings.log_tail_b)

    def _limits(self, until_s: float) -> Limits:
        chosen = self._settings
        allowance = Allowance(chosen.processes_limit, chosen.temp_limit_b, chosen.disk_reserve_b)
        return Limits(chosen.silence_s, until_s, chosen.output_limit_b, chosen.tick_s, allowance)

    def _sampler(self) -> Sampler | None:
        if self._gauge is None:
            return None
        return Sampler(self._gauge, self._settings.telemetry_hz, self.occupancy)

    def _arguments(self, spec: JobSpec, replicate: int) -> list[str]:
        """The same replicate of every case has the same seed, so that cases stay comparable."""
        case = spec.case
        arguments = [case.workload]
        arguments += [f"{axis}={value}" for axis, value in sorted(case.axes.items())]
        if case.preset != "auto":
            arguments += ["--preset", case.preset]
        arguments += ["--device", self._settings.device]
        arguments += ["--protocol", spec.protocol.model_dump_json()]
        arguments += ["--seed", str(replicate - 1)]
        if self._settings.data_root is not None:
            arguments += ["--data-root", str(self._settings.data_root.expanduser().absolute())]
        return arguments

    def _temperature_c(self) -> float | None:
        return self._gauge.channels().get("temperature_c") if self._gauge else None

    def _remaining(self, watch: Watch) -> frozenset[int]:
        """Processes of the last replicate that do not leave the device; waits for them."""
        give_up_at_s = time.monotonic() + self._settings.kill_patience_s
        while (own := self.occupancy.look().own) and watch.cause() is None:
            if time.monotonic() >= give_up_at_s:
                return own
            time.sleep(VACANCY_LOOK_S)
        return frozenset()

    def _cool(self, first_c: float | None, watch: Watch) -> None:
        """Wait until the device is about as cool as it was before the first replicate."""
        give_up_at_s = time.monotonic() + self._settings.cool_limit_s
        while first_c is not None and time.monotonic() < give_up_at_s and watch.cause() is None:
            now_c = self._temperature_c()
            if now_c is None or now_c <= first_c + self._settings.cool_margin_c:
                return
            time.sleep(COOL_LOOK_S)


def _occupied(pids: Iterable[int]) -> str:
    return (
        f"Processes {listed(pids)} of the last replicate hold the device, and the next one would "
        "measure beside them: see whether the driver is stuck."
    )


def listed(pids: Iterable[int]) -> str:
    """Process ids for a sentence."""
    return ", ".join(map(str, sorted(pids)))


def _numbered(tell: Callable[[Progress], None], run: Run) -> Callable[[Progress], None]:
    """A child knows of one replicate; the job has several."""
    place = {"replicate": run.replicate, "replicates": run.spec.protocol.replicates}
    return lambda progress: tell(progress.model_copy(update=place))
