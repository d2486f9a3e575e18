"""A short trial of every protection, in one process: what a hostile or unlucky client would do.

Each part gives a sentence for everything that should not have been possible.
"""

from __future__ import annotations

import secrets
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from builders.service_hand import Hand, result_of
from fastapi.testclient import TestClient
from sqlalchemy.exc import IntegrityError

from benchmarks.contracts import Lease
from service.app import create_app
from service.database.session import Database, now_of
from service.jobs import expiry
from service.maintenance.verify import verify
from service.settings import Access, Settings
from worker.client import ServiceClient, Ticket
from worker.heartbeat import Heartbeat, now_s
from worker.outbox.spool import Spool

HOUR = timedelta(hours=1)
NOBODY = "http://127.0.0.1:9"


@dataclass
class World:
    """A service, two workers, and a way to let time pass for the queue."""

    client: TestClient
    database: Database
    folder: Path
    one: Hand
    two: Hand

    def submit(self, key: str = "") -> str:
        body = {"case": {"workload": "unet"}, "revision": "r"}
        headers = {"Idempotency-Key": key} if key else {}
        answer = self.client.post("/api/v1/submissions", json=body, headers=headers)
        return str(answer.json()["id"])

    def leased(self, hand: Hand) -> Lease:
        self.submit()
        return hand.must_claim()

    def sweep(self, after: timedelta, *, forgive: bool = False) -> None:
        terms = self.client.app.state.terms  # type: ignore[attr-defined]
        with self.database.writing() as session:
            now = now_of(session) + after
            if forgive:
                expiry.extend_all_leases(session, terms, now)
            expiry.sweep(session, terms, now)


def zombie(world: World) -> Iterator[str]:
    frozen = world.leased(world.one)
    world.one.start(frozen)
    world.sweep(HOUR)
    again = world.two.must_claim()
    if again.job_id != frozen.job_id:
        yield "another job was handed out than the one that was lost"
    world.two.start(again)
    late = world.one.post(frozen, result_of(frozen, (1.0, 2.0)))
    if late.status_code != 409:
        yield f"a zombie's result was answered with {late.status_code}"
    good = world.two.post(again, result_of(again))
    if good.status_code != 201:
        yield f"the holder's result was answered with {good.status_code}"


def impostor(world: World) -> Iterator[str]:
    lease = world.leased(world.one)
    forged = secrets.token_hex(32)
    body = result_of(lease).model_dump(mode="json")
    for what, sent in (("start", None), ("heartbeat", {}), ("result", body)):
        answer = world.one.tell(lease, what, sent, secret=forged)
        if answer.status_code != 409:
            yield f"{what} with a forged secret was answered with {answer.status_code}"
    world.one.post(lease, result_of(lease))


def two_faced(world: World) -> Iterator[str]:
    lease = world.leased(world.one)
    world.one.post(lease, result_of(lease, (1.0, 2.0)))
    other = world.one.post(lease, result_of(lease, (3.0, 4.0)))
    if other.status_code != 409:
        yield f"a second, other result was answered with {other.status_code}"


def repeated_claim(world: World) -> Iterator[str]:
    world.submit()
    world.submit()
    claim = secrets.token_hex(16)
    first, second = world.one.claim(claim), world.one.claim(claim)
    if first is None or first != second:
        yield "the same claim got two leases"
    for lease in filter(None, (first, second)):
        world.one.post(lease, result_of(lease))
    for lease in iter(world.two.claim, None):
        world.two.post(lease, result_of(lease))


def healthy(world: World) -> Iterator[str]:
    lease = world.leased(world.one)
    world.sweep(timedelta())
    if world.one.beat(lease).status_code != 200:
        yield "a live lease was swept away"
    if world.two.claim() is not None:
        yield "a job that is held was handed out again"
    world.one.post(lease, result_of(lease))


def restart(world: World) -> Iterator[str]:
    lease = world.leased(world.one)
    world.sweep(HOUR, forgive=True)
    if world.one.beat(lease).status_code != 200:
        yield "a restarted service took the attempt of a worker that it could not hear"
    world.one.post(lease, result_of(lease))


def repeated_submission(world: World) -> Iterator[str]:
    key = secrets.token_hex(8)
    if world.submit(key) != world.submit(key):
        yield "the same key submitted twice"
    for lease in iter(world.one.claim, None):
        world.one.post(lease, result_of(lease))


def durable(world: World) -> Iterator[str]:
    lease = world.leased(world.one)
    answer = world.one.post(lease, result_of(lease))
    with closing(sqlite3.connect(str(world.database.url.database))) as other:
        there = other.execute("SELECT 1 FROM results WHERE job_id = ?", (lease.job_id,)).fetchone()
    if answer.status_code == 201 and there is None:
        yield "a result was answered before it was committed"


def guarded(world: World) -> Iterator[str]:
    world.submit()
    connection = world.database.engine.connect()
    try:
        connection.exec_driver_sql("UPDATE jobs SET state = 'succeeded' WHERE state = 'queued'")
    except IntegrityError:
        pass
    else:
        yield "the database let a job end that never ran"
    connection.rollback()
    connection.close()


def fenced(world: World) -> Iterator[str]:
    spec = world.leased(world.one)
    world.one.post(spec, result_of(spec))
    lease = spec.model_copy(update={"lease_s": 0.4, "heartbeat_s": 0.1})
    sent_at_s = now_s()
    with ServiceClient(NOBODY, 0.1) as client, Heartbeat(client, lease, sent_at_s, 0.75) as heart:
        while heart.cause() is None and now_s() < sent_at_s + 0.4:
            time.sleep(0.005)
        if heart.cause() is None:
            yield "a worker that was cut off went on past its lease"


def spooled(world: World) -> Iterator[str]:
    Spool(world.folder / "spool").put(Ticket("1" * 32, 1, "5" * 64), b"{}")
    if not Spool(world.folder / "spool").entries():
        yield "a finished result died with its worker"


PARTS: tuple[Callable[[World], Iterator[str]], ...] = (
    zombie,
    impostor,
    two_faced,
    repeated_claim,
    healthy,
    restart,
    repeated_submission,
    durable,
    guarded,
    fenced,
    spooled,
)


def trial(url: str, folder: Path) -> list[str]:
    """Everything that should not have been possible at the migrated database ``url``."""
    violations: list[str] = []
    statuses: list[int] = []
    settings = Settings(database_url=url, background=False, access=Access.OPEN)
    with TestClient(create_app(settings), raise_server_exceptions=False) as client:
        client.event_hooks["response"].append(lambda answer: statuses.append(answer.status_code))
        database: Any = client.app.state.database  # type: ignore[attr-defined]
        hands = [Hand(client, name) for name in ("w1", "w2")]
        for hand in hands:
            hand.introduce()
        world = World(client, database, folder, *hands)
        for part in PARTS:
            try:
                violations += [f"{part.__name__}: {sentence}" for sentence in part(world)]
            except (AssertionError, KeyError, ValueError) as error:
                violations.append(f"{part.__name__}: it could not go on: {error!r}"[:300])
        violations += [
            f"promise {f.number}: {f.sentence}" for f in verify(database).findings if f.breaches
        ]
    if faults := [status for status in statuses if status >= 500]:
        violations.append(f"{len(faults)} requests were answered with a fault")
    return violations
