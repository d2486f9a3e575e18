"""``python -m trials.chaos.crew FOLDER``: forks workers on demand, so that forty start in no time.

Each is a process of its own and runs the whole of `worker.loop`: claims written down first, leases
kept, the spool, the fence. A *light* one replaces only the runner: the measurement is a wait in the
worker's own process instead of a child process. A *full* one replaces nothing, and its child is
the script of the worker's tests, in the part that ``CHAOS_PART`` names, or a real benchmark. A
*building* one runs what it builds, and stops where ``CHAOS_HOLDS`` tells it to. A *zombie* is
light, and freezes itself with each result that it has kept and not yet sent. Lines
``NAME light|full|building|zombie`` come in, lines ``PID`` go out.
"""

from __future__ import annotations

import json
import logging
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

from benchmarks.contracts import (
    Claim,
    Direction,
    Environment,
    Id,
    JobSpec,
    Lease,
    Result,
    Sample,
    Status,
)
from benchmarks.die_with_parent import PR_SET_PDEATHSIG
from trials.chaos import holds
from trials.chaos.journal import Journal, digest_of
from worker import loop, startup
from worker.client import ServiceClient, Ticket
from worker.device.state import DeviceState
from worker.http_exchange import GoesOn, always
from worker.outbox.spool import Answer, Entry, Spool
from worker.settings import Settings
from worker.supervisor import Interrupted, Watch

CHILD = Path(__file__).parents[2] / "tests" / "worker" / "scripted_child.py"
FACTS = {"hw.device": "cpu", "hw.cpu.model": "Scripted", "hw.cpu.usable": "2"}
TICK_S = 0.02


class ScriptedRunner:
    """Stands in for a child process: waits, heeds the watch, and has a result."""

    def __init__(self, settings: Settings, *_: object) -> None:
        self._random = random.Random(f"{settings.worker_name}{time.monotonic_ns()}")
        self.station = SimpleNamespace(survivors=(), device=DeviceState(settings))

    def run(self, spec: JobSpec, watch: Watch, group: Id | None = None) -> Result:
        shortest, longest = json.loads(os.environ["CHAOS_JOB_S"])
        until_s = time.monotonic() + self._random.uniform(shortest, longest)
        while time.monotonic() < until_s:
            if cause := watch.cause():
                raise Interrupted(cause)
            time.sleep(TICK_S)
        if cause := watch.cause():
            raise Interrupted(cause)
        return self._result(spec)

    def _result(self, spec: JobSpec) -> Result:
        status = self._random.choices((Status.OK, Status.OOM, Status.CRASHED), (18, 1, 1))[0]
        sample = Sample(
            metric="rate",
            unit="img/s",
            direction=Direction.HIGHER,
            values=(self._random.gauss(100.0, 1.0),),
        )
        return Result(
            case=spec.case.model_copy(update={"preset": "tiny"}),
            status=status,
            reason="" if status is Status.OK else "So the script says.",
            measured_at=datetime.now(UTC),
            protocol=spec.protocol,
            environment=Environment(facts=FACTS),
            samples=(sample,) if status is Status.OK else (),
        )


def observed(journal: Journal, name: str, kind: str) -> tuple[type[Spool], type[ServiceClient]]:
    """Spool and client that write down what is promised to them, and what they are answered."""

    class JournallingSpool(Spool):
        def put(self, ticket: Ticket, body: bytes) -> Entry:
            entry = super().put(ticket, body)
            if entry.path is not None:  # from here on nothing may lose it
                _note("finished", entry)
            if kind == "zombie":
                os.kill(os.getpid(), signal.SIGSTOP)
            return entry

        def deliver(self, entry: Entry, post: Callable[[Ticket, bytes], None]) -> Answer:
            answer = super().deliver(entry, post)
            kinds = {Answer.COUNTED: "counted", Answer.UNCOUNTED: "kept"}
            _note(kinds.get(answer, "refused"), entry)
            return answer

    class JournallingClient(ServiceClient):
        def claim(self, claim: Claim, goes_on: GoesOn = always) -> Lease | None:
            lease = super().claim(claim, goes_on)
            if lease is not None:
                attempt = {
                    "job": lease.job_id,
                    "attempt": lease.attempt,
                    "secret": lease.secret,
                }
                journal.note("leased", worker=name, **attempt)
            return lease

    def _note(kind: str, entry: Entry) -> None:
        attempt = {"job": entry.ticket.job_id, "attempt": entry.ticket.attempt}
        journal.note(kind, digest=digest_of(entry.body), **attempt)

    return JournallingSpool, JournallingClient


def work(name: str, kind: str, folder: Path, url: str) -> int:
    """Be one worker until asked to stop."""
    logging.basicConfig(
        filename=folder / f"{name}.log", format="%(asctime)s %(levelname)s %(message)s", level=30
    )
    notes = folder / "notes"
    notes.mkdir(exist_ok=True)
    part = os.environ.get("CHAOS_PART", "slow")
    settings = Settings(
        url=url,
        state_dir=folder,
        worker_name=name,
        device="cpu",
        data_root=notes if part or kind == "building" else None,
        child_command=(sys.executable, "-S", str(CHILD), "--part", part) if part else (),
        claim_wait_s=0.5,
        request_timeout_s=2.0,
        backoff_first_s=0.05,
        backoff_limit_s=0.5,
        kill_grace_s=0.2,
        drain_delivery_s=1.0,
        cool_limit_s=0.0,
        canary_every_s=0.0,
    )
    spool, client = observed(Journal(folder / f"{name}.journal"), name, kind)
    names: dict[str, Any] = vars(startup)
    vars(loop)["Spool"], names["ServiceClient"] = spool, client
    if kind == "building":
        holds.hold_builds(Path(os.environ["CHAOS_HOLDS"]))
    elif kind != "full":
        names["Runner"] = ScriptedRunner
    return startup.run(settings)


def become(name: str, kind: str, folder: Path, url: str) -> NoReturn:
    """Turn this forked process into a worker that dies with the crew."""
    import ctypes

    code = 1
    try:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        random.seed(f"{name}{os.getpid()}")
        code = work(name, kind, folder, url)
    except BaseException:
        logging.exception("worker %s broke", name)
    finally:
        os._exit(code)


def main() -> None:
    folder, url = Path(sys.argv[1]), sys.argv[2]
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the dead are not waited for
    for line in sys.stdin:
        name, kind = line.split()
        pid = os.fork()
        if pid == 0:
            become(name, kind, folder, url)
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
