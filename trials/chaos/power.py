"""The power goes, on a disk that keeps only what was synced: what was answered must be there.

A real service process runs a load on SQLite under the recorder, which also has the bytes that left
its sockets. Then the disk is cut at many points of that one recording. At each, everything that had
left the socket before must be in the database that comes up, and the database must be whole.
"""

from __future__ import annotations

import random
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx2

from service.database.migrate import upgrade
from service.database.session import Database
from service.maintenance.verify import verify
from trials.chaos import disk
from trials.chaos.disk import Disk, Step
from trials.chaos.replica import Replica, environment

VERIFIED = 25
"""Every so many cuts the promises are checked too; the pages are checked at every one."""
_RESULT = re.compile(rb'\{"id":"([0-9a-f]{32})","counted":true\}')
_LEASE = re.compile(rb'"secret":"([0-9a-f]{64})"')
_JOB = re.compile(rb'"jobs":\[\{"id":"([0-9a-f]{32})"')
_ANSWERS = {
    "results": (_RESULT, "SELECT count(*) FROM results WHERE id = ?"),
    "leases": (_LEASE, "SELECT count(*) FROM attempts WHERE secret = ?"),
    "jobs": (_JOB, "SELECT count(*) FROM jobs WHERE id = ?"),
}


@dataclass
class Cuts:
    """What came of the cuts of one recording."""

    seed: int
    cuts: int = 0
    steps: int = 0
    syncs: int = 0
    checkpoints: int = 0
    """Syncs of the database's own file: the write-ahead log came home, within the recording."""
    answers: dict[str, int] = field(default_factory=dict)
    verified: int = 0
    violations: list[str] = field(default_factory=list)


def record(folder: Path, jobs: int, mutant: str = "") -> tuple[Path, Path]:
    """Run a load on a fresh database; give the folder as it was before, and the recording."""
    before, live, log = folder / "before", folder / "live", folder / "recording"
    live.mkdir()
    url = f"sqlite:///{live}/throughline.sqlite3"
    upgrade(url)
    shutil.copytree(live, before)
    replica = Replica(url, folder, SWEEP_S="0.2")
    replica.add(disk.recording(disk.built(folder), live, log), CHAOS_MUTANT=mutant)
    replica.start()
    try:
        replica.wait()
        with httpx2.Client(base_url=f"http://127.0.0.1:{replica.port}/api/v1") as client:
            _load(client, jobs)
    finally:
        replica.kill()
    return before, log


def _load(client: httpx2.Client, jobs: int) -> None:
    client.put("/workers/w1", json={"name": "w1"})
    case = {"workload": "unet", "preset": "tiny"}
    for number in range(jobs):
        client.post("/submissions", json={"case": case, "revision": f"r{number % 7}"})
        claim = {"worker": "w1", "claim_id": f"{number:032x}"}
        lease = client.post("/leases", json=claim).json()
        path = f"/jobs/{lease['job_id']}/attempts/{lease['attempt']}"
        secret = {"Lease-Secret": lease["secret"]}
        client.post(f"{path}/start", headers=secret)
        result = {
            "case": case,
            "status": "ok",
            "measured_at": "2026-11-20T10:00:00Z",
            "protocol": {},
            "environment": {"facts": {"hw.device": "cpu"}},
            "samples": [
                {"metric": f"m{n}", "unit": "s", "direction": "lower", "values": [number + 1.0, n]}
                for n in range(8)
            ],
            "log_tail": random.Random(number).randbytes(2_000).hex(),
        }
        answer = client.post(f"{path}/result", json=result, headers=secret)
        assert answer.status_code == 201, answer.text


def cut(before: Path, log: Path, count: int, seed: int, checks: Path) -> Cuts:
    """Cut a recording ``count`` times, and see what comes up each time."""
    steps = list(disk.steps(log))
    dice = random.Random(seed)
    # Syncs and answers are the moments that matter: half of the cuts are right beside them.
    edges = [place + 1 for place, step in enumerate(steps) if step.kind in "SN"]
    places = sorted(
        dice.choice(edges) if dice.random() < 0.5 else dice.randrange(1, len(steps) + 1)
        for _ in range(count)
    )
    outcome = Cuts(seed, steps=len(steps), syncs=sum(step.kind == "S" for step in steps))
    outcome.checkpoints = _checkpoints(steps)
    live = before.with_name("live")
    there = _relocated(before, live)
    answered: dict[str, list[str]] = {kind: [] for kind in _ANSWERS}
    done = 0
    for place in places:
        for step in steps[done:place]:
            if step.kind == "N":
                _answers(step, answered)
            else:
                there.follow(step)
        done = max(done, place)
        files = there.cut(dice)
        with _brought_up(files, live, checks) as database:
            outcome.violations += _missing(database, answered, place)
            if outcome.cuts % VERIFIED == 0:
                outcome.verified += 1
                outcome.violations += _broken(database, place)
        outcome.cuts += 1
    outcome.answers = {kind: len(names) for kind, names in answered.items()}
    return outcome


def _checkpoints(steps: list[Step]) -> int:
    paths: dict[int, bytes] = {}
    count = 0
    for step in steps:
        if step.kind == "O":
            paths[step.handle] = step.data
        count += step.kind == "S" and paths.get(step.handle, b"").endswith(b".sqlite3")
    return count


def _relocated(before: Path, live: Path) -> Disk:
    """The disk as it was before the recording, under the names that the recording uses."""
    shutil.rmtree(live)
    shutil.copytree(before, live)
    return Disk(live)


def _answers(step: Step, answered: dict[str, list[str]]) -> None:
    for kind, (pattern, _) in _ANSWERS.items():
        answered[kind] += [name.decode() for name in pattern.findall(step.data)]


@contextmanager
def _brought_up(files: dict[str, bytes], live: Path, checks: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=checks) as name:
        for path, content in files.items():
            (Path(name) / Path(path).relative_to(live)).write_bytes(content)
        yield Path(name) / "throughline.sqlite3"


def _missing(path: Path, answered: dict[str, list[str]], place: int) -> list[str]:
    try:
        with closing(sqlite3.connect(path)) as connection:
            whole = [row[0] for row in connection.execute("PRAGMA integrity_check")]
            if whole != ["ok"]:
                return [f"step {place}: the database is damaged: {whole[0]}"]
            return [
                f"step {place}: {kind} {name} was answered and is gone"
                for kind, (_, question) in _ANSWERS.items()
                for name in answered[kind]
                if not connection.execute(question, (name,)).fetchone()[0]
            ]
    except sqlite3.Error as error:
        return [f"step {place}: the database does not come up: {error}"]


def _broken(path: Path, place: int) -> list[str]:
    database = Database(f"sqlite:///{path}")
    try:
        report = verify(database)
    finally:
        database.close()
    return [f"step {place}: {f.sentence}" for f in report.findings if f.breaches]


SPOOLER = """
import sys
from pathlib import Path
from trials.chaos import mutants
mutants.apply(sys.argv[2])
from worker.client import Ticket
from worker.outbox.spool import Spool
spool = Spool(Path(sys.argv[1]))
for number in range(int(sys.argv[3])):
    spool.put(Ticket(f"{number:032x}", 1, "5" * 64), b"x" * 3_000 + b"%d" % number)
    Path(sys.argv[1]).with_name("promised").write_text(str(number))
"""


def cut_spool(folder: Path, library: Path, results: int, seed: int, mutant: str = "") -> list[str]:
    """Cut a worker's spool after each step; what was promised must be there, and whole."""
    before, live, log = folder / "before", folder / "live", folder / "recording"
    for parent in (before, live):
        (parent / "spool" / "rejected").mkdir(parents=True)
    variables = environment(**disk.recording(library, live, log))
    command = [sys.executable, "-c", SPOOLER, str(live / "spool"), mutant, str(results)]
    subprocess.run(command, env=variables, check=True)
    there, dice, promised = _relocated(before, live), random.Random(seed), -1
    violations = []
    for place, step in enumerate(disk.steps(log)):
        if step.kind == "N":
            continue
        there.follow(step)
        if step.kind == "W" and step.data.isdigit():
            promised = int(step.data)
        files = [
            content
            for path, content in there.cut(dice).items()
            if path.endswith(".result") and content.startswith(b"{")
        ]
        violations += [
            f"step {place}: result {number} was kept and is gone"
            for number in range(promised + 1)
            if not any(content.endswith(b"x%d" % number) for content in files)
        ]
    return violations
