"""Kills worker, builder and service at every state of builds, while they bisect.

The real service, a real worker and its real builds (git and uv) bisect commits of a local
repository. Each commit's own ``benchmarks`` is a script that tells made-up times of its turns,
slower from the culprit on, and checks that its files are whole. Prints one row as JSON. It runs as
a process of its own, because it inherits every orphan.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import psutil
from builders.repository import LOCK, PROJECT, git

from service.database.migrate import upgrade
from service.database.session import Database
from service.maintenance.verify import verify
from trials.chaos.crew import CHILD
from trials.chaos.fork import Crew
from trials.chaos.holds import Holds, Point
from trials.chaos.replica import Replica
from worker.child.guard import PR_SET_CHILD_SUBREAPER

COMMITS, FILES = 12, 40
"""Commits after the good end, and files of each."""
NAME = "builder"
HALVES = ("checkouts/*/*.part*", "environments/*.part", "mirrors/**/*.lock", "mirrors/**/tmp_*")
REACH_S, LIMIT_S, GONE_S = 4.0, 120.0, 10.0
"""Waits for a place to be reached, for anything else, and for orphans to end."""
MEASURES = """
import hashlib, random

HERE = Path(__file__).parents[1]


def held(what):
    folder = Path(os.environ["CHAOS_HOLDS"])
    with suppress(OSError):
        if (folder / "armed").read_text().split()[:2] == ["midst", what]:
            with (folder / "reached").open("x") as file:
                file.write(str(os.getpid()))
            while (folder / "armed").exists():
                time.sleep(0.02)


def main():
    asked = read()
    event(asked, "build")
    part = asked["spec"]["duet"]
    said = json.loads((HERE / "manifest.json").read_text())
    found = {name: hashlib.sha256((HERE / name).read_bytes()).hexdigest() for name in said["files"]}
    inside = Path(sys.prefix).resolve().is_relative_to(HERE.parents[2])
    if found != said["files"] or not inside:
        (Path(os.environ["CHAOS_HOLDS"]) / "half-built").write_text(str(HERE))
    end = socket.socket(fileno=part["socket_fd"])
    end.sendall(b"h")
    assert end.recv(1), "the other side is gone"
    held("pair")
    turns = []
    for _ in range(part["turns"]):
        now = time.monotonic()
        window = {"start_s": now, "end_s": now + 0.01}
        turns.append({"window": window, "steps": 2, "step_s": random.gauss(said["step_s"], 1e-4)})
    print(json.dumps(result(asked, turns=turns, replicates=[], batch_items=8)))


main()
"""


@dataclass
class Bisected:
    """What became of bisections whose processes were killed."""

    kills: int = 0
    seed: int = 0
    commits: int = COMMITS
    bisections: int = 0
    undisturbed: dict[str, Any] = field(default_factory=dict)
    """The bisection without kills."""
    by_victim: Counter[str] = field(default_factory=Counter)
    by_state: Counter[str] = field(default_factory=Counter)
    by_stage: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    """Pairs that told nothing."""
    answers: Counter[str] = field(default_factory=Counter)
    wall_s: float = 0.0
    violations: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Kill:
    """One kill: where the build or pair is held, and who dies there."""

    point: Point
    victim: str


def plan(chance: random.Random, kills: int) -> list[Kill]:
    """Each state with each victim once, then again in another order, as many as are asked for."""
    commands = {
        "mirror": ("init",),
        "fetching": ("fetch",),
        "worktree": ("read-tree", "checkout-index"),
        "installing": ("sync",),
    }
    every = [
        (state, when, what, victim)
        for state, whats in commands.items()
        for what in whats
        for when in ("before", "midst", "after")
        for victim in ("worker", "builder", "service")
    ]
    others = [
        ("renaming", when, f"rename-{one}")
        for one in ("environment", "checkout")
        for when in ("before", "after")
    ]
    others += [("measuring", "midst", "pair")] * 3
    every += [(*place, victim) for place in others for victim in ("worker", "service")]
    chosen: list[Kill] = []
    while len(chosen) < kills:
        chance.shuffle(every)
        for state, when, what, victim in every[: kills - len(chosen)]:
            longest_s = 0.15 if what == "sync" else 0.012
            chosen.append(Kill(Point(state, when, what, chance.uniform(0.0, longest_s)), victim))
    return chosen


class Origin:
    """A bare repository of commits, one of which is slower, and a branch that moves."""

    def __init__(self, folder: Path, count: int) -> None:
        self._folder = folder
        self.culprit = count // 2 + 1
        self.bare = folder / "origin.git"
        git(folder, "init", "--quiet", "--initial-branch=main", str(folder / "origin"))
        self._checkout = folder / "origin"
        self.commits = [self._commit(place) for place in range(count + 1)]
        git(folder, "clone", "--quiet", "--bare", str(self._checkout), str(self.bare))

    def move(self) -> None:
        """Push one more commit to a branch, so that there is something to fetch."""
        (self._checkout / "other").write_bytes(os.urandom(2**18))
        git(self._checkout, "add", "--all")
        self._commit_all("other")
        there = (str(self.bare), "+HEAD:refs/heads/other")
        git(self._checkout, "push", "--quiet", *there)

    def _commit(self, place: int) -> str:
        package = self._checkout / "benchmarks"
        package.mkdir(exist_ok=True)
        (package / "__init__.py").touch()
        scripted = CHILD.read_text().partition("def main():")[0]
        (package / "__main__.py").write_text(scripted + MEASURES)
        for number in range(FILES):
            (self._checkout / f"file-{number:02}").write_text(f"{place} {number}\n" * 500)
        (self._checkout / "pyproject.toml").write_text(PROJECT)
        (self._checkout / "uv.lock").write_text(LOCK + "\n" * (place // 2))
        files = {
            str(path.relative_to(self._checkout)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in (*self._checkout.glob("*"), *package.glob("*.py"))
            if path.is_file() and path.name != "manifest.json"
        }
        step_s = 0.103 if place >= self.culprit else 0.1
        manifest = {"files": files, "step_s": step_s}
        (self._checkout / "manifest.json").write_text(json.dumps(manifest))
        git(self._checkout, "add", "--all")
        return self._commit_all(f"Change number {place}")

    def _commit_all(self, message: str) -> str:
        git(self._checkout, "commit", "--quiet", "--message", message)
        return git(self._checkout, "rev-parse", "HEAD")


class Trial:
    """One bisection after another, each with kills until the plan is done."""

    def __init__(
        self, outcome: Bisected, folder: Path, kills: list[Kill], stack: ExitStack
    ) -> None:
        """Start the service, and make ready what starts workers; ``stack`` ends both."""
        self._outcome, self._folder, self._left = outcome, folder, kills
        self._holds = Holds(folder / "holds")
        self._origin = Origin(folder, outcome.commits)
        self._url = f"sqlite:///{folder}/throughline.sqlite3"
        upgrade(self._url)
        quick = {"LEASE_S": "20", "HEARTBEAT_S": "0.5", "SWEEP_S": "0.1", "CONFIRMATIONS": "0"}
        self._service = Replica(self._url, folder, **quick)
        stack.callback(self._service.kill)
        self._service.start()
        self._service.wait()
        address = f"http://127.0.0.1:{self._service.port}"
        self._client = stack.enter_context(httpx2.Client(base_url=f"{address}/api/v1", timeout=30))
        (folder / "targets.toml").write_text(
            f'[targets.ours]\ngit = "file://{self._origin.bare}"\ninstall = "uv-sync"\n'
        )
        self._temporary = folder / "tmp"
        self._temporary.mkdir()
        more = {
            "PATH": f"{self._holds.commands}:{os.environ['PATH']}",
            "TMPDIR": str(self._temporary),
            "CHAOS_PART": "",
            "CHAOS_HOLDS": str(self._holds.folder),
            "THROUGHLINE_TARGETS": str(folder / "targets.toml"),
            "THROUGHLINE_CONTAINMENT": "process_group",
        }
        kinds = {NAME: "building"}
        self._crew = stack.enter_context(Crew(folder, address, kinds, (0.1, 1.0), more))
        self._mine = {child.pid for child in psutil.Process().children()}
        self._killed_at = -1

    def bisection(self) -> dict[str, Any]:
        """Bisect with the kills that are left, from nothing built; return how it ended."""
        shutil.rmtree(self._folder / "builds", ignore_errors=True)
        self._crew.start(NAME)
        self._killed_at = -1
        at = self._start()
        until_s = time.monotonic() + 10 * LIMIT_S
        while (told := self._read(at))["state"] == "running":
            assert time.monotonic() < until_s, f"it did not end: {told}"
            if self._left:
                self._disturb(at)
            else:
                time.sleep(0.05)
        self._crew.stop(LIMIT_S)
        self._check(told)
        return told

    def _start(self) -> str:
        commits = [
            {"revision": commit, "author": "A", "title": f"Change number {place}"}
            for place, commit in enumerate(self._origin.commits)
        ]
        case = {"workload": "resnet50", "preset": "tiny"}
        body = {"commits": commits, "case": case, "most_processes": 1_000}
        answer: Any = None
        for _ in _patiently("the worker has the commits"):
            answer = self._client.post("/bisections", json=body)
            if answer.status_code == 201:
                break
        return str(answer.json()["id"])

    def _read(self, at: str) -> dict[str, Any]:
        told: dict[str, Any] = self._client.get(f"/bisections/{at}").raise_for_status().json()
        return told

    def _disturb(self, at: str) -> None:
        """Carry out the next kill, or put it off if its place is not reached."""
        told = self._read(at)
        ended = sum(not probe["under_way"] for probe in told["probes"])
        may = (kill for kill in self._left if kill.victim == "service" or ended != self._killed_at)
        chosen = next(may, None)
        if chosen is None:  # a job that was hit is given its second attempt
            time.sleep(0.05)
            return
        self._left.remove(chosen)
        if chosen.point.what == "fetch":
            self._origin.move()
        self._holds.arm(chosen.point)
        until_s = time.monotonic() + REACH_S
        while (pid := self._holds.reached()) is None and time.monotonic() < until_s:
            time.sleep(0.01)
        if pid is None:
            self._holds.release()
            self._left.append(chosen)
            return
        self._kill(chosen, pid)
        told = self._read(at)
        self._outcome.by_stage[told["stage"]] += 1
        if chosen.victim != "service":
            self._killed_at = sum(not probe["under_way"] for probe in told["probes"])

    def _kill(self, kill: Kill, pid: int) -> None:
        self._outcome.kills += 1
        self._outcome.by_victim[kill.victim] += 1
        self._outcome.by_state[kill.point.state] += 1
        sys.stderr.write(f"{self._outcome.kills} {kill.victim} {kill.point.line}")
        if kill.victim == "builder":
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            self._holds.release()
        elif kill.victim == "worker":
            self._crew.send(NAME, signal.SIGKILL)
            self._await_nothing_left(f"{kill}")
            self._holds.release()
            self._crew.start(NAME)
        else:
            self._service.kill()
            self._holds.release()
            self._service.start()
            self._service.wait()

    def _await_nothing_left(self, after: str) -> None:
        until_s = time.monotonic() + GONE_S
        while left := self._left_over():
            if time.monotonic() > until_s:
                self._outcome.violations.append(f"{len(left)} processes outlived {after}")
                for process in left:
                    with suppress(psutil.Error):
                        process.kill()
                return
            time.sleep(0.01)

    def _left_over(self) -> list[psutil.Process]:
        """Processes that are neither the service's nor the crew's own."""
        service = self._service.process
        ours = self._mine | ({service.pid} if service else set())
        if service:
            with suppress(psutil.Error):
                children = psutil.Process(service.pid).children(recursive=True)
                ours |= {one.pid for one in children}
        left = []
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                if process.status() == psutil.STATUS_ZOMBIE:
                    if process.pid not in ours:
                        with suppress(ChildProcessError):
                            os.waitpid(process.pid, os.WNOHANG)
                elif process.pid not in ours:
                    left.append(process)
        return left

    def _check(self, told: dict[str, Any]) -> None:
        """Look for what must not be: another answer, a half that was used, something left."""
        outcome = self._outcome
        outcome.bisections += 1
        answer = f"{told['outcome']} {told['first']}-{told['last']}"
        outcome.answers[answer] += 1
        if answer != f"culprit {self._origin.culprit}-{self._origin.culprit}":
            outcome.violations.append(f"The answer was {answer}: {told['sentence']} {told['note']}")
        untold = [probe for probe in told["probes"] if probe["difference"] is None]
        outcome.lost += len(untold)
        if (half := self._holds.folder / "half-built").exists():
            outcome.violations.append(f"It measured what was half built: {half.read_text()}")
        outcome.violations += [f"{path} was left" for path in self._leftovers()]
        self._await_nothing_left("its worker's end")

    def _leftovers(self) -> Iterator[Path]:
        yield from self._temporary.iterdir()
        builds = self._folder / "builds"
        for pattern in HALVES:
            yield from builds.glob(pattern)

    def end(self) -> None:
        """Have the database checked."""
        database = Database(self._url)
        broken = [one for one in verify(database).findings if one.breaches]
        database.close()
        self._outcome.violations += [f"promise {one.number}: {one.sentence}" for one in broken]


def _patiently(what: str) -> Iterator[None]:
    until_s = time.monotonic() + LIMIT_S
    while time.monotonic() < until_s:
        yield
        time.sleep(0.1)
    raise AssertionError(f"it did not come to be that {what}")


def run(arguments: argparse.Namespace) -> Bisected:
    """Bisect with kills until there were as many as are asked for."""
    began_s = time.monotonic()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    outcome = Bisected(seed=arguments.seed, commits=arguments.commits)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bisected-")))
        left: list[Kill] = []
        trial = Trial(outcome, folder, left, stack)
        if arguments.undisturbed:
            alone = trial.bisection()
            outcome.undisturbed = {name: alone[name] for name in ("processes", "sentence")}
        left += plan(random.Random(arguments.seed), arguments.kills)
        while left:
            trial.bisection()
        trial.end()
    if outcome.lost > outcome.kills - outcome.by_victim["service"]:
        outcome.violations.append(f"{outcome.lost} pairs were lost in {outcome.kills} kills")
    outcome.wall_s = round(time.monotonic() - began_s, 1)
    return outcome


def parser() -> argparse.ArgumentParser:
    """What may be asked for."""
    parser = argparse.ArgumentParser(prog="python -m trials.chaos.bisected", description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--commits", type=int, default=COMMITS)
    parser.add_argument("--undisturbed", action="store_true", help="first bisect without kills")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    return parser


if __name__ == "__main__":
    sys.stdout.write(json.dumps(vars(run(parser().parse_args()))) + "\n")
