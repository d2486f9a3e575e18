"""Everything at once: workers and services that die and freeze, answers that are lost, clocks that
are set, a database that restarts; and at the end every answer is compared with the database."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx2
from sqlalchemy import delete, func, select, text

from benchmarks.contracts import FINAL_STATES
from service.database.session import Database
from service.models import Job, JobEvent, Schedule
from trials.chaos import journal
from trials.chaos.fork import Crew
from trials.chaos.journal import Journal
from trials.chaos.proxy import Proxy, Trouble
from trials.chaos.replica import Replica

OFF_S = 3_600.0
TROUBLE = Trouble(drop=0.1, twice=0.1, late=0.1, half_open=0.005)
PORTION = 20
"""Jobs per submission."""


@dataclass(frozen=True)
class Storm:
    """How much of what; the seed chooses the victims and the moments."""

    seed: int
    workers: int = 6
    full: int = 1
    """How many of the workers measure in real child processes."""
    jobs: int = 60
    worker_kills: int = 6
    freezes: int = 6
    service_kills: int = 1
    service_freezes: int = 1
    clock_jumps: int = 1
    database_restarts: int = 1
    replicas: int = 1
    lost: int = 5
    """Attempts that must have been lost at least: else it was no storm."""
    lease_s: float = 2.0
    job_s: tuple[float, float] = (0.05, 0.6)
    trouble: Trouble = TROUBLE
    limit_s: float = 60.0


@dataclass
class Outcome:
    """What happened, and everything that should not have."""

    storm: Storm
    database: str
    wall_s: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    answered: Counter[str] = field(default_factory=Counter)
    states: Counter[str] = field(default_factory=Counter)
    attempts: Counter[str] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)

    def row(self) -> dict[str, Any]:
        """The raw row for the results folder."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {k: dict(v) if isinstance(v, Counter) else v for k, v in fields.items()} | {
            "storm": asdict(self.storm)
        }


class Weather:
    """Brings the faults of one storm, each when its share of the jobs is done."""

    def __init__(
        self,
        storm: Storm,
        crew: Crew,
        replicas: list[Replica],
        restart_database: Callable[[], None] | None,
        faults: Counter[str],
    ) -> None:
        self._storm = storm
        self._crew = crew
        self._replicas = replicas
        self._restart_database = restart_database
        self._faults = faults
        self._random = random.Random(storm.seed)
        self._due: list[tuple[float, Callable[[], None]]] = []
        self._away: set[str] = set()
        self._plan = sorted(self._planned(), key=lambda planned: planned[0], reverse=True)

    def _planned(self) -> Iterator[tuple[float, Callable[[], None]]]:
        """Shares of the work, from 0 to 1, and what comes then."""
        faults = {
            self._kill_worker: self._storm.worker_kills,
            self._freeze_worker: self._storm.freezes,
            self._kill_service: self._storm.service_kills,
            self._freeze_service: self._storm.service_freezes,
            self._jump: self._storm.clock_jumps,
            self._crash_database: self._storm.database_restarts if self._restart_database else 0,
        }
        for fault, count in faults.items():
            for number in range(count):
                yield 0.9 * (number + self._random.random()) / count, fault

    @property
    def over(self) -> bool:
        """Whether every fault has come and gone."""
        return not self._plan and not self._due

    def blow(self, done: float) -> None:
        """Bring what is due when a share ``done`` of the work is done; end what has lasted."""
        now_s = time.monotonic()
        for when_s, end in [entry for entry in self._due if entry[0] <= now_s]:
            self._due.remove((when_s, end))
            end()
        # Not all at once after a standstill: a fault wants somebody at work to hit.
        for _ in range(3):
            if self._plan and self._plan[-1][0] <= done and len(self._away) < self._most_away:
                self._plan.pop()[1]()

    @property
    def _most_away(self) -> int:
        return max(2, self._storm.workers // 2)

    def _later(self, after_s: float, end: Callable[[], None]) -> None:
        self._due.append((time.monotonic() + after_s, end))

    def _victim(self) -> str:
        there = sorted(self._crew.pids.keys() - self._away)
        name = self._random.choice(
            [worker for worker in there if self._crew.holds(worker)] or there
        )
        self._away.add(name)
        return name

    def _kill_worker(self) -> None:
        name = self._victim()
        self._crew.send(name, signal.SIGKILL)
        self._faults["worker killed"] += 1

        def again() -> None:
            self._crew.start(name)
            self._away.discard(name)

        self._later(self._random.uniform(0.1, 2.0) * self._storm.lease_s, again)

    def _freeze_worker(self) -> None:
        name = self._victim()
        self._crew.send(name, signal.SIGSTOP)
        self._faults["worker frozen"] += 1

        def thaw() -> None:
            self._crew.send(name, signal.SIGCONT)
            self._away.discard(name)

        # Long enough that one amnesty in between does not save its lease.
        self._later(self._random.uniform(2.0, 4.0) * self._storm.lease_s, thaw)

    def _kill_service(self) -> None:
        replica = self._random.choice(self._replicas)
        replica.kill()
        self._faults["service killed"] += 1
        replica.start()

    def _freeze_service(self) -> None:
        replica = self._random.choice(self._replicas)
        replica.kill(signal.SIGSTOP)
        self._faults["service frozen"] += 1
        self._later(0.5 * self._storm.lease_s, lambda: replica.kill(signal.SIGCONT))

    def _jump(self) -> None:
        off_s = self._random.choice((OFF_S, -OFF_S))
        for replica in self._replicas:
            replica.set_clock(off_s)
        self._faults["clock set"] += 1

        def back() -> None:
            for replica in self._replicas:
                replica.set_clock(0.0)

        self._later(self._storm.lease_s, back)

    def _crash_database(self) -> None:
        assert self._restart_database is not None
        self._restart_database()
        self._faults["database restarted"] += 1


def run(
    storm: Storm,
    url: str,
    folder: Path,
    restart_database: Callable[[], None] | None = None,
) -> Outcome:
    """Run a storm over the migrated, empty database at ``url``; ``folder`` is for files."""
    began_s = time.monotonic()
    outcome = Outcome(storm, url.partition(":")[0])
    database = Database(url)
    with ExitStack() as stack:
        stack.callback(database.close)
        with database.writing() as session:  # a clock that jumps over its slot would fire it
            session.execute(delete(Schedule))
        replicas = list(stack.enter_context(_serving(storm, url, folder)))
        ports = [replica.port for replica in replicas]
        proxy = stack.enter_context(Proxy(ports, storm.seed, storm.trouble))
        submitting = stack.enter_context(ThreadPoolExecutor(1)).submit(
            _submit, storm, proxy.url, folder
        )
        kinds = {
            f"w{number:02}": "full" if number < storm.full else "light"
            for number in range(storm.workers)
        }
        crew = stack.enter_context(Crew(folder, proxy.url, kinds, storm.job_s))
        for name in kinds:
            crew.start(name)
        weather = Weather(storm, crew, replicas, restart_database, outcome.faults)
        _until_done(storm, database, weather, outcome)
        submitting.result()
        proxy.trouble = Trouble()
        _until_delivered(folder, outcome)
        crew.stop(10.0)
        outcome.faults.update(proxy.faults)
        outcome.statuses.update(proxy.statuses)
        outcome.violations += proxy.unexpected
        for replica in replicas:
            replica.kill(signal.SIGTERM)
    _check(storm, url, folder, outcome)
    outcome.wall_s = time.monotonic() - began_s
    return outcome


@contextmanager
def _serving(storm: Storm, url: str, folder: Path) -> Iterator[list[Replica]]:
    quick = {
        "LEASE_S": str(storm.lease_s),
        "HEARTBEAT_S": str(storm.lease_s / 5),
        "SWEEP_S": str(storm.lease_s / 10),
        "MAX_LOST_ATTEMPTS": "6",
        "CONFIRMATIONS": "0",  # they submit jobs of their own
        "PATIENCE_S": str(2 * storm.lease_s),
    }
    replicas = [Replica(url, folder, **quick) for _ in range(storm.replicas)]
    try:
        for replica in replicas:
            replica.start()
        for replica in replicas:
            replica.wait()
        yield replicas
    finally:
        for replica in replicas:
            assert replica.process is not None
            replica.kill(signal.SIGCONT)
            try:
                replica.process.wait(10)
            except subprocess.TimeoutExpired:
                replica.kill()


def _submit(storm: Storm, url: str, folder: Path) -> None:
    """Submit the jobs in portions, each until it is answered, under a key of its own.

    Raises:
        TimeoutError: not everything was taken while the storm may last.
    """
    until_s = time.monotonic() + storm.limit_s
    notes = Journal(folder / "submitter.journal")
    case = {"workload": "unet", "preset": "tiny"}
    left = storm.jobs
    with httpx2.Client(base_url=url, timeout=2.0) as client:
        while left:
            count = min(PORTION, left)
            # One portion in ten is measured in two processes a case: each is a job.
            replicates = 2 if left // PORTION % 10 == 2 and count % 2 == 0 else 1
            cases = [case] * (count // replicates)
            body = {"cases": cases, "revision": f"r{left}", "timeout_s": 60}
            jobs = _taken(client, body | {"replicates": replicates}, f"{storm.seed}-{left}")
            if jobs:
                notes.note("submitted", jobs=jobs)
                left -= count
            elif time.monotonic() > until_s:
                raise TimeoutError(f"{left} jobs were not taken in {storm.limit_s:g} s.")
            else:
                time.sleep(0.05)


def _taken(client: httpx2.Client, body: dict[str, Any], key: str) -> list[str]:
    """The jobs that were made of a submission; none if nobody answered or was in order."""
    try:
        answer = client.post("/api/v1/submissions", json=body, headers={"Idempotency-Key": key})
    except httpx2.HTTPError:
        return []
    if answer.status_code not in (200, 201):
        return []
    return [job["id"] for job in answer.json()["jobs"]]


def _until_done(storm: Storm, database: Database, weather: Weather, outcome: Outcome) -> None:
    until_s = time.monotonic() + storm.limit_s
    done = 0
    while done < storm.jobs or not weather.over:
        if time.monotonic() > until_s:
            outcome.violations.append(
                f"After {storm.limit_s:g} s {done} of {storm.jobs} jobs had ended."
            )
            return
        weather.blow(done / storm.jobs)
        time.sleep(0.1)
        with suppress(Exception), database.reading() as session:  # it may be away now
            ended = select(func.count()).where(Job.state.in_(FINAL_STATES))
            done = session.execute(ended.select_from(Job)).scalar_one()


def _until_delivered(folder: Path, outcome: Outcome, limit_s: float = 30.0) -> None:
    """Wait until no worker holds a result any more: what is spooled is owed."""
    until_s = time.monotonic() + limit_s
    while left := list(folder.glob("workers/*/spool/*.result")):
        if time.monotonic() > until_s:
            outcome.violations.append(f"{len(left)} results were never delivered.")
            return
        time.sleep(0.1)


def _check(storm: Storm, url: str, folder: Path, outcome: Outcome) -> None:
    database = Database(url)
    checked = journal.check(database, folder)
    outcome.answered.update(checked.answered)
    outcome.violations += checked.violations
    with database.reading() as session:
        states = select(Job.state, func.count()).group_by(Job.state)
        outcome.states.update(dict(session.execute(states).all()))
        ends = select(JobEvent.to_state, func.count()).where(JobEvent.attempt.is_not(None))
        outcome.attempts.update(dict(session.execute(ends.group_by(JobEvent.to_state)).all()))
        late = text("SELECT count(*) FROM results WHERE NOT counted")
        outcome.attempts["late results"] = session.execute(late).scalar_one()
    database.close()
    if outcome.states.total() != storm.jobs:
        outcome.violations.append(f"There are {outcome.states.total()} jobs, not {storm.jobs}.")
    if outcome.attempts["lost"] < storm.lost:
        outcome.violations.append(f"Only {outcome.attempts['lost']} attempts were lost: no storm.")
