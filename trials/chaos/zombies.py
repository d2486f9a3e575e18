"""Workers that freeze with a finished result, are given up, and wake when another has their job."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
from sqlalchemy import text

from service.database.session import Database
from trials.chaos import journal
from trials.chaos.fork import Crew
from trials.chaos.journal import Journal
from trials.chaos.replica import Replica

LEASE_S = 1.5


@dataclass
class Awakenings:
    """What came of them."""

    database: str
    zombies: int
    wall_s: float = 0.0
    lost: int = 0
    counted: int = 0
    """Results that count: each job's one, from whoever took it over."""
    late: int = 0
    """Results of zombies that are stored, shown by the API, and do not count."""
    violations: list[str] = field(default_factory=list)


def awaken(url: str, folder: Path, rounds: int, zombies: int) -> Awakenings:
    """Let ``zombies`` workers freeze and wake, ``rounds`` times, on a migrated, empty database."""
    began_s = time.monotonic()
    outcome = Awakenings(url.partition(":")[0], rounds * zombies)
    kinds = {f"z{number:02}": "zombie" for number in range(zombies)}
    kinds |= {f"w{number:02}": "light" for number in range(4)}
    quick = {"LEASE_S": str(LEASE_S), "HEARTBEAT_S": "0.3", "SWEEP_S": "0.1"}
    replica = Replica(url, folder, **quick)
    with ExitStack() as stack:
        stack.callback(replica.kill)
        replica.start()
        replica.wait()
        address = f"http://127.0.0.1:{replica.port}"
        database = Database(url)
        stack.callback(database.close)
        client = stack.enter_context(httpx2.Client(base_url=f"{address}/api/v1", timeout=30))
        crew = stack.enter_context(Crew(folder, address, kinds, (0.01, 0.05)))
        for number in range(rounds):
            _one_round(number, zombies, database, client, crew, folder)
        crew.stop(10.0)
        outcome.late = _shown(client)
    _check(outcome, url, folder)
    outcome.wall_s = time.monotonic() - began_s
    return outcome


def _one_round(
    number: int, zombies: int, database: Database, client: httpx2.Client, crew: Crew, folder: Path
) -> None:
    case = {"workload": "unet", "preset": "tiny"}
    body = {"cases": [case] * zombies, "revision": f"r{number}"}
    submission = client.post("/submissions", json=body).raise_for_status().json()
    Journal(folder / "submitter.journal").note(
        "submitted", jobs=[j["id"] for j in submission["jobs"]]
    )
    for name in [f"z{place:02}" for place in range(zombies)]:
        crew.start(name)
    frozen = (number + 1) * zombies
    _until(lambda: _count(folder, "finished", "z") == frozen, "all zombies are frozen")
    for name in [f"w{place:02}" for place in range(4)]:
        crew.start(name)
    done = "SELECT count(*) FROM jobs WHERE state IN ('succeeded', 'failed')"
    _until(lambda: _ask(database, done) == frozen, "others have taken every job over")
    for place in range(4):
        crew.send(f"w{place:02}", signal.SIGTERM)
    for place in range(zombies):
        crew.send(f"z{place:02}", signal.SIGCONT)
        crew.send(f"z{place:02}", signal.SIGTERM)
    _until(lambda: _count(folder, "kept", "z") == frozen, "every zombie has its answer")
    crew.stop(10.0)


def _count(folder: Path, kind: str, first: str) -> int:
    mark = f'"kind": "{kind}"'
    return sum(path.read_text().count(mark) for path in folder.glob(f"{first}*.journal"))


def _ask(database: Database, question: str) -> int:
    with database.reading() as session:
        return int(session.execute(text(question)).scalar_one())


def _until(true: Callable[[], bool], what: str, limit_s: float = 90.0) -> None:
    until_s = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < until_s, f"it did not come to be that {what}"
        time.sleep(0.05)


def _shown(client: httpx2.Client) -> int:
    """How many results the API shows that do not count."""
    shown, cursor = 0, None
    while True:
        query = {"limit": 200} | ({"cursor": cursor} if cursor else {})
        page = client.get("/results", params=query).raise_for_status().json()
        shown += sum(not result["counted"] for result in page["items"])
        cursor = page["next_cursor"]
        if cursor is None:
            return shown


def _check(outcome: Awakenings, url: str, folder: Path) -> None:
    database = Database(url)
    outcome.violations += journal.check(database, folder).violations
    outcome.counted = _ask(database, "SELECT count(*) FROM results WHERE counted")
    outcome.lost = _ask(database, "SELECT count(*) FROM attempts WHERE state = 'lost'")
    wrong = "SELECT count(*) FROM results WHERE counted AND worker LIKE 'z%'"
    if count := _ask(database, wrong):
        outcome.violations.append(f"{count} results of zombies count.")
    database.close()
    if (outcome.late, outcome.counted) != (outcome.zombies, outcome.zombies):
        outcome.violations.append(
            "Not every zombie's result is shown, or not every job counts once."
        )


def take_over(url: str, folder: Path) -> float:
    """Seconds from a worker's death to the next lease of its job, with the settings' defaults."""
    replica = Replica(url, folder)
    with ExitStack() as stack:
        stack.callback(replica.kill)
        replica.start()
        replica.wait()
        address = f"http://127.0.0.1:{replica.port}"
        client = stack.enter_context(httpx2.Client(base_url=f"{address}/api/v1", timeout=30))
        crew = stack.enter_context(
            Crew(folder, address, {"dies": "light", "next": "light"}, (600.0, 600.0))
        )
        case = {"workload": "unet", "preset": "tiny"}
        job = client.post("/jobs", json={"case": case, "revision": "r"}).json()["id"]
        crew.start("dies")
        _until(lambda: client.get(f"/jobs/{job}").json()["state"] == "running", "the job runs")
        crew.start("next")
        time.sleep(1.0)  # both are at work; a heartbeat is yet to come
        crew.send("dies", signal.SIGKILL)
        died_s = time.monotonic()
        _until(lambda: client.get(f"/jobs/{job}").json()["attempt"] == 2, "the job is leased again")
        return time.monotonic() - died_s
