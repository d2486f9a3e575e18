"""`throughline bisect` with a real service and a worker that builds the commits of a repository."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest
from builders.analysed import analyse
from builders.bisected import end_at
from builders.commands import eventually, free_port, running, serving, working
from builders.forked import ForkServer

from cli import bisected_range
from cli.exits import Exit, Stop
from cli.follow_bisection import leading_words
from service.database.session import Database
from service.schemas.bisections import BisectedCommit, BisectionStage, BisectionView

Run = Callable[..., subprocess.CompletedProcess[str]]
Throughline = Callable[[Path, dict[str, str]], Run]
COMMITS, CULPRIT, UNBUILDABLE = 8, 6, 4
"""The commit that does not build is the one in the middle, which is probed first."""


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=Ada Lovelace", "-c", "user.email=t@example.org"]
    done = subprocess.run(
        ["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def code(factor: float) -> str:
    """A benchmark that is ``factor`` times as fast as the script, give or take 0.1 %."""
    script = Path(__file__).with_name("scripted_benchmark.py").read_text()
    noise = "import random\n\n\ndef noise():\n    return random.gauss(1, 0.001)\n\n\n"
    for old, new in (
        ("    rate = RATES[", f"    rate = noise() * {factor} * RATES["),
        ("time.sleep(0.05)", "time.sleep(0)"),
        ("def main()", f"{noise}def main()"),
    ):
        assert old in script, "the script is another one by now"
        script = script.replace(old, new, 1)
    return script


def commit(checkout: Path, place: int) -> str:
    """Commit number ``place``; without its folder one cannot be built."""
    bench = checkout / "bench"
    shutil.rmtree(bench, ignore_errors=True)
    if place != UNBUILDABLE:
        bench.mkdir()
        (bench / "child.py").write_text(code(0.97 if place >= CULPRIT else 1.0))
        (bench / "place.txt").write_text(str(place))
    git(checkout, "add", "-A")
    git(checkout, "commit", "-q", "-m", f"Change number {place}")
    return git(checkout, "rev-parse", "HEAD")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bisect")


@pytest.fixture(scope="module")
def history(folder: Path) -> list[str]:
    """A repository of nine commits, and a checkout of it: the working folder of the commands."""
    git(folder, "init", "-q", "--initial-branch=main", str(folder / "checkout"))
    return [commit(folder / "checkout", place) for place in range(COMMITS + 1)]


@pytest.fixture(scope="module")
def environment(
    folder: Path, history: list[str], environment_in: Callable[[Path], dict[str, str]]
) -> dict[str, str]:
    targets = folder / "targets.toml"
    targets.write_text(f'[targets.ours]\ngit = "{folder / "checkout"}"\npath = "bench"\n')
    return environment_in(folder) | {
        "THROUGHLINE_URL": f"http://127.0.0.1:{free_port()}",
        "THROUGHLINE_CLAIM_WAIT_S": "0.5",
        "THROUGHLINE_SWEEP_S": "0.2",
        "THROUGHLINE_TARGETS": str(targets),
        "THROUGHLINE_CHILD_COMMAND": json.dumps([sys.executable, "child.py"]),
    }


@pytest.fixture(scope="module")
def bisect(
    forks: ForkServer,
    folder: Path,
    environment: dict[str, str],
    throughline_in: Throughline,
) -> Iterator[Run]:
    """`throughline bisect` in the checkout, beside a service and a worker."""
    throughline = throughline_in(folder / "checkout", environment)
    assert throughline("migrate").returncode == Exit.OK
    with ExitStack() as stack:
        stack.enter_context(serving(forks, folder, environment))
        stack.enter_context(working(forks, folder, environment))
        workers = f"{environment['THROUGHLINE_URL']}/api/v1/workers"
        eventually(lambda: '"targets":{"ours":""}' in httpx2.get(workers).text)
        yield lambda *arguments: throughline("bisect", *arguments)


def test_the_slower_commit_is_named_past_one_that_does_not_build(
    bisect: Run, history: list[str]
) -> None:
    done = bisect(f"{history[0]}..{history[-1]}", "unet")
    assert done.returncode == Exit.OK, done.stdout + done.stderr
    culprit = history[CULPRIT][:10]
    assert f'{culprit} (Ada Lovelace, "Change number {CULPRIT}") changed it.' in done.stdout
    assert "/bisections/" in done.stdout
    assert "Bisecting 8 commits" in done.stderr
    assert "Pair 1: " in done.stderr
    assert "Likeliest: " in done.stderr
    assert f"{history[UNBUILDABLE][:10]} beside {history[0][:10]}: " in done.stderr


def test_commits_that_do_not_differ_end_with_1(bisect: Run, history: list[str]) -> None:
    done = bisect(f"{history[0]}..{history[3]}", "unet", "--json")
    assert done.returncode == Exit.FAILED, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert (told["outcome"], len(told["commits"])) == ("environment", 4)
    again = bisect(told["id"], "--follow", "--json")
    assert json.loads(again.stdout)["outcome"] == "environment"


@pytest.mark.slow
def test_a_findings_commits_are_listed_by_the_worker_where_no_checkout_is(
    forks: ForkServer,
    folder: Path,
    environment: dict[str, str],
    history: list[str],
    throughline_in: Throughline,
) -> None:
    outside = folder / "outside"
    outside.mkdir()
    port = free_port()
    environment = environment | {
        "THROUGHLINE_URL": f"http://127.0.0.1:{port}",
        "THROUGHLINE_STATE_DIR": str(outside / "state"),
    }
    throughline = throughline_in(outside, environment)
    assert throughline("migrate").returncode == Exit.OK
    database = Database(f"sqlite:///{outside / 'state' / 'throughline.sqlite3'}")
    analyse(database)
    finding = end_at(database, history[2], history[-1])
    database.close()
    with ExitStack() as stack:
        stack.enter_context(running(forks, outside, environment, "serve", "--port", str(port)))
        url = f"{environment['THROUGHLINE_URL']}/api/v1"
        eventually(lambda: answers(f"{url}/bisections") == [])
        stack.enter_context(working(forks, outside, environment, "--name", "builder"))
        eventually(lambda: '"targets":{"ours":""}' in httpx2.get(f"{url}/workers").text)
        done = throughline("bisect", finding, "--worker", "builder")
    assert done.returncode == Exit.OK, done.stdout + done.stderr
    assert f"Bisecting {history[2]}..{history[-1]}: " in done.stderr
    assert "It begins once a worker has listed the commits between the ends." in done.stderr
    culprit = history[CULPRIT][:10]
    assert f'{culprit} (Ada Lovelace, "Change number {CULPRIT}") changed it.' in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("HEAD~2..HEAD",), "Name the case in which HEAD~2..HEAD is bisected"),
        (("HEAD~2..HEAD", "smoke"), "smoke is a suite"),
        (("HEAD..HEAD~2", "unet"), "Turn it round"),
        (("..HEAD", "unet"), "is no range"),
        (("torch==2.10.0..torch==2.13.0",), "Name the case in which torch==2.10.0..torch"),
        (("torch==2.10.0..torch==2.13.0", "unet"), "No worker that is here makes both torch==2.10"),
        (("torch==2.10.0..triton==3.6.0", "unet"), "are no such two"),
        (("torch==2.10.0..", "unet"), "or a version such as torch==2.12.0"),
        (("f" * 32,), "There is no such finding"),
        (("f" * 32, "unet"), "A finding tells its case"),
        (("f" * 32, "--follow"), "There is no such bisection"),
        (("f" * 32, "--cancel"), "There is no such bisection"),
        (("f" * 32, "--cancel", "--follow"), "choose one"),
    ],
)
def test_wrong_usage_is_one_sentence(bisect: Run, arguments: tuple[str, ...], words: str) -> None:
    done = bisect(*arguments)
    assert done.returncode == Exit.USAGE
    assert words in done.stderr


def test_ctrl_c_leaves_it_running(
    forks: ForkServer, folder: Path, environment: dict[str, str], bisect: Run
) -> None:
    command = ("bisect", "HEAD~2..HEAD", "unet", "--require", "pool=none")
    with running(forks, folder / "checkout", environment, *command) as process:
        log = folder / "checkout" / "bisect.log"
        eventually(lambda: "Bisecting 2 commits" in log.read_text())
        process.send_signal(signal.SIGTERM)
        eventually(lambda: process.poll() is not None)
    assert "It goes on. Follow it: throughline bisect " in log.read_text()
    url = f"{environment['THROUGHLINE_URL']}/api/v1/bisections?state=running"
    [left] = httpx2.get(url).json()["items"]
    done = bisect(left["id"], "--cancel")
    assert (done.returncode, done.stdout.splitlines()[0]) == (Exit.OK, "Cancelled.")
    assert bisect(left["id"], "--follow").returncode == Exit.TIMEOUT


def test_a_service_that_is_killed_goes_on_where_it_was(
    forks: ForkServer, folder: Path, environment: dict[str, str], throughline_in: Throughline
) -> None:
    own = folder / "killed"
    own.mkdir()
    port = free_port()
    environment = environment | {
        "THROUGHLINE_URL": f"http://127.0.0.1:{port}",
        "THROUGHLINE_STATE_DIR": str(own / "state"),
    }
    throughline = throughline_in(folder / "checkout", environment)
    assert throughline("migrate").returncode == Exit.OK
    url = f"{environment['THROUGHLINE_URL']}/api/v1/bisections"
    serve = ("serve", "--port", str(port))
    following = ("bisect", f"HEAD~{COMMITS}..HEAD", "unet", "--json")
    with ExitStack() as stack:
        begun = stack.enter_context(running(forks, own, environment, *serve))
        eventually(lambda: answers(url) == [])
        stack.enter_context(working(forks, own, environment))
        workers = url.replace("bisections", "workers")
        eventually(lambda: '"targets":{"ours":""}' in httpx2.get(workers).text)
        checkout = folder / "checkout"
        asking = stack.enter_context(running(forks, checkout, environment, *following))
        for probes in (2, 5):
            eventually(lambda probes=probes: probed(url) >= probes)  # type: ignore[misc]
            begun.kill()
            begun.wait()
            begun = stack.enter_context(running(forks, own, environment, *serve))
        eventually(lambda: asking.poll() is not None)
    told = json.loads((checkout / "bisect.log").read_text().splitlines()[-1])
    assert (told["outcome"], told["last"]) == ("culprit", CULPRIT)
    lost = [probe for probe in told["probes"] if probe["note"].startswith("Lease")]
    assert len(lost) <= 2, "a restart loses one process at most"


def answers(url: str) -> list[dict[str, str]] | None:
    """The bisections of a service; None while it does not answer."""
    try:
        found: list[dict[str, str]] = httpx2.get(url).json()["items"]
    except httpx2.HTTPError:
        return None
    return found


def probed(url: str) -> int:
    """How many pairs the only bisection has asked for."""
    [one] = answers(url) or [{}]
    return len(httpx2.get(f"{url}/{one['id']}").json()["probes"]) if one else 0


def test_while_the_rest_is_searched_the_verified_commit_is_told_and_leads_no_more() -> None:
    chances = {0: 0.0, 1: 0.99, 2: 0.3, 3: 0.6}
    commits = tuple(
        BisectedCommit(
            place=place, revision=f"c{place}", author="", title="", probability=chance, usable=True
        )
        for place, chance in chances.items()
    )
    known = {"commits": commits, "processes": 20, "most_processes": 80, "environment": 0.0}
    view = BisectionView.model_construct(stage=BisectionStage.REST, last=1, others=(), **known)
    told = leading_words(view).replace("\u00a0", " ")
    assert told == "Verified: c1. Likeliest for the rest: c3 (60.0 %); 20 of 80 processes."
    over = view.model_copy(update={"stage": BisectionStage.DONE})
    assert leading_words(over).startswith("Likeliest: c1 ")


def test_a_longer_range_than_can_be_bisected_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bisected_range, "MOST_COMMITS", 2)
    versions = [bisected_range.Version(f"c{place}") for place in range(4)]
    with pytest.raises(Stop, match="3 commits, and 2 can be bisected"):
        bisected_range._listed(versions)
