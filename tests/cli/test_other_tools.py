"""`import`, `export` and `run`: the numbers of any tool get a history, findings and a gate."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest
from builders.repository import git
from builders.served import serving

Run = Callable[..., subprocess.CompletedProcess[str]]

BENCH = """
import json, pathlib, random, sys
factor = float(pathlib.Path("speed").read_text())
if factor < 0:
    print("no such option", file=sys.stderr)
    sys.exit(7)
times = [factor * random.gauss(0.010, 0.00005) for _ in range(5)]
mean = sum(times) / 5
result = {"command": "sort", "mean": mean, "user": mean / 2, "system": mean / 4, "times": times}
text = json.dumps({"results": [result]})
out = sys.argv[1:]
pathlib.Path(out[0]).write_text(text) if out else print(text)
"""


class Service:
    """A service, and the command line that speaks to it."""

    def __init__(self, port: int, throughline: Run) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._run = throughline

    def ask(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self._run(*arguments, THROUGHLINE_URL=self.url)

    def get(self, path: str, **parameters: Any) -> Any:
        answer = httpx2.get(f"{self.url}/api/v1/{path}", params=parameters)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def points(self) -> list[Any]:
        return [
            (series["case"], series["metric"], point)
            for series in self.get("series")["items"]
            for point in self.get(f"series/{series['id']}")["points"]
        ]


@pytest.fixture
def service(sqlite_url: str, throughline: Run) -> Iterator[Service]:
    with serving(sqlite_url) as served:
        yield Service(served.port, throughline)


@pytest.fixture
def folder(environment: dict[str, str]) -> Path:
    """The folder in which the command line runs: a checkout with a benchmark."""
    folder = Path(environment["THROUGHLINE_STATE_DIR"]).parent
    git(folder, "init", "--quiet", "--initial-branch=main")
    (folder / ".gitignore").write_text("*\n!bench.py\n!speed\n")
    return checkout(folder, 1.0)


def checkout(folder: Path, factor: float) -> Path:
    """Commit a benchmark whose times have this factor."""
    folder.mkdir(exist_ok=True)
    (folder / "bench.py").write_text(BENCH)
    (folder / "speed").write_text(str(factor))
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", f"Times are {factor:g}-fold")
    return folder


def write(folder: Path, mean: float = 0.01, name: str = "times.json") -> str:
    """Write a file as hyperfine does, which names no commit."""
    result = {"command": "sort", "mean": mean, "user": mean, "system": mean, "times": [mean] * 3}
    (folder / name).write_text(json.dumps({"results": [result]}))
    return name


def test_a_file_is_imported_once_and_says_what_it_lacks(service: Service, folder: Path) -> None:
    file = write(folder)
    nameless = service.ask("import", file)
    assert (nameless.returncode, nameless.stdout) == (2, "")
    assert "3 of 3 points name no commit" in nameless.stderr
    tried = service.ask("import", file, "-r", "v1", "--dry-run")
    assert "3 points would be imported; nothing was sent." in tried.stdout
    assert service.points() == []
    done = service.ask("import", file, "--revision", "HEAD")
    assert (done.returncode, done.stdout) == (0, "hyperfine: 3 new and 0 known points.\n")
    assert "hyperfine does not say: " in done.stderr
    again = service.ask("import", file, "--revision", "HEAD")
    assert again.stdout == "hyperfine: 0 new and 3 known points.\n"
    points = service.points()
    assert {point["revision"] for _, _, point in points} == {git(folder, "rev-parse", "HEAD")}
    assert {case["source"] for case, _, _ in points} == {"hyperfine"}
    (time,) = (point for _, metric, point in points if metric == "time")
    assert (time["interval"], time["replicates"], time["value"]) == ("replicates", 3, 0.01)


def test_a_dirty_checkout_is_no_commit(service: Service, folder: Path) -> None:
    (folder / "speed").write_text("2")
    for words in (("import", write(folder), "-r", "HEAD"), ("run", "--", sys.executable, "x.py")):
        done = service.ask(*words)
        assert done.returncode in (2, 64)
        assert "Tracked files differ from the commit" in done.stderr
    assert service.points() == []


def test_a_wrong_file_imports_nothing(service: Service, folder: Path) -> None:
    good = write(folder)
    (folder / "cut.json").write_text((folder / good).read_text()[:-9])
    done = service.ask("import", good, "cut.json", "-r", "v1")
    assert (done.returncode, done.stdout) == (2, "")
    assert "cut.json" in done.stderr
    assert service.points() == []


def test_the_last_row_is_wrong_and_nothing_is_imported(service: Service, folder: Path) -> None:
    rows = "".join(f"a{number},time,s,1,v1\n" for number in range(2_500))
    head = "benchmark,metric,unit,value,revision\n"
    for last, said in (
        ("b,time,s,fast,v1", "line 2502: 'fast'"),
        ("a7,time,s,2,v1", "is there tw"),
    ):
        (folder / "long.csv").write_text(f"{head}{rows}{last}\n")
        done = service.ask("import", "long.csv")
        assert (done.returncode, done.stdout) == (2, "")
        assert said in done.stderr
    assert service.points() == []


def test_another_unit_is_refused_with_a_sentence(service: Service, folder: Path) -> None:
    service.ask("import", write(folder), "-r", "v1", "--source", "mine")
    body = {
        "benchmark": "sort",
        "metric": "time",
        "unit": "ms",
        "direction": "lower",
        "values": [1.0],
        "revision": "v2",
    }
    url = f"{service.url}/api/v1/imports"
    refused = httpx2.post(url, json={"source": "mine", "points": [body]})
    assert refused.status_code == 409
    assert "mine/sort time is in s" in refused.json()["detail"]


def test_an_import_of_several_requests_is_refused_before_the_first(
    service: Service, folder: Path
) -> None:
    head = "benchmark,metric,unit,value,revision\n"
    (folder / "old.csv").write_text(head + "sort,time,ms,1,v1\n")
    assert service.ask("import", "old.csv").returncode == 0
    more = "".join(f"a{number},time,s,1,v2\n" for number in range(1_000))
    (folder / "new.csv").write_text(f"{head}{more}sort,time,s,1,v2\n")
    refused = service.ask("import", "new.csv")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "csv/sort time is in ms, lower is better; this import has it in s" in refused.stderr
    assert len(service.points()) == 1


def test_two_dates_of_one_commit_are_refused(service: Service, folder: Path) -> None:
    days = ["01"] * 1_000 + ["02"]  # more than one request
    rows = [f"a{n:04d},time,ms,1,v1,2026-11-{day}T00:00:00Z\n" for n, day in enumerate(days)]
    head = "benchmark,metric,unit,value,revision,committed_at\n"
    (folder / "dates.csv").write_text("".join([head, *rows]))
    refused = service.ask("import", "dates.csv")
    assert "Two points give the commit v1 different dates." in refused.stderr
    assert service.points() == []


def test_revisions_are_compared_in_a_metric(service: Service, folder: Path) -> None:
    head = "benchmark,metric,unit,value,revision\n"
    rows = "sort,time,ms,1,v1\nsort,time,ms,2,v2\nfind,time,ms,3,v1\nsort,mem,B,7,v1\n"
    (folder / "both.csv").write_text(head + rows)
    service.ask("import", "both.csv")
    usual = service.ask("compare", "v1", "v2").stdout.replace("\u00a0", " ")
    named = service.ask("compare", "v1", "v2", "--metric", "mem").stdout.replace("\u00a0", " ")
    assert ("2 ms" in usual, "7 B" in named) == (True, True)


def test_what_was_imported_is_exported_and_imported_equal(service: Service, folder: Path) -> None:
    service.ask("import", write(folder), "-r", "v1")
    done = service.ask("export", "--format", "jsonl", "--metric", "time", "-o", "out.jsonl")
    assert (done.returncode, done.stderr) == (0, "1 point written.\n")
    assert service.ask("export", "-o", "out.jsonl").returncode == 2  # nothing is overwritten
    again = service.ask("import", "out.jsonl", "--source", "hyperfine")
    assert again.stdout == "hyperfine: 0 new and 1 known points.\n"
    printed = service.ask("export", "--format", "jsonl", "--case", "hyperfine/sort")
    assert len(printed.stdout.splitlines()) >= 3
    assert service.ask("export", "--source", "hyperfine").stdout.count("sort") >= 3
    assert service.ask("export", "--source", "asv").returncode == 2
    nothing = service.ask("export", "--case", "hyperfine/none")
    assert (nothing.returncode, nothing.stdout) == (2, "")


def test_a_command_is_measured_in_processes_of_its_own(service: Service, folder: Path) -> None:
    done = service.ask("run", "--repeat", "3", "--", sys.executable, "bench.py")
    assert done.returncode == 0, done.stderr
    head = git(folder, "rev-parse", "HEAD")
    assert done.stdout == f"3 new points at {head}, 0 known.\n"
    (time,) = (point for _, metric, point in service.points() if metric == "time")
    assert (time["replicates"], time["interval"], time["revision"]) == (3, "replicates", head)
    assert time["value"] == pytest.approx(0.01, rel=0.05)
    written = service.ask(
        "run", "--output", "out.json", "-r", "v2", "--", sys.executable, "bench.py", "out.json"
    )
    assert written.stdout == "3 new points at v2, 0 known.\n"


def test_whoever_ends_it_ends_all_that_the_command_started(tmp_path: Path) -> None:
    words = ["run", "--revision", "r1", "--", "sh", "-c", "sleep 1003; true"]
    with subprocess.Popen([sys.executable, "-m", "cli", *words], cwd=tmp_path) as running:
        mine = psutil.Process(running.pid)
        until_s = time.monotonic() + 30
        while not (seen := [one for one in mine.children(recursive=True) if _sleeps(one)]):
            assert time.monotonic() < until_s
            time.sleep(0.05)
        running.terminate()
        assert running.wait(30) != 0
    gone, _ = psutil.wait_procs(seen, timeout=10)
    assert gone == seen


def test_a_command_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    words = ["run", "--timeout", "0.3s", "-r", "r1", "--", "sh", "-c", "echo begun; sleep 1004; :"]
    done = subprocess.run(
        [sys.executable, "-m", "cli", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    said = done.stderr.replace("\u00a0", " ")
    assert "sleep 1004; : was ended after its --timeout of 0.3 s in " in said
    assert said.endswith("; nothing was kept.\nbegun\n")
    sleeping = [one.info["cmdline"] for one in psutil.process_iter(["cmdline"])]
    assert ["sleep", "1004"] not in sleeping


def _sleeps(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return process.name() == "sleep"
    return False


def test_a_command_that_fails_keeps_nothing(service: Service, folder: Path) -> None:
    checkout(folder, -1)
    failed = service.ask("run", "--repeat", "2", "--", sys.executable, "bench.py")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert "ended with 7" in failed.stderr
    assert failed.stderr.endswith("no such option\n")
    garbage = service.ask("run", "--", sys.executable, "-c", "print('hello')")
    assert garbage.returncode == 1
    assert "What the command printed" in garbage.stderr
    absent = service.ask("run", "--", "no-such-program")
    assert absent.returncode == 1
    stale = folder / "out.json"
    stale.write_text("{}")
    unwritten = service.ask("run", "--output", "out.json", "--", sys.executable, "-c", "")
    assert (unwritten.returncode, stale.exists()) == (1, False)
    assert service.points() == []


@pytest.mark.parametrize(
    ("baseline", "contender", "code", "word"),
    [(1.0, 1.2, 1, "REGRESSION"), (1.2, 1.0, 0, "PASS"), (1.0, 1.001, 0, "PASS")],
)
def test_two_checkouts_are_compared_pair_by_pair(
    service: Service, folder: Path, baseline: float, contender: float, code: int, word: str
) -> None:
    other = folder / "other"
    git(folder, "worktree", "add", "--quiet", "--detach", str(other))
    checkout(other, baseline)
    checkout(folder, contender * 1.000001)
    done = service.ask(
        *("run", "--against", "other", "--max-regression", "2%"),
        *("--", sys.executable, "bench.py"),
    )
    assert done.returncode == code, done.stderr + done.stdout
    assert f"{word}: " in done.stdout
    assert "sort [time]" in done.stdout
    assert "Pair 3: " in done.stderr
    assert service.points() == []  # a gate keeps nothing


def test_a_contender_that_breaks_is_a_regression_and_both_are_an_error(
    service: Service, folder: Path
) -> None:
    other = folder / "other"
    git(folder, "worktree", "add", "--quiet", "--detach", str(other))
    checkout(other, 1.0)
    checkout(folder, -1.0)
    words = ("run", "--against", "other", "--", sys.executable, "bench.py")
    broken = service.ask(*words)
    assert (broken.returncode, "broken" in broken.stdout) == (1, True), broken.stderr
    checkout(other, -2.0)
    both = service.ask(*words)
    assert (both.returncode, both.stdout) == (1, "")
    assert "fails in both folders" in both.stderr


def test_a_new_benchmark_is_compared_with_nothing_and_a_lost_one_is_broken(
    service: Service, folder: Path
) -> None:
    other = folder / "other"
    git(folder, "worktree", "add", "--quiet", "--detach", str(other))
    both = "two = [dict(result, command=name) for name in ('sort', 'parse')]"
    text = BENCH.replace("text = ", f"{both}\ntext = ").replace("[result]", "two")
    (folder / "bench.py").write_text(text)
    git(folder, "commit", "--quiet", "--all", "--message", "One more benchmark")
    words = ("--max-regression", "2%", "--", sys.executable, "bench.py")
    added = service.ask("run", "--against", "other", *words)
    assert (added.returncode, "parse" in added.stdout) == (0, False), added.stderr
    assert "New here, and compared with nothing: parse [time]" in added.stderr
    (other / "bench.py").write_text(text)
    (folder / "bench.py").write_text(BENCH)
    lost = service.ask("run", "--against", "other", *words)
    assert (lost.returncode, "It was not measured." in lost.stdout) == (1, True), lost.stdout


def test_a_budget_that_is_too_short_decides_nothing(service: Service, folder: Path) -> None:
    other = folder / "other"
    git(folder, "worktree", "add", "--quiet", "--detach", str(other))
    checkout(other, 1.01)
    words = ("run", "--against", "other", "--budget", "0.1s", "--", sys.executable, "bench.py")
    done = service.ask(*words)
    assert (done.returncode, "INCONCLUSIVE" in done.stdout) == (2, True)
    assert service.ask(*words[:5], "--inconclusive", "pass", *words[5:]).returncode == 0
    assert service.ask("run", "--against", "nowhere", "--", "true").returncode == 64
