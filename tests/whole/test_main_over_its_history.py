"""A branch of 24 commits is measured night by night as it moves, every part a real process: a
service, a worker that builds from a bare repository, a child for each measurement. Commit 13 makes
a step 3 % slower, which opens a finding; `throughline bisect` names it; the idle worker measures
what lies between two nights until the finding's range is one commit; commit 20 mends it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from builders import main_history, service_program
from builders.forked import ForkServer
from builders.main_history import (
    COMMITS,
    CRASHING,
    MENDED,
    MERGE,
    REVERTED,
    SLOW,
    UNBUILDABLE,
    History,
    git,
)
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from benchmarks.contracts import FINAL_STATES, Status
from cli.exits import Exit
from service.database.session import Database
from service.models import (
    ComparisonRow,
    ConfirmationRow,
    Job,
    PendingAnalysis,
    ResultRow,
    Schedule,
    ScheduleRun,
    Submission,
    WorkerRow,
)

ROOT = Path(__file__).parents[2]
CHILD = Path(__file__).with_name("simulated_device.py")
GOOD, BAD = 9, 17
BETWEEN = [SLOW, GOOD + 1, SLOW - 1, SLOW, SLOW - 1]
"""Medians that the idle worker measures, then both ends again; a night has tried the one that
crashes."""
HEADS = (*range(1, 6), *range(7, GOOD + 1), CRASHING, UNBUILDABLE, *range(BAD, COMMITS + 1))
"""Where main is night by night: of what is pushed in a day only the newest commit is measured."""
SERVICE = {"ROLE": "all", "SWEEP_S": "0.2", "BACKFILL": "100"}
LIMIT_S = 240.0
"""Longest wait for anything, on a busy machine."""
WORKER = """
import runpy
from builders import undelayed
from worker import checkouts
from worker.targets import builds
undelayed.apply()
builds.FETCH_EVERY_S = checkouts.TELL_AGAIN_S = 2.0  # a night takes seconds here
runpy.run_module("worker", run_name="__main__")
"""


@dataclass(frozen=True)
class Team:
    """A team's repository and its service, and a look at what the service has stored."""

    history: History
    address: str
    database: Database
    client: httpx2.Client

    def night_at(self, number: int) -> None:
        """Push main to a commit, let a day pass, and wait until the night is over."""
        commit = self.history.push(number)
        eventually(lambda: self._sees(commit), f"the worker's fetch of commit {number}")
        with self.database.writing() as session:
            _a_day_earlier(session)
        eventually(lambda: self._is_over(commit), f"the night of commit {number}")

    def _sees(self, commit: str) -> bool:
        with self.database.reading() as session:
            [worker] = session.scalars(select(WorkerRow)).all()
        return [head["commit"] for head in worker.heads or ()] == [commit]

    def _is_over(self, commit: str) -> bool:
        """Whether all of a commit was measured, and nothing waits to be judged or confirmed."""
        with self.database.reading() as session:
            states = session.scalars(select(Job.state).where(Job.revision == commit)).all()
            waiting = [
                select(func.count()).select_from(PendingAnalysis),
                select(func.count()).select_from(Job).where(Job.state.not_in(FINAL_STATES)),
                *(
                    select(func.count()).select_from(row).where(row.state == "running")
                    for row in (ComparisonRow, ConfirmationRow)
                ),
            ]
            return bool(states) and not any(session.scalar(one) for one in waiting)

    def findings(self) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.client.get("/findings").json()["items"]
        return items

    def schedule(self, name: str, hours: int) -> None:
        """Have main measured each day, the next time so many hours and 20 minutes from now."""
        at = datetime.now(UTC) + timedelta(hours=hours, minutes=20)
        asked = {"cron": f"{at:%M} {at:%H} * * *", "suite": "smoke"}
        body = asked | {"revision_rule": "ref:ours:main"}
        assert self.client.put(f"/schedules/{name}", json=body).status_code == 200

    def between_nights(self) -> list[str]:
        """The commits that the worker measured because it was idle, in their order."""
        query = select(Submission.revision).where(Submission.source == "backfill:nightly")
        with self.database.reading() as session:
            return list(session.scalars(query.order_by(Submission.created_at)))

    def narrowed(self, finding: str, good: int, bad: int) -> None:
        """Wait until what was measured since puts a finding between two commits."""
        commits = self.history.commits
        ends = {"last_good": commits[good], "first_bad": commits[bad]}
        address = f"/findings/{finding}"
        eventually(lambda: self.client.get(address).json()["narrowed"] == ends, "the backfill")

    def ended(self) -> dict[str, set[str]]:
        """How the measurements of each revision ended."""
        query = select(ResultRow.revision, ResultRow.status).distinct()
        found: dict[str, set[str]] = {}
        with self.database.reading() as session:
            for revision, status in session.execute(query):
                found.setdefault(revision, set()).add(status)
        return found


def _a_day_earlier(session: Session) -> None:
    """Let all that the schedule has done, and has to do next, be a day earlier."""
    for slot in session.scalars(select(ScheduleRun).order_by(ScheduleRun.due_at)):
        slot.due_at -= timedelta(days=1)
        session.flush()
    nightly = session.get_one(Schedule, "nightly")
    assert nightly.next_due_at is not None
    nightly.next_due_at -= timedelta(days=1)


def eventually(met: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not met():
        assert time.monotonic() < deadline, f"{what} did not come to its end"
        time.sleep(0.05)


@contextmanager
def working(folder: Path, address: str, origin: Path) -> Iterator[None]:
    """A worker that builds what is on the main branch of a repository."""
    targets = folder / "targets.toml"
    targets.write_text(
        f'[targets.ours]\ngit = "{origin}"\nrefs = ["refs/heads/main"]\npath = "src"\n'
    )
    settings = {
        "URL": address,
        "STATE_DIR": str(folder / "state"),
        "DEVICE": "cpu",
        "DATA_ROOT": str(folder),
        "TARGETS": str(targets),
        "CHILD_COMMAND": json.dumps([sys.executable, "-S", str(CHILD)]),
        "CLAIM_WAIT_S": "1",
        "CANARY_EVERY_S": "0",
    }
    kept = {k: v for k, v in os.environ.items() if not k.startswith("THROUGHLINE_")}
    told = kept | {f"THROUGHLINE_{name}": value for name, value in settings.items()}
    told["PYTHONPATH"] = os.pathsep.join(str(one) for one in (ROOT, ROOT / "tests"))
    with (folder / "worker.log").open("w") as log:
        process = subprocess.Popen([sys.executable, "-c", WORKER], env=told, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        process.wait(LIMIT_S)


@pytest.fixture
def team(tmp_path: Path, sqlite_url: str) -> Iterator[Team]:
    history = main_history.written(tmp_path)
    history.push(0)
    database = Database(sqlite_url)
    with (
        service_program.serving(sqlite_url, **SERVICE) as (address, _),
        httpx2.Client(base_url=f"{address}/api/v1", timeout=30) as client,
        working(tmp_path, address, history.origin),
    ):
        eventually(lambda: bool(client.get("/workers").json()["items"]), "the worker's start")
        yield Team(history, address, database, client)
    database.close()


@pytest.mark.slow
@pytest.mark.timeout(900)  # a minute on a quiet machine
def test_the_slow_commit_of_a_branch_is_found_named_and_mended(
    team: Team, forks: ForkServer
) -> None:
    team.schedule("nightly", hours=12)
    team.schedule("soon", hours=0)
    commits = team.history.commits
    for number in HEADS:
        if number == MENDED:
            [finding] = team.findings()
            assert (finding["state"], finding["cause"]) == ("open", "code")
            assert (finding["last_good"], finding["first_bad"]) == (commits[GOOD], commits[BAD])
            said = bisect(team, forks, finding["id"])
            assert not team.between_nights(), "a schedule is soon to need the worker"
            assert team.client.delete("/schedules/soon").status_code == 204
            team.narrowed(finding["id"], SLOW - 1, SLOW)
            assert team.between_nights() == [commits[place] for place in BETWEEN]
        team.night_at(number)
    [mended] = team.findings()
    assert (mended["id"], mended["state"]) == (finding["id"], "resolved")
    named = f'{commits[SLOW][:10]} (Ada Lovelace, "Reapply "Check all gradients"") changed it.'
    assert said.startswith(named), said
    assert f"{commits[CRASHING][:10]} beside {commits[GOOD][:10]}: The child died" in said
    ended = team.ended()
    odd = {UNBUILDABLE: Status.UNBUILDABLE, CRASHING: Status.CRASHED}
    for number in HEADS:
        assert ended[commits[number]] == {odd.get(number, Status.OK)}
    on_the_side = git(team.history.checkout, "rev-list", f"^{commits[MERGE]}^", "side").split()
    assert len(on_the_side) == 2
    assert not ended.keys() & {*on_the_side, commits[REVERTED]}, "nobody asked for these"


def bisect(team: Team, forks: ForkServer, finding: str) -> str:
    """Run `throughline bisect FINDING` in the checkout; give what it prints."""
    told = {k: v for k, v in os.environ.items() if not k.startswith("THROUGHLINE_")}
    done = forks.run(
        *("cli", "bisect", finding),
        folder=team.history.checkout,
        environment=told | {"THROUGHLINE_URL": team.address},
        limit_s=LIMIT_S,
    )
    assert done.returncode == Exit.OK, done.stdout + done.stderr
    return done.stdout + done.stderr
