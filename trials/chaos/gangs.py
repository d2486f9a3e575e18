"""Kills a gang's ranks, lead, worker, service and network while two ranks train on the CPU.

The real service, a real worker that offers two devices, and real ranks over gloo. Tells each strike
on stderr as it comes, and prints one row as JSON at the end. It runs as a process of its own,
because it inherits every orphan.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import psutil

from benchmarks.contracts import FINAL_STATES, JobState
from service.database.migrate import upgrade
from service.database.session import Database
from service.maintenance.verify import verify
from trials.chaos.fork import Crew
from trials.chaos.proxy import Proxy, Trouble
from trials.chaos.replica import Replica
from worker.child.guard import PR_SET_CHILD_SUBREAPER

NAME = "ganged"
BACK_S, GONE_S, LIMIT_S = 30.0, 10.0, 240.0
"""Longest time until a lease is back, until no process is left, and for anything else."""
LEASE_S = 20.0
VICTIMS = ("rank 0", "rank 1", "frozen rank", "lead", "worker", "service", "network")
CASE = {"workload": "trials.chaos.two_layers:build", "preset": "tiny"}
GANG = {"gpus": "2", "parallel": "ddp"}
BRIEF = {
    "warmup_min_steps": 4,
    "warmup_min_s": 0.05,
    "warmup_max_steps": 8,
    "window_min_s": 0.1,
    "window_min_steps": 4,
    "window_min_blocks": 2,
    "window_max_blocks": 2,
    "window_max_s": 20.0,
    "block_min_steps": 2,
    "block_min_s": 0.01,
    "settle_max_s": 0.0,
}
ENDLESS = BRIEF | {"window_min_s": 3_000.0, "window_max_s": 3_600.0, "window_max_blocks": 60}


@dataclass
class Ganged:
    """What became of gangs that were struck."""

    kills: int = 0
    seed: int = 0
    promised_s: float = BACK_S
    by_victim: Counter[str] = field(default_factory=Counter)
    by_moment: Counter[str] = field(default_factory=Counter)
    back_s: dict[str, list[float]] = field(default_factory=dict)
    """Seconds until the lease was back, or held on to as before, by victim."""
    reasons: Counter[str] = field(default_factory=Counter)
    wall_s: float = 0.0
    violations: list[str] = field(default_factory=list)

    def row(self) -> dict[str, Any]:
        """For the raw rows."""
        slowest = {victim: round(max(of), 1) for victim, of in self.back_s.items()}
        return {**vars(self), "back_s": slowest}


class Trial:
    """One gang after another, each struck at some moment."""

    def __init__(self, outcome: Ganged, folder: Path, stack: ExitStack) -> None:
        """Start service, proxy and worker; ``stack`` ends them."""
        self._outcome = outcome
        self._chance = random.Random(outcome.seed)
        self._url = f"sqlite:///{folder}/throughline.sqlite3"
        upgrade(self._url)
        quick = {"LEASE_S": str(LEASE_S), "HEARTBEAT_S": "0.5", "SWEEP_S": "0.2"}
        self._service = Replica(self._url, folder, **quick)
        stack.callback(self._service.kill)
        self._service.start()
        self._service.wait()
        self._proxy = stack.enter_context(Proxy([self._service.port], outcome.seed, Trouble()))
        address = f"http://127.0.0.1:{self._service.port}/api/v1"
        self._client = stack.enter_context(httpx2.Client(base_url=address, timeout=30))
        (folder / "tmp").mkdir()
        more = {
            "TMPDIR": str(folder / "tmp"),
            "CHAOS_PART": "",
            "OMP_NUM_THREADS": "1",
            "THROUGHLINE_CACHE_DIR": str(folder / "cache"),
            "THROUGHLINE_CONTAINMENT": "process_group",
            "THROUGHLINE_GPUS": "0,1",
            "THROUGHLINE_MODELS": CASE["workload"].partition(":")[0],
        }
        kinds = {NAME: "full"}
        self._crew = stack.enter_context(Crew(folder, self._proxy.url, kinds, (0.1, 1.0), more))
        self._crew.start(NAME)
        self._job = ""

    def strike(self, victim: str) -> None:
        """Let a gang run until some moment, strike, and see that its lease comes back."""
        keeps = victim == "service"  # the gang outlives it
        began_s = time.monotonic()
        moment = "timed" if keeps else self._chance.choice(("starting", "starting", "timed"))
        self._await_moment(moment)
        ranks = self._ranks()
        gang = [process for rank in ranks for process in (rank, *rank.parents()[:1])]
        attempt = self._read()["attempt"]
        struck_s = time.monotonic()
        self._hit(victim, ranks)

        def is_back() -> bool:
            told = self._read()
            if victim == "worker":  # started again at once, it is given the same lease
                now = {one.pid for one in self._ranks()}
                return bool(now) and not now & {one.pid for one in ranks}
            over = told["state"] in FINAL_STATES or told["state"] == JobState.QUEUED
            if keeps and all(one.is_running() for one in ranks):
                return self._progresses(struck_s)
            return over or told["attempt"] != attempt

        took_s = _until(is_back, LIMIT_S) - struck_s
        self._proxy.trouble = Trouble()
        outcome = self._outcome
        outcome.kills += 1
        outcome.by_victim[victim] += 1
        outcome.by_moment[moment] += 1
        outcome.back_s.setdefault(victim, []).append(took_s)
        if took_s > outcome.promised_s:
            outcome.violations.append(f"{victim}, {moment}: back after {took_s:.1f} s")
        if not keeps:
            self._await_gone(gang, victim)
        told = f"{outcome.kills:3} {victim:11} {moment:8} awaited {struck_s - began_s:5.1f} s,"
        sys.stderr.write(
            f"{told} back {took_s:5.1f} s, gone {time.monotonic() - struck_s:5.1f} s\n"
        )

    def _await_moment(self, moment: str) -> None:
        """Have a gang that starts, or one that is timed; then let some time pass."""
        if not self._job or self._read()["state"] in FINAL_STATES:
            self._job = self._submit(ENDLESS)
        if moment == "timed":
            _until(lambda: self._phase() == "full" and len(self._ranks()) == 2, LIMIT_S)
        else:
            _until(lambda: bool(self._ranks()), LIMIT_S)
        time.sleep(self._chance.uniform(0.0, 2.0))

    def _hit(self, victim: str, ranks: list[psutil.Process]) -> None:
        if victim == "service":
            self._service.kill()
            self._service.start()
            self._service.wait()
        elif victim == "network":
            self._proxy.trouble = Trouble(cut=1.0)
        elif victim == "worker":
            self._crew.kill(NAME)
            self._crew.start(NAME)
        elif victim == "lead":
            ranks[0].parent().kill()
        else:
            number = {"rank 0": 0, "rank 1": -1}.get(victim, self._chance.choice((0, -1)))
            ranks[number].send_signal(signal.SIGSTOP if victim == "frozen rank" else signal.SIGKILL)

    def _ranks(self) -> list[psutil.Process]:
        """The ranks that run now, by number."""
        found = {}
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                if "benchmarks" in process.cmdline() and "RANK" in (of := process.environ()):
                    found[of["RANK"]] = process
        return [found[number] for number in sorted(found)]

    def _await_gone(self, gang: list[psutil.Process], victim: str) -> None:
        def left() -> list[psutil.Process]:
            return [one for one in gang if _lives(one)]

        with suppress(TimeoutError):
            _until(lambda: not left(), GONE_S)
        for process in left():
            self._outcome.violations.append(f"{process.pid} outlived the end by {victim}")
            process.kill()

    def _progresses(self, since_s: float) -> bool:
        """Say whether the service hears of the gang's steps again."""
        before = self._step()
        return time.monotonic() > since_s and _changes(self._step, before)

    def _read(self) -> dict[str, Any]:
        told: dict[str, Any] = self._client.get(f"/jobs/{self._job}").raise_for_status().json()
        return told

    def _progress(self) -> dict[str, Any]:
        attempts = self._read()["attempts"]
        return (attempts[-1]["progress"] or {}) if attempts else {}

    def _phase(self) -> str:
        return str(self._progress().get("phase", ""))

    def _step(self) -> int:
        return int(self._progress().get("step", 0))

    def _submit(self, protocol: dict[str, object], **axes: str) -> str:
        case = {**CASE, "axes": {**GANG, **axes}}
        body = {"case": case, "revision": "abc", "protocol": protocol}
        return str(self._client.post("/jobs", json=body).raise_for_status().json()["id"])

    def end(self) -> None:
        """Measure one gang undisturbed, and look for what must not be."""
        self._client.post(f"/jobs/{self._job}/cancel").raise_for_status()
        self._job = self._submit(BRIEF)
        _until(lambda: self._read()["state"] in FINAL_STATES, LIMIT_S)
        violations = self._outcome.violations
        if (state := self._read()["state"]) != "succeeded":
            violations.append(f"the last gang, which nobody struck, ended as {state}")
        for one in self._results():
            result = one["result"]
            if result["status"] == "ok":
                whole = one["job_id"] == self._job and len(result["replicates"]) == 1
            else:
                self._outcome.reasons[result["reason"].partition(" (")[0][:80]] += 1
                whole = not result["samples"] and not result["replicates"]
            if not whole:
                violations.append(f"half a result: {one['id']}")
        self._crew.stop(LIMIT_S)
        if left := self._ranks():
            violations.append(f"{len(left)} ranks outlived their worker")
        database = Database(self._url)
        broken = [one for one in verify(database).findings if one.breaches]
        database.close()
        violations += [f"promise {one.number}: {one.sentence}" for one in broken]

    def _results(self) -> list[dict[str, Any]]:
        items = self._client.get("/results", params={"limit": 500}).raise_for_status().json()
        ids = [one["id"] for one in items["items"]]
        return [self._client.get(f"/results/{at}").raise_for_status().json() for at in ids]


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _until(true: Callable[[], bool], limit_s: float) -> float:
    """Wait until it is so; return when, on CLOCK_MONOTONIC."""
    until_s = time.monotonic() + limit_s
    while not true():
        if time.monotonic() > until_s:
            raise TimeoutError(f"it did not come to be within {limit_s} s")
        time.sleep(0.05)
    return time.monotonic()


def _changes(read: Callable[[], int], before: int) -> bool:
    with suppress(TimeoutError):
        return _until(lambda: read() != before, 2.0) > 0
    return False


def _is_within(limit_s: float, began_s: float) -> bool:
    return time.monotonic() - began_s < limit_s


def run(arguments: argparse.Namespace) -> Ganged:
    """Strike as often as is asked for, each victim in turn."""
    began_s = time.monotonic()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    outcome = Ganged(seed=arguments.seed, promised_s=arguments.back_s)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tl-ganged-")))
        trial = Trial(outcome, folder, stack)
        victims = list(arguments.victims)
        try:
            while outcome.kills < arguments.kills and _is_within(arguments.within_s, began_s):
                trial.strike(victims[outcome.kills % len(victims)])
            trial.end()
        except TimeoutError as error:
            outcome.violations.append(f"after {outcome.kills} strikes {error}")
    outcome.wall_s = round(time.monotonic() - began_s, 1)
    return outcome


def parser() -> argparse.ArgumentParser:
    """What may be asked for."""
    parser = argparse.ArgumentParser(prog="python -m trials.chaos.gangs", description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--within-s", type=float, default=math.inf, help="no strike begins later")
    parser.add_argument("--victims", nargs="+", choices=VICTIMS, default=VICTIMS)
    parser.add_argument("--back-s", type=float, default=BACK_S, help="until a lease is back")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    return parser


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run(parser().parse_args()).row()) + "\n")
