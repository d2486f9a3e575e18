"""`throughline gate` with a real service and a real worker that runs each revision's own code."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from xml.etree import ElementTree as ET

import httpx2
import pytest
from builders.commands import eventually, free_port, running, serving
from builders.forked import ForkServer

from cli.exits import Exit

Run = Callable[..., subprocess.CompletedProcess[str]]
INCONCLUSIVE = 2


def deploy(checkouts: Path, revision: str, factor: float) -> None:
    """A revision whose code is ``factor`` times as fast as the script's, give or take 0.003 %.

    That is below the floor of the intervals, so every run needs the same pairs: with 0.1 % a slower
    revision was now and then surely within its limit after three pairs, and not yet surely slower.
    """
    folder = checkouts / revision
    (folder / "benchmarks").mkdir(parents=True)
    script = Path(__file__).with_name("scripted_benchmark.py").read_text()
    noise = (
        "import random\n\n\ndef noise():\n    return 1 + random.uniform(-0.00003, 0.00003)\n\n\n"
    )
    for old, new in (
        ("    rate = RATES[", f"    rate = noise() * {factor} * RATES["),
        ('"hw.device":', f'"sw.benchmarks": "{revision}", "hw.device":'),
        ("time.sleep(0.05)", "time.sleep(0)"),
        ("def main()", f"{noise}def main()"),
    ):
        assert old in script, "the script is another one by now"
        script = script.replace(old, new, 1)
    (folder / "child.py").write_text(script)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gate")


@pytest.fixture(scope="module")
def environment(folder: Path, environment_in: Callable[[Path], dict[str, str]]) -> dict[str, str]:
    checkouts = folder / "checkouts"
    for revision, factor in (("old", 1.0), ("same", 1.0), ("slower", 0.97)):
        deploy(checkouts, revision, factor)
    return environment_in(folder) | {
        "THROUGHLINE_URL": f"http://127.0.0.1:{free_port()}",
        "THROUGHLINE_CLAIM_WAIT_S": "0.5",
        "THROUGHLINE_WORKER_TARGET": f"{checkouts}/{{revision}}",
        "THROUGHLINE_CHILD_COMMAND": json.dumps([sys.executable, "child.py"]),
    }


@pytest.fixture(scope="module")
def throughline(
    folder: Path,
    environment: dict[str, str],
    throughline_in: Callable[[Path, dict[str, str]], Run],
) -> Run:
    return throughline_in(folder, environment)


@pytest.fixture(scope="module")
def gate(
    forks: ForkServer, folder: Path, environment: dict[str, str], throughline: Run
) -> Iterator[Run]:
    """`throughline gate` against a baseline, beside a service and a worker."""
    assert throughline("migrate").returncode == Exit.OK
    with ExitStack() as stack:
        stack.enter_context(serving(forks, folder, environment))
        stack.enter_context(running(forks, folder, environment, "worker", "--device", "cpu"))
        workers = f"{environment['THROUGHLINE_URL']}/api/v1/workers"
        eventually(lambda: "slower" in httpx2.get(workers).text)
        yield lambda contender, *more, **env: throughline(
            *("gate", "--baseline", "old", "--contender", contender, "--budget", "2m"), *more, **env
        )


def test_an_equal_revision_passes_and_the_answer_is_a_table(gate: Run) -> None:
    done = gate("same", "--case", "unet")
    assert done.returncode == Exit.OK, done.stdout + done.stderr
    assert "unet:tiny" in done.stdout
    assert "PASS: 1 case, none worse than allowed." in done.stdout
    assert "/comparisons/" in done.stdout
    assert "Note:" not in done.stdout, "both sides ran their own code"


def test_a_slower_revision_is_exit_code_1_in_every_form(gate: Run, folder: Path) -> None:
    cases = ("--case", "resnet50", "--case", "unet")
    key = ("--idempotency-key", "one", *cases, "--policy", "policy.toml", "--project", "red")
    (folder / "policy.toml").write_text(
        '[[rules]]\ncases = "unet:*"\nlimits = [{metric = "throughput", max_regression = "5%"}]\n'
    )
    told = gate("slower", *key, "--format", "json")
    assert told.returncode == Exit.FAILED, told.stdout + told.stderr
    assert json.loads(told.stdout)["project"] == "red"
    decision = json.loads(told.stdout)["decision"]
    assert {case["case_key"].split(":")[0]: case["verdict"] for case in decision["cases"]} == {
        "resnet50": "worse",
        "unet": "allowed",
    }
    again = gate("slower", *key, "--format", "junit", "--output", "gate.xml")
    assert again.returncode == Exit.FAILED
    assert again.stdout == ""
    suite = ET.fromstring((folder / "gate.xml").read_text())
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "1", "0")
    for used in decision["used"]:
        assert used["job_id"] in (suite.findtext("system-out") or "")
    markdown = gate("slower", *key, "--format", "markdown").stdout
    assert markdown.startswith("## Gate: regression\n")
    assert "unet:tiny" in markdown


@pytest.mark.usefixtures("gate")
def test_a_report_against_a_faster_revision_is_exit_code_1(throughline: Run) -> None:
    for revision in ("old", "slower"):
        order = ("submit", "unet", "-r", revision, "--replicates", "3", "--wait", "--json")
        done = throughline(*order)
        assert done.returncode == Exit.OK, done.stderr
    submission = json.loads(done.stdout)["submission_id"]
    assert throughline("report", submission).returncode == Exit.OK
    for form in ((), ("--markdown",), ("--json",)):
        done = throughline("report", submission, "--against", "old", *form)
        assert done.returncode == Exit.FAILED
        assert "slower" in done.stdout


def test_a_revision_that_nobody_has_is_wrong_usage_at_once_and_says_what_is_known(
    gate: Run,
) -> None:
    begun_s = time.monotonic()
    done = gate("made-up", "--case", "unet")
    assert done.returncode == Exit.GATE_USAGE, done.stdout + done.stderr
    assert "No worker has made-up; known are old, same and slower." in done.stderr
    assert "THROUGHLINE_WORKER_TARGET" in done.stderr
    assert time.monotonic() - begun_s < 60, "the budget is two minutes, and was not waited for"


def test_a_revision_that_is_deployed_while_the_worker_runs_can_be_measured(
    gate: Run, folder: Path
) -> None:
    deploy(folder / "checkouts", "later", 1.0)
    until = time.monotonic() + 60
    while (done := gate("later", "--case", "unet")).returncode == Exit.GATE_USAGE:
        assert time.monotonic() < until, done.stderr
    assert done.returncode == Exit.OK, done.stdout + done.stderr


def test_a_revision_against_itself_is_never_a_pass(gate: Run) -> None:
    order = ("old", "--case", "unet", "--idempotency-key", "itself")
    done = gate(*order)
    assert done.returncode == INCONCLUSIVE, done.stdout + done.stderr
    assert (
        "INCONCLUSIVE: 1 case of one revision against itself, which checks the set" in done.stdout
    )
    assert gate(*order, "--inconclusive", "fail").returncode == Exit.FAILED
    assert gate(*order, "--inconclusive", "pass").returncode == Exit.OK


def test_a_gate_that_is_interrupted_stops_its_comparison(
    gate: Run, forks: ForkServer, folder: Path, environment: dict[str, str]
) -> None:
    words = ("--baseline", "old", "--contender", "same", "--case", "unet", "--require", "pool=none")
    log = folder / "gate.log"
    with running(forks, folder, environment, "gate", *words, "--budget", "40") as process:
        eventually(lambda: "Waits for a worker with pool=none" in log.read_text())
        first, told, *_ = log.read_text().splitlines()
        assert "for at most 40 s: " in first
        assert "/comparisons/" in first, first
        assert re.match(
            r"1 case x 3 to 12 pairs need about .* \(told from the protocol, for a GPU\)", told
        )
        assert "the budget is 40 s. That is too little for 3 pairs of every case: raise" in told
        process.terminate()
        assert process.wait(60) == Exit.INTERRUPTED, log.read_text()
    comparison = first.strip().rpartition("/")[2]
    stands = httpx2.get(f"{environment['THROUGHLINE_URL']}/api/v1/comparisons/{comparison}").json()
    assert stands["state"] == "cancelled"


def test_a_file_that_cannot_be_written_at_the_end_costs_no_answer(gate: Run) -> None:
    order = ("same", "--case", "unet", "--idempotency-key", "full")
    done = gate(*order, "--format", "json", "--output", "/dev/full")
    assert done.returncode == Exit.OK, done.stderr
    assert json.loads(done.stdout)["decision"]["outcome"] == "pass"
    assert "/dev/full cannot be written: No space left on device." in done.stderr


def test_a_file_is_tried_out_before_anything_is_measured_and_stays(
    throughline: Run, tmp_path: Path
) -> None:
    kept = tmp_path / "kept.xml"
    kept.write_text("<before/>")
    link = tmp_path / "link.xml"
    link.symlink_to(tmp_path / "none.xml")
    order = ("gate", "--baseline", "old", "--contender", "same", "--case", "unet", "--output")
    for output in (tmp_path, tmp_path / "none" / "gate.xml", tmp_path / ("a" * 300)):
        done = throughline(*order, str(output), THROUGHLINE_URL="http://127.0.0.1:9")
        assert done.returncode == Exit.GATE_USAGE
        assert "cannot be written" in done.stderr
    for output in (kept, link, tmp_path / "new.xml"):
        done = throughline(*order, str(output), THROUGHLINE_URL="http://127.0.0.1:9")
        assert done.returncode == Exit.AWAY, done.stderr
    assert kept.read_text() == "<before/>"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept.xml", "link.xml"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--case", "unet", "--suite", "smoke"), "Name what to measure"),
        (("--case", "mypkg/bench.py:build"), "names no workload"),
        (("--suite", "no-such"), "no suite"),
        (("--suite", "smoke", "--budget", "soon"), "no span of time"),
        (("--suite", "smoke", "--max-regression", "2"), "such as 2%"),
        (("--suite", "smoke", "--policy", "broken.toml"), "rule: Extra inputs"),
        (("--suite", "smoke", "--policy", "none.toml"), "cannot be read"),
        (("--suite", "smoke", "--format", "xml"), "--format"),
        (("--suite", "smoke", "--idempotency-key", "größe"), "--idempotency-key: write"),
    ],
)
def test_wrong_usage_is_not_mistaken_for_inconclusive(
    gate: Run, folder: Path, words: tuple[str, ...], said: str
) -> None:
    (folder / "broken.toml").write_text("[[rule]]\n")
    done = gate("same", *words)
    assert done.returncode == Exit.GATE_USAGE
    assert said in done.stderr
    assert done.stdout == ""
