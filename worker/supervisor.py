"""One device and what runs on it: children are started, supervised and ended here."""

from __future__ import annotations

import logging
import os
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from benchmarks.contracts import Progress
from worker.child import containment, process, process_tree
from worker.child.resource_limits import Allowance, Excess
from worker.device import state
from worker.device.nvml import Gauge
from worker.device.telemetry import Reading
from worker.heartbeat import Cause
from worker.settings import Settings
from worker.stop import Stop

log = logging.getLogger(__name__)

TASKS_PER_PROCESS = 8
"""Threads count as tasks too; the limit is there to end a fork bomb, not to save."""
_PLACES_NEEDED = (
    "PYTHONPATH",
    "PYTHONPYCACHEPREFIX",
    "THROUGHLINE_CACHE_DIR",
    "TMPDIR",
    "TORCHINDUCTOR_CACHE_DIR",
    "TRITON_CACHE_DIR",
)
"""Variables that name folders which a child needs. Others, as PWD, may name hidden ones."""


Tell = Callable[[Progress], None]
"""Takes note of where a child is."""
BRIEFLY_S, SAY_AGAIN_S = 2.0, 60.0
"""Wait for the device without a log line, and time between two lines, in s."""


class Interrupted(Exception):
    """The child was ended before its time; there is no result."""

    def __init__(self, cause: Cause) -> None:
        super().__init__(cause.value)
        self.cause = cause


class Watch(Protocol):
    """The watcher of a running child: it may stop the child, and takes progress and traces."""

    def cause(self) -> Cause | None:
        """Return the reason to stop, if there is one."""

    def left_s(self) -> float:
        """Time within which every process must be gone, in s."""

    def tell(self, progress: Progress) -> None:
        """Take note of where the child is."""

    def hear(self, text: bytes) -> None:
        """Take what the child wrote to standard error; its end is kept in any case."""

    def keep(self, trace: bytes) -> None:
        """Take the profiler's trace, if there is one; each time in place of what came before."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a child that ended by itself, or was ended for a reason of its own."""

    ending: process.Ending | Excess
    left: process.Exit
    last: Progress | None
    readings: Sequence[Reading] = ()


class Station:
    """Starts and supervises one child after another on one device."""

    def __init__(
        self,
        settings: Settings,
        contained: containment.Containment,
        gauge: Gauge | None = None,
        started: Callable[[Sequence[process_tree.Tree], Path], None] = lambda trees, folder: None,  # noqa: ARG005
        beside: Sequence[Gauge | None] = (),
    ) -> None:
        """``started`` is told, after each start, of the children and of the folder to remove.
        ``beside`` are the gauges of the other devices that it offers."""
        self._settings = settings
        self._contained = contained
        self._started = started
        self.device = state.DeviceState(settings, gauge, beside)
        self.survivors: tuple[process_tree.Process, ...] = ()
        """Processes of the last children that did not die; the next job has to wait for them."""

    @property
    def room_beside(self) -> bool:
        """Return True if further processes may load while a child measures.

        On a CPU they would take processors from it. Contained children are to see nothing of each
        other, and only the two of a pair are hidden from one another.
        """
        on_gpu = self._settings.device != "cpu"
        return on_gpu and self._contained is containment.Containment.PROCESS_GROUP

    def uses(self, folder: Path) -> None:
        """Note a job's folder: a worker that dies before its first child leaves it too."""
        self._started((), folder)

    def supervise(
        self,
        task: process.Task,
        watch: Watch,
        tell: Tell,
        begin: Callable[[process.Task], process.Child] | None = None,
    ) -> Outcome:
        """Run a child to its end; nothing of it is left when this returns or raises.

        ``begin`` starts it in place of `begun`.

        Raises:
            Interrupted: ``watch`` gave a cause.
            OSError: the child cannot be started.
        """
        (outcome,) = self.supervise_together([task], watch, [tell], task.folder, begin=begin)
        return outcome

    def supervise_together(
        self,
        tasks: Sequence[process.Task],
        watch: Watch,
        tells: Sequence[Tell],
        folder: Path,
        all_run: Callable[[], None] = lambda: None,
        begin: Callable[[process.Task], process.Child] | None = None,
    ) -> list[Outcome]:
        """Run children beside each other, each to its end, in folders below ``folder``.

        ``all_run`` is called once all have started. ``begin`` starts each in place of `begun`.

        Raises:
            Interrupted: ``watch`` gave a cause.
            OSError: a child cannot be started.
        """
        if cause := watch.cause():
            raise Interrupted(cause)
        with self.device.sampler(len(tasks)) as sampler, ExitStack() as running:
            children: list[process.Child] = []
            for task in tasks:
                children.append(running.enter_context((begin or self.begun)(task)))
                trees = [child.tree for child in children]
                self._started(trees, folder)
                self.device.occupancy.expect(*trees)
            all_run()
            sampler.start()
            ended = _in_threads(partial(self._ended, watch), children, tells)
            self.survivors += tuple(one for _, left in ended for one in left.survivors)
        for ending, _ in ended:
            if isinstance(ending, Cause):
                raise Interrupted(ending)
        readings = sampler.readings()
        return [
            Outcome(ending, left, child.last, readings)
            for child, (ending, left) in zip(children, ended, strict=True)
            if not isinstance(ending, Cause)
        ]

    def begun(self, task: process.Task) -> process.Child:
        """A child that has just been started.

        Raises:
            OSError: it cannot be started.
        """
        tasks = TASKS_PER_PROCESS * task.limits.allowance.processes
        guard = containment.guarded(self._contained, tasks, hidden_from(task, self._settings))
        return process.Child(task, guard, uuid.uuid4().hex)

    def _ended(
        self, watch: Watch, child: process.Child, tell: Tell
    ) -> tuple[process.Ending | Excess | Cause, process.Exit]:
        ending = child.watch(watch.cause, tell, watch.hear)
        return ending, self._end(child, ending, watch)

    def await_free(self, first_c: float | None, limit_s: float, goes_on: Callable[[], bool]) -> str:
        """Let the device cool down to ``first_c`` degrees Celsius, for ``limit_s`` seconds at most.

        Returns a sentence if the last child's processes do not leave the device. ``goes_on`` ends
        the wait.
        """
        self.device.cool(first_c, limit_s, goes_on)
        return self.held(goes_on)

    def held(self, goes_on: Callable[[], bool]) -> str:
        """A sentence if the last child's processes do not leave the device; waits for them."""
        pids = self.device.remaining(goes_on)
        if not pids:
            return ""
        return (
            f"Processes {listed(pids)} of the last measurement hold the device, and the next one "
            "would measure beside them: see whether the driver is stuck."
        )

    def limits(self, until_s: float) -> process.Limits:
        """Return the limits that the settings set a child, until ``until_s`` on CLOCK_MONOTONIC."""
        chosen = self._settings
        allowance = Allowance(chosen.processes_limit, chosen.temp_limit_b, chosen.disk_reserve_b)
        return process.Limits(
            chosen.silence_s, until_s, chosen.output_limit_b, chosen.tick_s, allowance
        )

    def _end(
        self, child: process.Child, ending: process.Ending | Excess | Cause, watch: Watch
    ) -> process.Exit:
        """End the child with all processes, before the job may have another holder."""
        grace_s = self._settings.kill_grace_s
        if ending is process.Ending.EXITED:
            grace_s = 0.0
        elif ending in (Cause.ISOLATED, Cause.FENCED):
            grace_s = min(grace_s, watch.left_s() / 2)
        left = child.end(grace_s, self._settings.kill_patience_s)
        if left.survivors:
            pids = listed(one.pid for one in left.survivors)
            log.error("Processes %s do not die: the device or its driver is stuck.", pids)
        return left


def _in_threads(
    end: Callable[[process.Child, Tell], tuple[process.Ending | Excess | Cause, process.Exit]],
    children: Sequence[process.Child],
    tells: Sequence[Tell],
) -> list[tuple[process.Ending | Excess | Cause, process.Exit]]:
    """Watch the first child here and each further one from a thread of its own."""
    with ThreadPoolExecutor(max(1, len(children) - 1), "watch") as threads:
        others = threads.map(end, children[1:], tells[1:])
        return [end(children[0], tells[0]), *others]


class Vacancy:
    """Waits until nothing of the last job is left on the machine or the device."""

    def __init__(self, station: Station, stop: Stop) -> None:
        self._station = station
        self._stop = stop
        self._foreign: frozenset[int] = frozenset()

    def await_it(self, goes_on: Callable[[], bool]) -> bool:
        """Wait for it while ``goes_on()``; return whether it came.

        Processes of others on the device are only named in the log; measurements beside them carry
        the flag ``other_processes``.
        """
        say_at_s = time.monotonic() + BRIEFLY_S
        while mine := self._remaining():
            if time.monotonic() >= say_at_s:
                log.error("No job is claimed: processes %s of the last one remain.", listed(mine))
                say_at_s = time.monotonic() + SAY_AGAIN_S
            if not self._stop.pause(state.LOOK_S, goes_on):
                return False
        return True

    def _remaining(self) -> set[int]:
        """Processes of the last job that live, or whose context is still on the device."""
        holders = self._station.device.occupancy.look()
        if holders.foreign - self._foreign:
            pids = listed(holders.foreign)
            log.warning("Processes %s, not this worker's, use its device.", pids)
        self._foreign = holders.foreign
        survivors = {(one.pid, one.started) for one in self._station.survivors}
        return {pid for pid, _ in process_tree.alive(survivors)} | holders.ours


def hidden_from(task: process.Task, settings: Settings) -> containment.Hidden:
    """The files that a child must not see: tokens, keys, undelivered results; without its own
    needs."""
    state_dir = settings.state.resolve()
    named = (settings.token_file,) if settings.token_file else ()
    needed = [task.folder, task.place, settings.data_root]
    python = Path(task.command[0])
    if python.is_absolute():
        needed.append(python.parent.parent)
    for name in _PLACES_NEEDED:
        paths = task.environment.get(name, "").split(os.pathsep)
        needed += map(Path, filter(os.path.isabs, paths))
    resolved = {place.expanduser().resolve() for place in needed if place is not None}
    kept = sorted(str(one) for one in resolved if state_dir in one.parents)
    places = (state_dir, *named, *task.hidden)
    return containment.Hidden(tuple(map(str, places)), tuple(kept))


def listed(pids: Iterable[int]) -> str:
    """Write process ids for a sentence."""
    return ", ".join(map(str, sorted(pids)))
