"""Measures the two revisions of a pair: in turn where that can be, else one after the other."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace

from benchmarks.contracts import Duet, DuetSide, Result, Status
from benchmarks.diagnosis.merge import merge
from benchmarks.diagnosis.paired import (
    BUSY_WHILE_WAITING,
    ONE_AFTER_THE_OTHER,
    SHORT_OF_MEMORY,
    paired,
)
from worker.alone import Alone, goes_on, with_conditions
from worker.child.target import target_of
from worker.child.workspace import Caches
from worker.launch import Launch
from worker.result_builder import without_numbers
from worker.settings import Settings

log = logging.getLogger(__name__)

IN_TURN_SHARE = 1 / 3
"""Share of a job's time in which both sides have to be measured in turn: each side may then still
take as long by itself, so that one that hangs is told from the other."""


class Pairs:
    """Measures one pair at a time; what a side does by itself is ``alone``'s."""

    def __init__(self, settings: Settings, alone: Alone, caches: Caches) -> None:
        self._settings = settings
        self._alone = alone
        self._caches = caches

    def measure(self, launch: Launch) -> Callable[[], Result]:
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
            if held := self._alone.await_free(launch, self._settings.cool_limit_s):
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
        station = self._alone.station
        flags = station.device.await_idle(goes_on(watch))
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
                replace(
                    self._alone.task(replace(side, until_s=until_s), part), hidden=(other.folder,)
                )
                for side, other, part in zip(sides, sides[::-1], parts, strict=True)
            ]
            outcomes = station.supervise_together(
                tasks,
                watch,
                [watch.tell, lambda _: None],
                sides[0].folder.parent,
                all_run=ends.close,  # from here on an end closes when its process ends
            )
        together = zip(sides, tasks, outcomes, strict=True)
        # Whether the device can be used is asked when a side fails by itself: two processes at once
        # are more than some devices take.
        return [self._alone.read(side, task, outcome, flags) for side, task, outcome in together]

    def _follows(self, launch: Launch) -> Result:
        """One side's result, measured by itself though a pair was to be measured in turn."""
        measured, rejected = self._alone.unthrottled(launch)
        result = with_conditions(merge([measured]), rejected, None)
        return result.model_copy(update={"flags": (*result.flags, ONE_AFTER_THE_OTHER)})


def told_in_turn(results: Sequence[Result]) -> bool:
    """Return True if both sides told what was asked, and neither was in the other's way."""
    turns = {len(result.turns) for result in results}
    in_the_way = {SHORT_OF_MEMORY, BUSY_WHILE_WAITING}
    ended = all(result.status in (Status.OK, Status.PARITY_FAIL) for result in results)
    undisturbed = not any(in_the_way.intersection(result.flags) for result in results)
    return ended and undisturbed and len(turns) == 1 and turns != {0}
