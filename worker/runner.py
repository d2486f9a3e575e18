"""Runs one job: a fresh process of a case, or one of each revision of a pair, and the Result."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from benchmarks.contracts import (
    Canary,
    Duet,
    DuetSide,
    Id,
    JobSpec,
    Progress,
    Rejected,
    Result,
    Status,
)
from benchmarks.diagnosis.disturbances import THROTTLED as HELD_BACK
from benchmarks.diagnosis.merge import merge
from benchmarks.diagnosis.paired import (
    BUSY_WHILE_WAITING,
    ONE_AFTER_THE_OTHER,
    SHORT_OF_MEMORY,
    paired,
)
from benchmarks.exits import NO_DEVICE
from worker.child.process import Ending, Exit, Task
from worker.child.target import TargetAbsent, refused, target_of
from worker.child.workspace import Caches, environment_in, workspace
from worker.device import canary, usable
from worker.device.canary import NodeHistory
from worker.device.telemetry import attach, flagged
from worker.device.usable import Unusable
from worker.launch import NO_WISHES, Launch, Local
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
from worker.supervisor import Interrupted, Outcome, Station, Watch

log = logging.getLogger(__name__)

IN_TURN_SHARE = 1 / 3
"""Share of a job's time in which both sides have to be measured in turn: each side may then still
take as long by itself, so that one that hangs is told from the other."""
ROOM_FOR_ANOTHER = 1.5
"""A replicate is only repeated if the job has this many times its duration left."""


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
        measure = self._alone if spec.duet is None else self._pair
        try:
            with workspace() as folder, self._caches.of(group, spec) as kept:
                caches = local.caches or kept
                launch = self._launch(spec, folder, until_s, watch, caches, local)
                run = self._run_of(spec)
                return sendable(run, measure(launch))
        except TargetAbsent as absent:
            return without_numbers(spec, Status.INFRA_ERROR, str(absent))
        except OSError as error:
            sentence = f"This worker could not run the job: {error}. Check its disk and settings."
            return without_numbers(spec, Status.INFRA_ERROR, sentence)

    def _launch(
        self,
        spec: JobSpec,
        folder: Path,
        until_s: float,
        watch: Watch,
        caches: Path | None,
        local: Local,
    ) -> Launch:
        target = target_of(self._settings, spec.revision)
        first_c = self.station.device.temperature_c()
        return Launch(spec, target, folder, until_s, watch, first_c, caches, local)

    def _alone(self, launch: Launch) -> Callable[[], Result]:
        """Measure one revision; returns what makes the job's Result of it."""
        node = self._node.now(lambda: self._canary(launch))
        result, rejected = self._unthrottled(launch)
        return lambda: with_conditions(merge([result]), rejected, node)

    def _pair(self, launch: Launch) -> Callable[[], Result]:
        """Measure a baseline and a contender in turn, or else one after the other.

        They cannot be measured in turn where the device does not take both at once, for lack of
        memory or by its mode, and where one of them runs code of a time before duets.
        """
        duet = launch.spec.duet
        assert duet is not None
        sides = [
            self._side(launch, "baseline", duet.baseline),
            self._side(launch, "contender", launch.spec.revision),
        ]
        turned = slice(None, None, 1 if duet.baseline_first else -1)
        results = self._in_turn(sides[turned], duet)
        if not told_in_turn(results):
            why = [result.reason or ", ".join(result.flags) for result in results]
            log.info(
                "The two revisions could not be measured in turn (%s), so one follows the other.",
                "; ".join(filter(None, why)),
            )
            if held := self._await_free(launch, self._settings.cool_limit_s):
                return lambda: without_numbers(launch.spec, Status.INFRA_ERROR, held)
            results = [self._follows(side) for side in sides[turned]]
        baseline, contender = results[turned]
        return lambda: paired(baseline, contender)

    def _side(self, launch: Launch, name: str, revision: str) -> Launch:
        """One side of a pair, with its own code, folder and compiled code."""
        folder = launch.folder / name
        folder.mkdir()
        spec = launch.spec.model_copy(update={"revision": revision, "duet": None})
        # What is chosen by timing kernels is chosen anew in each pair, as in other processes.
        by_timing = spec.case.axes.get("compile") == "max-autotune"
        caches = None if by_timing else launch.local.caches or self._caches.of_revision(spec)
        target = target_of(self._settings, revision)
        return replace(launch, spec=spec, target=target, folder=folder, caches=caches)

    def _in_turn(self, sides: Sequence[Launch], duet: Duet) -> list[Result]:
        """Run the processes of both sides beside each other, the first one first."""
        watch = sides[0].watch
        flags = self.station.device.await_idle(_goes_on(watch))
        with ExitStack() as ends:
            parts = [
                DuetSide(
                    socket_fd=ends.enter_context(end).fileno(),
                    first=place == 0,
                    turns=duet.turns,
                    turn_s=duet.turn_s,
                )
                for place, end in enumerate(socket.socketpair())
            ]
            now_s = time.monotonic()
            until_s = now_s + IN_TURN_SHARE * (sides[0].until_s - now_s)
            tasks = [
                replace(self._task(replace(side, until_s=until_s), part), hidden=(other.folder,))
                for side, other, part in zip(sides, sides[::-1], parts, strict=True)
            ]
            outcomes = self.station.supervise_together(
                tasks,
                watch,
                [watch.tell, lambda _: None],
                sides[0].folder.parent,
                all_run=ends.close,  # from here on an end closes when its process ends
            )
        together = zip(sides, tasks, outcomes, strict=True)
        # Whether the device can be used is asked when a side fails by itself: two processes at once
        # are more than some devices take.
        return [self._read(side, task, outcome, flags) for side, task, outcome in together]

    def _follows(self, launch: Launch) -> Result:
        """One side's result, measured by itself though a pair was to be measured in turn."""
        measured, rejected = self._unthrottled(launch)
        result = with_conditions(merge([measured]), rejected, None)
        return result.model_copy(update={"flags": (*result.flags, ONE_AFTER_THE_OTHER)})

    def _unthrottled(self, launch: Launch) -> tuple[Result, list[Rejected]]:
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

    def _measured(self, launch: Launch) -> Result:
        """One child's result; its trace, if one is wanted, goes to the watch."""
        if not launch.spec.protocol.trace:
            return self._one(launch)
        with trace.place(launch.folder) as place:
            result = self._one(launch, place.file)
            body, absent = place.take(result)
        launch.watch.keep(body)
        return trace.with_trace_outcome(result, absent)

    def _one(self, launch: Launch, trace_file: Path | None = None) -> Result:
        flags = self.station.device.await_idle(_goes_on(launch.watch))
        task = self._task(launch, trace_file=trace_file)
        tell = _numbered(launch.watch.tell, launch.spec)
        outcome = self.station.supervise(task, launch.watch, tell)
        if outcome.ending is Ending.EXITED and outcome.left.code in (NO_DEVICE, REFUSED):
            self._insist_on_device(outcome.left, launch.watch)
        return self._read(launch, task, outcome, flags)

    def _task(
        self, launch: Launch, duet: DuetSide | None = None, trace_file: Path | None = None
    ) -> Task:
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
        )

    def _read(self, launch: Launch, task: Task, outcome: Outcome, flags: Sequence[str]) -> Result:
        """The result of a process that has ended, with what the device told meanwhile."""
        run = self._run_of(launch.spec)
        result = result_of(run, outcome.ending, outcome.left, task.limits, outcome.last)
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

    def _await_free(self, launch: Launch, limit_s: float) -> str:
        return self.station.await_free(launch.first_c, limit_s, _goes_on(launch.watch))

    def _canary(self, launch: Launch) -> Canary | None:
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


def told_in_turn(results: Sequence[Result]) -> bool:
    """Return True if both sides told what was asked, and neither was in the other's way."""
    turns = {len(result.turns) for result in results}
    in_the_way = {SHORT_OF_MEMORY, BUSY_WHILE_WAITING}
    ended = all(result.status in (Status.OK, Status.PARITY_FAIL) for result in results)
    undisturbed = not any(in_the_way.intersection(result.flags) for result in results)
    return ended and undisturbed and len(turns) == 1 and turns != {0}


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
