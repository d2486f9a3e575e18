"""Revisions with a known truth go through the whole system, every part a real process:
a service, four workers, a child for each measurement in the checkout of its revision. What is found
is what happened, once each, with its range, its cause and its end.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from sqlalchemy import func, select

from benchmarks.contracts import JobState
from service.database.session import Database
from service.models import (
    ComparisonRow,
    ConfirmationRow,
    FindingEvent,
    FindingRow,
    Job,
    PendingAnalysis,
    Point,
)

CHILD = Path(__file__).with_name("scripted_revision.py")
START = datetime(2026, 3, 1, 2, tzinfo=UTC)
NODES = {"a": 1.0, "b": 1.004, "c": 0.997, "d": 1.001}
CASES = [
    {"workload": workload, "preset": "tiny", "axes": axes}
    for workload, axes in (
        ("resnet50", {}),
        ("nanogpt", {}),
        ("nanogpt", {"precision": "bf16"}),
        ("unet", {}),
    )
]
NIGHTS, FEW_NIGHTS = 30, 10
NIGHT_S = 120.0
"""Longest wait for one night to come to rest, on a busy machine."""


def revision_of(night: int) -> str:
    return f"r{night:02d}"


def code_of(number: int) -> dict[str, float]:
    """Speed of each workload at a revision, as a share of the usual one."""
    speed = {}
    if 7 <= number < 12:  # a regression, reverted in r12
        speed["unet"] = 0.95
    if number >= 14:  # an improvement of one cell
        speed["nanogpt precision=bf16"] = 1.06
    if number >= 22:  # a regression that stays
        speed["resnet50"] = 0.96
    return speed


def node_of(name: str, night: int) -> dict[str, Any]:
    """A node: all get another driver before night 18, and ``d`` becomes slow before night 25."""
    speed = (
        NODES[name] * (0.97 if night >= 18 else 1.0) * (0.92 if name == "d" and night >= 25 else 1)
    )
    facts = {
        "hw.device": "cpu",
        "hw.cpu.model": "a node's CPU",
        "hw.host": name,
        "sw.driver": "590.2" if night >= 18 else "580.1",
        "sw.python": "3.12.11",
        "sw.torch": "2.13.0",
    }
    return {"speed": speed, "facts": facts}


def cases_of(name: str, night: int) -> list[dict[str, Any]]:
    """What a node measures in a night: told beforehand, so that every run of this test is one."""
    own = list(NODES).index(name)
    return [case for place, case in enumerate(CASES) if (place + night) % len(NODES) == own]


@dataclass(frozen=True)
class Place:
    """Where everything lies, and where the service answers."""

    folder: Path
    database_url: str
    address: str

    def deploy(self) -> None:
        """Check every revision out.

        A worker tells of a new checkout up to a second later, and a night here takes half of one:
        a suspicion would be dropped where no worker is known yet to have the revision.
        """
        for night in range(NIGHTS):
            checkout = self.folder / "checkouts" / revision_of(night)
            checkout.mkdir(parents=True)
            facts = {"sw.benchmarks": f"code of {checkout.name}"}
            (checkout / "speed.json").write_text(json.dumps(code_of(night) | {"facts": facts}))

    def bring_nodes_to(self, night: int) -> None:
        """Let every node be as it is in a night."""
        for name in NODES:
            whole = self.folder / "nodes" / name / "node.new"
            whole.write_text(json.dumps(node_of(name, night)))
            whole.replace(whole.with_name("node.json"))


def environment(**settings: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("THROUGHLINE_")}
    return kept | {f"THROUGHLINE_{name}": value for name, value in settings.items()}


@contextmanager
def ended(process: subprocess.Popen[Any]) -> Iterator[subprocess.Popen[Any]]:
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@contextmanager
def serving(database_url: str) -> Iterator[str]:
    told = environment(
        DATABASE_URL=database_url, ACCESS="open", SWEEP_S="0.2", CONFIRMATIONS="1000"
    )
    command = [sys.executable, "-m", "service", "--port", "0"]
    with ended(subprocess.Popen(command, env=told, stderr=subprocess.PIPE, text=True)) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "serving on " in line:
                break
        with (Path(os.devnull)).open("w") as nowhere:
            drain = subprocess.Popen(["cat"], stdin=process.stderr, stdout=nowhere)
        with ended(drain):
            yield line.rpartition("serving on ")[2].strip()


@contextmanager
def working(place: Place, name: str) -> Iterator[None]:
    told = environment(
        URL=place.address,
        STATE_DIR=str(place.folder / "state"),
        WORKER_NAME=name,
        DEVICE="cpu",
        DATA_ROOT=str(place.folder / "nodes" / name),
        WORKER_TARGET=f"{place.folder}/checkouts/{{revision}}",
        CHILD_COMMAND=json.dumps([sys.executable, "-S", str(CHILD)]),
        CLAIM_WAIT_S="1",
        CANARY_EVERY_S="0",
    )
    log = (place.folder / f"worker-{name}.log").open("w")
    with log, ended(subprocess.Popen([sys.executable, "-m", "worker"], env=told, stderr=log)):
        yield


@pytest.fixture
def place(tmp_path: Path, sqlite_url: str) -> Iterator[Place]:
    """A service and four workers, all of them processes."""
    for name in NODES:
        (tmp_path / "nodes" / name).mkdir(parents=True)
    with ExitStack() as running:
        address = running.enter_context(serving(sqlite_url))
        place = Place(tmp_path, sqlite_url, address)
        place.deploy()
        for name in NODES:
            running.enter_context(working(place, name))
        yield place


def eventually(met: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + NIGHT_S
    while not met():
        assert time.monotonic() < deadline, f"{what} did not come to rest"
        time.sleep(0.05)


def submit(client: httpx2.Client, name: str, night: int, revision: str) -> None:
    body = {
        "cases": cases_of(name, night),
        "revision": revision,
        "revision_at": (START + timedelta(days=night)).isoformat(),
        "requires": {"worker": name},
    }
    assert client.post("/submissions", json=body).status_code == 201


def finished(database: Database, revision: str) -> bool:
    """Whether every case of a night has a result; to ask the service cost it half of its time."""
    jobs = select(Job.state).where(Job.revision == revision)
    with database.reading() as session:
        states = list(session.scalars(jobs))
    return len(states) >= len(CASES) and set(states) == {JobState.SUCCEEDED}


def at_rest(database: Database) -> bool:
    """Whether nothing waits to be analysed, compared or confirmed."""
    with database.reading() as session:
        waiting = (
            select(func.count()).select_from(PendingAnalysis),
            select(func.count()).select_from(ComparisonRow).where(ComparisonRow.state == "running"),
            select(func.count())
            .select_from(ConfirmationRow)
            .where(ConfirmationRow.state == "running"),
        )
        return not any(session.scalar(each) for each in waiting)


def measured_by(worker: str, since: str, database: Database) -> list[str]:
    """The revisions that a worker measured, from one on."""
    wanted = select(Point.revision).where(Point.worker == worker, Point.revision >= since)
    with database.reading() as session:
        return list(session.scalars(wanted.distinct().order_by(Point.revision)))


def lived_through(place: Place, client: httpx2.Client, database: Database, nights: int) -> None:
    """Measure so many nights, each to its end."""
    assert client.delete("/schedules/nightly").status_code == 204  # its slot may come meanwhile
    for night in range(nights):
        revision = revision_of(night)
        place.bring_nodes_to(night)
        for name in NODES:
            submit(client, name, night, revision)
        eventually(lambda: finished(database, revision), revision)  # noqa: B023
        eventually(lambda: at_rest(database), revision)


def told_of(finding: dict[str, Any]) -> tuple[str, ...]:
    return tuple(finding[name] for name in ("kind", "state", "cause", "last_good", "first_bad"))


def test_a_slower_revision_is_found_and_nothing_else(place: Place) -> None:
    database = Database(place.database_url)
    with httpx2.Client(base_url=f"{place.address}/api/v1", timeout=30) as client:
        lived_through(place, client, database, FEW_NIGHTS)
        [found] = client.get("/findings").json()["items"]
    database.close()
    assert told_of(found) == ("regression", "open", "code", "r06", "r07")
    assert found["sentence"].startswith("unet")


@pytest.mark.slow
@pytest.mark.timeout(900)  # a minute on a quiet machine; four nodes share two cores here
def test_what_is_found_is_what_happened_once_each(place: Place) -> None:
    database = Database(place.database_url)
    with httpx2.Client(base_url=f"{place.address}/api/v1", timeout=30) as client:
        lived_through(place, client, database, NIGHTS)
        told = client.get("/findings").json()["items"][::-1]
        report = client.get("/findings/report").json()
    seen = [told_of(each) for each in told]
    assert seen[:4] == [
        ("regression", "resolved", "code", "r06", "r07"),
        ("improvement", "open", "code", "r13", "r14"),
        ("regression", "open", "environment", "r17", "r18"),
        ("regression", "open", "code", "r21", "r22"),
    ]
    assert [each[:3] for each in seen[4:]] == [("bad_node", "open", "node")]
    # The first night is told by what it happened to run; on a busy machine that may be nothing.
    assert seen[4][4] in measured_by("d", "r25", database)[:2]
    assert told[0]["sentence"].startswith("unet")
    assert "580.1 -> 590.2" in told[2]["sentence"]
    assert told[4]["worker"] == "d"
    assert report["active"] == 4
    assert report["expected_false"] < 0.5
    with database.reading() as session:
        closing = session.scalars(
            select(FindingEvent.detail).where(FindingEvent.action == "resolve")
        ).all()
        announced = session.scalar(
            select(func.count()).select_from(FindingEvent).where(FindingEvent.action == "open")
        )
        findings = session.scalar(select(func.count()).select_from(FindingRow))
    assert closing == ["back at its level since r12"]
    assert announced == findings == 5
    database.close()
