"""Kills workers at any moment of a job, and watches what outlives them.

Prints one row as JSON. It runs as a process of its own, because it inherits every orphan: whatever
a worker leaves descends from it, in whatever session, group, namespace or environment.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from tests.worker.miniature import Miniature, serving
from trials.chaos.fork import Crew
from worker.child.containment import Containment
from worker.child.guard import PR_SET_CHILD_SUBREAPER

PROMISED_S, GIVEN_UP_S = 2.0, 10.0
"""Within the first nothing may be left; after the second nobody waits any longer."""
LOOK_S = 0.01
SPIN = "while True: pass"
SYNC = """
import os
with open(os.environ["CHAOS_FILE"], "wb") as file:
    while True:
        file.seek(0)
        file.write(bytes(2**20))
        os.fsync(file.fileno())
"""


@dataclass
class Killed:
    """What became of workers that were killed."""

    containment: str
    child: str
    """The part that the scripted child plays; "" for real benchmarks."""
    kills: int = 0
    seed: int = 0
    load: int = 0
    """Processes beside it that take processor and disk."""
    gone_s: list[tuple[int, float]] = field(default_factory=list)
    """Of each kill: processes below the worker, and the time until nothing was left of them."""
    late: list[dict[str, Any]] = field(default_factory=list)
    """What was left `PROMISED_S` after a kill."""

    def row(self) -> dict[str, Any]:
        """For the raw rows."""
        times_s = [gone_s for _, gone_s in self.gone_s]
        after = {
            f"left_after_{s:g}_s": sum(gone_s > s for gone_s in times_s) for s in (0.5, 1, 2, 10)
        }
        row = {name: value for name, value in vars(self).items() if name != "gone_s"} | after
        row |= {"median_s": round(median(times_s), 3), "slowest_s": round(max(times_s), 3)}
        row["by_processes"] = [
            {"processes": alive, "kills": len(of), "slowest_s": round(max(of), 3)}
            for alive in sorted({alive for alive, _ in self.gone_s})
            if (of := [gone_s for count, gone_s in self.gone_s if count == alive])
        ]
        row["violations"] = [f"{one['processes']} were left" for one in self.late]
        return row


class Trial:
    """One worker after another, each killed while it has a job."""

    def __init__(self, outcome: Killed, folder: Path, service: Miniature, crew: Crew) -> None:
        self._outcome = outcome
        self._folder = folder
        self._service = service
        self._crew = crew
        self._mine = {child.pid for child in psutil.Process().children()}

    def one(self, name: str, moment_s: float, workload: str) -> None:
        """Start a worker, and kill it ``moment_s`` after it was given a job."""
        given = len(self._service.leases)
        self._service.submit(workload, protocol={"replicates": 50})
        self._crew.start(name)
        _until(lambda: len(self._service.leases) > given)
        time.sleep(moment_s)
        alive = len(self._left()) - 1
        self._crew.send(name, signal.SIGKILL)
        self._outcome.gone_s.append((alive, self._watch(time.monotonic(), moment_s)))
        self._outcome.kills += 1

    def _watch(self, killed_at_s: float, moment_s: float) -> float:
        """Wait until nothing is left; the time that it took, in s."""
        noted = False
        while left := self._left():
            passed_s = time.monotonic() - killed_at_s
            if passed_s > PROMISED_S and not noted:
                noted = True
                described = [_described(process) for process in left]
                self._outcome.late.append({"moment_s": moment_s, "processes": described})
            if passed_s > GIVEN_UP_S:
                for process in left:
                    with suppress(psutil.NoSuchProcess):
                        process.kill()
                return passed_s
            time.sleep(LOOK_S)
        return time.monotonic() - killed_at_s

    def _left(self) -> list[psutil.Process]:
        """What a worker started, and it itself, unless it has ended; the ended are collected."""
        left = []
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                if process.pid in self._mine:
                    continue
                if process.status() == psutil.STATUS_ZOMBIE:
                    with suppress(ChildProcessError):
                        os.waitpid(process.pid, os.WNOHANG)
                else:
                    left.append(process)
        return left


def _described(process: psutil.Process) -> str:
    with suppress(psutil.Error, OSError):
        command = " ".join(process.cmdline())[:200]
        waits = Path(f"/proc/{process.pid}/wchan").read_text()
        return f"{process.pid} {process.status()} {waits} {process.ppid()} {command}"
    return f"{process.pid} gone meanwhile"


def _until(true: Any, limit_s: float = 120.0) -> None:
    until_s = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < until_s, "no worker was given a job"
        time.sleep(0.002)


def loaded(folder: Path, load: int, stack: ExitStack) -> None:
    """Take processor, and with the first of each four processes disk, until ``stack`` is closed."""
    for number in range(load):
        variables = os.environ | {"CHAOS_FILE": str(folder / f"sync-{number}")}
        command = [sys.executable, "-S", "-c", SPIN if number % 4 else SYNC]
        process = subprocess.Popen(command, env=variables)
        stack.callback(process.wait)
        stack.callback(process.kill)


def run(arguments: argparse.Namespace) -> Killed:
    """Kill as many workers as are asked for."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    chance = random.Random(arguments.seed)
    outcome = Killed(
        arguments.containment, arguments.child, seed=arguments.seed, load=arguments.load
    )
    names = [f"k{number:05}" for number in range(arguments.kills)]
    more = {"THROUGHLINE_CONTAINMENT": arguments.containment, "CHAOS_PART": arguments.child}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tl-killed-")))
        more |= {"TMPDIR": str(folder), "THROUGHLINE_CACHE_DIR": str(folder / "cache")}
        service = stack.enter_context(serving(Miniature(heartbeat_s=1.0)))
        crew = Crew(folder, service.url, dict.fromkeys(names, "full"), (0.1, 1.0), more)
        stack.enter_context(crew)
        loaded(folder, arguments.load, stack)
        trial = Trial(outcome, folder, service, crew)
        for name in names:
            trial.one(name, chance.uniform(0.0, arguments.within_s), arguments.workload)
    return outcome


def parser() -> argparse.ArgumentParser:
    """What may be asked for."""
    parser = argparse.ArgumentParser(prog="python -m trials.chaos.killed", description=__doc__)
    parser.add_argument("containment", choices=list(Containment))
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--within-s", type=float, default=2.0)
    parser.add_argument("--load", type=int, default=4)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--child", default="daemons", help="a scripted part; empty: a benchmark")
    parser.add_argument("--workload", default="resnet50")
    return parser


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run(parser().parse_args()).row(), default=str) + "\n")
