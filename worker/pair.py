"""Measures the two revisions of a pair: in turn where that can be, else one after the other."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from benchmarks import contracts
from benchmarks.diagnosis import paired
from benchmarks.diagnosis.merge import merge
from worker import ahead, alone
from worker.child.process import Child, Task
from worker.child.workspace import Caches
from worker.launch import Launch
from worker.result_builder import without_numbers
from worker.settings import Settings
from worker.targets.target import target_of

log = logging.getLogger(__name__)

IN_TURN_SHARE = 1 / 3
"""Share of a job's time in which both sides have to be measured in turn: each side may then still
take as long by itself, so that one that hangs is told from the other."""


@dataclass(frozen=True)
class _Seated:
    """The tasks of both sides, the first one first, and how they begin."""

    tasks: Sequence[Task]
    begin: Callable[[Task], Child]
    all_run: Callable[[], None] = lambda: None


class Pairs:
    """Measures one pair at a time; what a side does by itself is ``alone``'s."""

    def __init__(
        self, settings: Settings, single: alone.Alone, caches: Caches, begun: ahead.Ahead
    ) -> None:
        self._settings = settings
        self._ahead = begun
        self._alone = single
        self._caches = caches

    def measure(self, launch: Launch) -> Callable[[], contracts.Result]:
        """Measure a baseline and a contender in turn, or else one after the other.

        They cannot be measured in turn where the device does not take both at once, for lack of
        memory or by its mode, and where one of them runs code of a time before duets.
        """
        duet = launch.spec.duet
        assert duet is not None
        sides = self._sides(launch)
        turned = slice(None, None, 1 if duet.baseline_first else -1)
        following = self._tasks_of_next(launch)
        beside = partial(self._ahead.begin_beside, launch.spec.case, following)
        results = self._in_turn(sides[turned], duet, beside)
        if told_in_turn(results):
            self._ahead.begin(launch.spec.case, following)
        else:
            self._ahead.end()
            why = [result.reason or ", ".join(result.flags) for result in results]
            log.info(
                "The two revisions could not be measured in turn (%s), so one follows the other.",
                "; ".join(filter(None, why)),
            )
            if held := self._alone.await_free(launch, self._settings.cool_limit_s):
                return lambda: without_numbers(launch.spec, contracts.Status.INFRA_ERROR, held)
            results = [self._follows(side) for side in sides[turned]]
        baseline, contender = results[turned]
        return lambda: paired.paired(baseline, contender)

    def _sides(self, launch: Launch) -> list[Launch]:
        """Baseline and contender, each with its own code, folder and compiled code."""
        assert launch.spec.duet is not None
        revisions = launch.spec.duet.baseline, launch.spec.revision
        return [self._side(launch, *side) for side in zip(ahead.SIDES, revisions, strict=True)]

    def _side(self, launch: Launch, name: str, revision: str) -> Launch:
        """One side of a pair, with its own code, folder and compiled code."""
        folder = launch.folder / name
        folder.mkdir()
        spec = launch.spec.model_copy(update={"revision": revision, "duet": None})
        # What is chosen by timing kernels is chosen anew in each pair, as in other processes.
        by_timing = spec.case.axes.get("compile") == "max-autotune"
        caches = None if by_timing else launch.local.caches or self._kept(launch, spec)
        target = target_of(self._settings, revision)
        return replace(launch, spec=spec, target=target, folder=folder, caches=caches)

    def _kept(self, launch: Launch, side: contracts.JobSpec) -> Path:
        """Give the cache folder of a side, which it keeps from pair to pair."""
        assert launch.spec.duet is not None
        return self._caches.of_revision(side, launch.spec.duet.baseline)

    def _in_turn(
        self, sides: Sequence[Launch], duet: contracts.Duet, turns_began: Callable[[], None]
    ) -> list[contracts.Result]:
        """Run the processes of both sides beside each other, the first one first."""
        watch = sides[0].watch
        station = self._alone.station
        gpus = sides[0].spec.case.gpus
        flags = station.device.await_idle(alone.goes_on(watch), gpus)
        now_s = time.monotonic()
        until_s = now_s + IN_TURN_SHARE * (sides[0].until_s - now_s)

        def tell(progress: contracts.Progress) -> None:
            watch.tell(progress)
            if progress.phase == "turns":
                turns_began()

        with self._seated([replace(side, until_s=until_s) for side in sides], duet) as seated:
            outcomes = station.supervise_together(
                seated.tasks,
                watch,
                [tell, lambda _: None],
                seated.tasks[0].folder.parent,
                seated.all_run,
                seated.begin,
            )
        together = zip(sides, seated.tasks, outcomes, strict=True)
        # Whether the device can be used is asked when a side fails by itself: two processes at once
        # are more than some devices take.
        return [self._alone.read(side, task, outcome, flags) for side, task, outcome in together]

    @contextmanager
    def _seated(self, sides: Sequence[Launch], duet: contracts.Duet) -> Iterator[_Seated]:
        """The tasks of both sides: for the processes that wait for them, or for fresh ones."""
        with ExitStack() as held:
            if not sides[0].spec.case.is_of_gang and (waiting := self._ahead.taken()):
                held.enter_context(waiting)
                there = [replace(one, folder=waiting.folder / one.folder.name) for one in sides]
                tasks = self._tasks(there, duet, waiting.ends)
                if waiting.fit(tasks):
                    yield _Seated(tasks, waiting.begin)
                    return
                held.close()
            self._ahead.end()
            pair = zip(ahead.SIDES, socket.socketpair(), strict=True)
            ends = {name: held.enter_context(end).fileno() for name, end in pair}
            # Once both run, an end closes when its process ends.
            begun = self._alone.station.begun
            yield _Seated(self._tasks(sides, duet, ends), begun, held.close)

    def _tasks(
        self, sides: Sequence[Launch], duet: contracts.Duet, ends: Mapping[str, int]
    ) -> list[Task]:
        tasks = []
        for place, (side, other) in enumerate(zip(sides, sides[::-1], strict=True)):
            part = contracts.DuetSide(
                socket_fd=ends[side.folder.name],
                first=place == 0,
                turns=duet.turns,
                turn_s=duet.turn_s,
            )
            task = self._alone.task(side, part)
            compiles = side.spec.case.is_compiled
            tasks.append(replace(task, hidden=(other.folder,), compiles=compiles))
        return tasks

    def _tasks_of_next(self, launch: Launch) -> ahead.Tasks:
        """Return what makes the tasks of a next pair of the same revisions."""
        duet = launch.spec.duet
        assert duet is not None

        def tasks(folder: Path, ends: Mapping[str, int]) -> list[Task]:
            return self._tasks(self._sides(replace(launch, folder=folder)), duet, ends)

        return tasks

    def _follows(self, launch: Launch) -> contracts.Result:
        """One side's result, measured by itself though a pair was to be measured in turn."""
        measured, rejected = self._alone.unthrottled(launch)
        result = merge([alone.with_conditions(measured, rejected, None)])
        return result.model_copy(update={"flags": (*result.flags, paired.ONE_AFTER_THE_OTHER)})


def told_in_turn(results: Sequence[contracts.Result]) -> bool:
    """Return True if both sides told what was asked, and neither was in the other's way."""
    turns = {len(result.turns) for result in results}
    in_the_way = {paired.SHORT_OF_MEMORY, paired.BUSY_WHILE_WAITING}
    ended = all(
        result.status in (contracts.Status.OK, contracts.Status.PARITY_FAIL) for result in results
    )
    undisturbed = not any(in_the_way.intersection(result.flags) for result in results)
    return ended and undisturbed and len(turns) == 1 and turns != {0}
