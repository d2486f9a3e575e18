"""Shows that each event is delivered: services that are killed, a receiver in trouble.

``PYTHONPATH=.:tests python -m trials.outbox FILE --database postgresql --events 10000`` runs two
services (one on SQLite) that send to a receiver on the loopback. It answers 500, says nothing for
ten seconds, hangs up, and hangs up after it took the message. A service is killed every few seconds
and started again. A row with what came is appended to FILE. Exit code 1 if an event is missing, or
one id came with two bodies.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from builders.postgres_server import DURABLE, running
from builders.receiver import OK, Receiver, receiving, status
from sqlalchemy import func, select

from service.database.migrate import upgrade
from service.database.session import Database, now_of
from service.models import DeliveryRow, DeliveryState, EventKind
from service.outbox import events
from trials.live_service import environment

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
FAULTS = {"500": 0.05, "drops": 0.03, "takes it and drops": 0.02, "silent": 0.01}
"""The share of requests that meet each fault."""
KILL_EVERY_S = 8.0
LONGEST_S = 1_800.0


@dataclass
class Plan:
    """How the receiver answers, drawn for each request."""

    chance: random.Random
    met: Counter[str] = field(default_factory=Counter)
    taken: set[int] = field(default_factory=set)
    """Numbers of the requests that the receiver keeps."""

    def answer(self, number: int) -> bytes | None:
        (fault,) = self.chance.choices([*FAULTS, ""], [*FAULTS.values(), 1 - sum(FAULTS.values())])
        self.met[fault or "answered"] += 1
        if fault in ("", "takes it and drops"):
            self.taken.add(number)
        return {"": OK, "500": status(500, body=b"no room"), "silent": None}.get(fault, b"")


@contextmanager
def database_of(kind: str) -> Iterator[tuple[str, Path]]:
    """A migrated, empty database, and a folder."""
    with tempfile.TemporaryDirectory(prefix="tl-outbox-") as name:
        if kind == "sqlite":
            url = f"sqlite:///{name}/throughline.sqlite3"
            upgrade(url)
            yield url, Path(name)
            return
        with running(*DURABLE) as server:
            server.run("CREATE DATABASE outbox")
            upgrade(server.url("outbox"))
            yield server.url("outbox"), Path(name)


class Replicas:
    """Services that are killed and started again."""

    def __init__(self, url: str, folder: Path, sinks: Path, count: int) -> None:
        self.kills = 0
        self._folder = folder
        self._environment = environment(
            THROUGHLINE_DATABASE_URL=url,
            THROUGHLINE_STATE_DIR=str(folder),
            THROUGHLINE_OUTBOX=str(sinks),
            THROUGHLINE_ACCESS="open",
        )
        self._running = [self._start() for _ in range(count)]

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "service", "--port", "0", "--role", "web"]
        with (self._folder / "log").open("ab") as log:
            return subprocess.Popen(command, env=self._environment, stdout=log, stderr=log)

    def kill_one(self, chance: random.Random) -> None:
        place = chance.randrange(len(self._running))
        self._running[place].kill()
        self._running[place].wait()
        self._running[place] = self._start()
        self.kills += 1

    def end(self) -> None:
        for process in self._running:
            process.terminate()
        for process in self._running:
            process.wait()


def write(database: Database, count: int) -> list[str]:
    """Store the events, some hundred a transaction."""
    written: list[str] = []
    while len(written) < count:
        with database.writing() as session:
            now = now_of(session)
            for number in range(len(written), min(len(written) + 500, count)):
                news = events.News(EventKind.FINDING_OPENED, f"change {number}", ".", str(number))
                written.append(events.write(session, news, now))
    return written


def left(database: Database, count: int) -> int:
    """Events that are not delivered yet."""
    with database.reading() as session:
        done = DeliveryRow.state == DeliveryState.DELIVERED
        delivered = select(func.count()).select_from(DeliveryRow).where(done)
        return count - session.execute(delivered).scalar_one()


def judge(receiver: Receiver, plan: Plan, written: list[str]) -> dict[str, Any]:
    """What came: each event, and each of its repetitions with the same body."""
    bodies = defaultdict(set)
    kept = Counter[str]()
    for number, one in enumerate(receiver.received):
        event_id = one.headers["webhook-id"]
        bodies[event_id].add(one.body)
        kept[event_id] += number in plan.taken
    return {
        "requests": len(receiver.received),
        "missing": sum(not kept[event_id] for event_id in written),
        "unknown_ids": len(bodies.keys() - set(written)),
        "ids_with_two_bodies": sum(len(one) > 1 for one in bodies.values()),
        "kept_twice_or_more": sum(count > 1 for count in kept.values()),
    }


def show(kind: str, count: int, seed: int, kill: bool) -> dict[str, Any]:
    """Deliver ``count`` events and say what came of it."""
    chance = random.Random(seed)
    plan = Plan(random.Random(seed + 1))
    with database_of(kind) as (url, folder), receiving() as receiver:
        receiver.answer = plan.answer
        sinks = folder / "outbox.toml"
        sinks.write_text(
            'address = "https://perf.example.com"\n[[sink]]\nname = "ci"\nkind = "webhook"\n'
            f'url = "{receiver.url()}"\nsecret = "{SECRET}"\nprivate = true\n'
        )
        database = Database(url)
        written = write(database, count)
        replicas = Replicas(url, folder, sinks, 1 if kind == "sqlite" else 2)
        began_s = killed_s = time.monotonic()
        half_s = most_s = None
        try:
            while (waits := left(database, count)) and time.monotonic() - began_s < LONGEST_S:
                passed_s = time.monotonic() - began_s
                half_s = half_s or (passed_s if waits <= count / 2 else None)
                most_s = most_s or (passed_s if waits <= count / 100 else None)
                if kill and time.monotonic() - killed_s > KILL_EVERY_S:
                    replicas.kill_one(chance)
                    killed_s = time.monotonic()
                time.sleep(0.5)
            took_s = time.monotonic() - began_s
        finally:
            replicas.end()
        return {
            "database": kind,
            "replicas": 1 if kind == "sqlite" else 2,
            "events": count,
            "seed": seed,
            "kills": replicas.kills,
            "faults": dict(plan.met),
            **judge(receiver, plan, written),
            "left": left(database, count),
            "half_s": half_s,
            "of_100_99_s": most_s,
            "took_s": took_s,
            "events_per_s_until_99": 0.99 * count / most_s if most_s else None,
        }


def main() -> None:
    """Run the trial and append its row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="postgresql")
    parser.add_argument("--events", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-kills", action="store_true")
    arguments = parser.parse_args()
    row = show(arguments.database, arguments.events, arguments.seed, not arguments.no_kills)
    where = {"at": datetime.now(UTC).isoformat("T", "seconds"), "python": platform.python_version()}
    where |= {"processors": os.cpu_count(), "load": round(os.getloadavg()[0], 1)}
    arguments.file.parent.mkdir(parents=True, exist_ok=True)
    with arguments.file.open("a", encoding="utf-8") as file:
        file.write(json.dumps(where | row) + "\n")
    sys.stdout.write(json.dumps(row, indent=2) + "\n")
    sys.exit(bool(row["missing"] or row["left"] or row["ids_with_two_bodies"]))


if __name__ == "__main__":
    main()
