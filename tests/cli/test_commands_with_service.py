"""Each subcommand against a real service, and a real worker with a scripted benchmark."""

import gzip
import json
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import httpx2
import pytest
from builders.commands import LIMIT_S, eventually, free_port, running, serving
from builders.forked import Forked, ForkServer
from builders.profiled import a_profile, kernels

from benchmarks import local_service
from benchmarks.contracts import Case, Direction
from cli.commands.compare import outcome
from cli.exits import Exit
from cli.output import console, kernel_table
from service.schemas.series import ChangeVerdict, RevisionChange
from service.wording import formats

Run = Callable[..., subprocess.CompletedProcess[str]]
SHORT = {
    "warmup_min_steps": 2,
    "warmup_min_s": 0.0,
    "warmup_max_steps": 4,
    "settle_max_s": 0.0,
    "window_min_s": 0.1,
    "window_max_s": 0.5,
    "window_min_steps": 4,
    "window_min_blocks": 2,
    "block_min_steps": 2,
    "block_min_s": 0.0,
}
"""A measurement that nobody would trust, over soon."""
MINE = ("submit", "unet", "--require", "pool=mine")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("service")


@pytest.fixture(scope="module")
def environment(folder: Path, environment_in: Callable[[Path], dict[str, str]]) -> dict[str, str]:
    # A short poll, so that a worker that is told to end does so soon.
    url = f"http://127.0.0.1:{free_port()}"
    return environment_in(folder) | {"THROUGHLINE_URL": url, "THROUGHLINE_CLAIM_WAIT_S": "0.5"}


@pytest.fixture(scope="module")
def throughline(
    folder: Path,
    environment: dict[str, str],
    throughline_in: Callable[[Path, dict[str, str]], Run],
) -> Run:
    return throughline_in(folder, environment)


@pytest.fixture(scope="module")
def service(
    forks: ForkServer, throughline: Run, folder: Path, environment: dict[str, str]
) -> Iterator[str]:
    """One service for the whole module: each test keeps to revisions of its own."""
    assert throughline("migrate").stdout == "The sqlite database is up to date.\n"
    with serving(forks, folder, environment) as url:
        yield url


@pytest.fixture
def worker(
    service: str, forks: ForkServer, folder: Path, environment: dict[str, str]
) -> Iterator[Forked]:
    """A worker in whose hands every bf16 case runs out of memory."""
    settings = environment | {
        "SCRIPT": "oom",
        "THROUGHLINE_LABELS": '{"pool": "mine"}',
        "THROUGHLINE_WORKER_NAME": "here",
    }
    with running(forks, folder, settings, "worker", "--device", "cpu") as process:
        yield process


def told(done: subprocess.CompletedProcess[str], code: Exit = Exit.OK) -> Any:
    """The JSON on stdout, which holds nothing else."""
    assert done.returncode == code, done.stderr
    assert "\u00a0" not in done.stdout
    return json.loads(done.stdout)


def test_a_case_is_submitted_listed_shown_and_cancelled(service: str, throughline: Run) -> None:
    order = ["submit", "unet", "precision=bf16", "--preset", "tiny", "-r", "listed"]
    order += ["--project", "red"]
    submitted = told(throughline(*order, "--require", "pool=none", "--json"))
    job = submitted["jobs"][0]
    assert job["case"] == {"workload": "unet", "preset": "tiny", "axes": {"precision": "bf16"}}
    of_it = ["-r", "listed"]
    assert told(throughline("jobs", "list", *of_it, "--json"))["items"][0]["id"] == job["id"]
    assert "unet:tiny precision=bf16" in throughline("jobs", "list", *of_it).stdout
    assert submitted["project"] == "red"
    shown = throughline("jobs", "show", job["id"]).stdout
    assert "queued" in shown
    assert "project    red" in shown
    assert told(throughline("jobs", "cancel", job["id"], "--json"))["state"] == "cancelled"
    queued = throughline("jobs", "list", *of_it, "--state", "queued")
    assert queued.stdout == "There are no such jobs.\n"
    report = throughline("report", submitted["id"])
    assert report.returncode == Exit.FAILED
    assert "cancelled" in report.stdout


def test_a_suite_with_the_same_key_is_submitted_once(service: str, throughline: Run) -> None:
    order = ["submit", "smoke", "--require", "pool=none", "--idempotency-key", "ci-1", "--json"]
    first = told(throughline(*order, "-r", "keyed"))
    assert told(throughline(*order, "-r", "keyed"))["id"] == first["id"]
    refused = throughline(*order, "-r", "other")
    assert refused.returncode == Exit.USAGE
    assert "Idempotency-Key" in refused.stderr
    assert refused.stdout == ""


def test_waiting_ends_in_time_and_says_how_to_go_on(service: str, throughline: Run) -> None:
    order = ["submit", "smoke", "-r", "waited", "--require", "pool=none"]
    done = throughline(*order, "--timeout", "1")
    assert done.returncode == Exit.TIMEOUT
    assert "not finished after 1 s" in done.stderr
    assert f" --wait --url {service})" in done.stderr
    hint = done.stderr.split("`throughline ")[1].split("`")[0]
    report = throughline(*hint.split(), THROUGHLINE_URL="http://127.0.0.1:9")
    assert report.returncode == Exit.TIMEOUT
    assert "6 of 6 cases are missing" in report.stderr


@pytest.mark.usefixtures("worker")
def test_what_is_measured_is_reported_and_compared(throughline: Run) -> None:
    first = told(throughline(*MINE, "-r", "v1", "--wait", "--json"))
    assert first["rows"][0]["status"] == "ok"
    assert first["rows"][0]["throughput"]["value"] == 60.0
    second = throughline(*MINE, "-r", "v2", "--wait")
    assert second.returncode == Exit.OK
    assert "unet:tiny" in second.stdout
    table = throughline("compare", "v1", "v2")
    assert table.returncode == Exit.TIMEOUT, "one process a side, and a series without a past"
    assert "measure 3 processes a side (--replicates 3)" in table.stdout
    assert "unclear" in table.stdout
    changes = json.loads(throughline("compare", "v1", "v2", "--json").stdout)["changes"]
    assert changes[0]["change"] == 0.0
    foreign = throughline("compare", "v1", "v2", "--project", "red")
    assert foreign.returncode == Exit.TIMEOUT
    assert formats.NOTHING_TO_COMPARE in foreign.stdout
    markdown = throughline("report", first["submission_id"], "--against", "v2", "--markdown")
    assert markdown.stdout.startswith("## ")
    assert throughline("compare", "v1", "v2", "--markdown").stdout.startswith("### v2 against v1")
    both = throughline("report", first["submission_id"], "--json", "--markdown")
    assert both.returncode == Exit.USAGE
    third = told(throughline(*MINE, "-r", "v3", "--replicates", "3", "--wait", "--json"))
    assert third["rows"][0]["throughput"]["replicates"] == 3
    elsewhere = ["submit", "unet", "--require", "pool=none"]
    assert throughline(*elsewhere, "-r", "v4").returncode == Exit.OK
    incomplete = throughline("compare", "v1", "v4")
    assert incomplete.returncode == Exit.TIMEOUT
    assert incomplete.stderr == "Not compared: 1 of 1 cases lack a result.\n"


@pytest.mark.usefixtures("worker")
def test_two_revisions_are_compared_by_kernel_where_they_were_profiled(throughline: Run) -> None:
    for revision in ("k1", "k2"):
        done = throughline(*MINE, "-r", revision, "--replicates", "2", "--trace", "--wait")
        assert done.returncode == Exit.OK, done.stderr
    told = throughline("compare", "k1", "k2", "--kernels").stdout
    assert re.search(r"gemm +unchanged +90(\.0+)? ms +90(\.0+)? ms +0", told.replace("\u00a0", " "))
    assert re.search(r"full wait +0", told)
    assert "gemm" not in throughline("compare", "k1", "k2").stdout
    assert throughline(*MINE, "-r", "k3", "--replicates", "2", "--wait").returncode == Exit.OK
    without = throughline("compare", "k1", "k3", "--kernels").stdout
    assert "The contender: It was measured without a profile." in without
    other = throughline("compare", "k1", "k2", "--kernels", "--json")
    assert (other.returncode, other.stdout) == (Exit.USAGE, "")


def test_kernels_are_printed_with_what_became_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    sides = (
        {"gemm": 0.04, "softmax": 0.02, "triton_add_1": 0.01},
        {"gemm": 0.05, "sort": 0.015, "triton_add_3": 0.01},
    )
    before, after = (
        a_profile(0.09).model_copy(update={"kernel_times": kernels(**one)}) for one in sides
    )
    kernel_table.show("unet:tiny", before, after, console.paper())
    told = capsys.readouterr().out.replace("\u00a0", " ").replace(".00", "")
    lines = [" ".join(line.split()) for line in told.splitlines()]
    rows = [line for line in lines if " ms" in line][-4:]
    assert rows == [
        "softmax gone 20 ms \u2013 \u221220 ms",
        "sort new \u2013 15 ms +15 ms",
        "gemm slower 40 ms 50 ms +10 ms",
        "triton_add_3 (was triton_add_1) unchanged 10 ms 10 ms 0 s",
    ]


@pytest.mark.usefixtures("worker")
def test_a_gate_of_made_up_revisions_is_wrong_usage_on_a_worker_with_installed_code(
    service: str, throughline: Run
) -> None:
    eventually(lambda: '"here"' in httpx2.get(f"{service}/api/v1/workers").text)
    words = ("--baseline", "totally-made-up", "--contender", "also-made-up", "--case", "unet")
    done = throughline("gate", *words)
    assert done.returncode == Exit.GATE_USAGE, done.stdout + done.stderr
    assert "No worker has totally-made-up or also-made-up" in done.stderr
    assert "THROUGHLINE_WORKER_TARGET" in done.stderr


@pytest.mark.usefixtures("worker")
def test_a_quick_look_is_said_to_be_in_no_history(throughline: Run) -> None:
    for revision in ("look-1", "look-2"):
        quick = told(throughline(*MINE, "-r", revision, "--tier", "quick", "--wait", "--json"))
    for form in ((), ("--markdown",)):
        done = throughline("compare", "look-1", "look-2", *form)
        assert (done.returncode, done.stderr) == (Exit.TIMEOUT, "")
        assert "neither revision has a result in the history. The tier quick" in done.stdout
    done = throughline("report", quick["submission_id"], "--against", "look-1", "--markdown")
    assert "missing (No result of the baseline and the contender in the history.)" in done.stdout
    assert done.returncode == Exit.TIMEOUT
    assert done.stderr == "Not compared: 1 of 1 cases lack a result.\n"
    assert throughline("report", quick["submission_id"]).returncode == Exit.OK


@pytest.mark.usefixtures("worker")
def test_a_trace_is_asked_for_and_fetched(throughline: Run, folder: Path) -> None:
    done = throughline(*MINE, "-r", "traced", "--trace", "--wait")
    assert done.returncode == Exit.OK, done.stderr
    assert "Trace of unet" in done.stderr
    result = done.stderr.rpartition("throughline trace ")[2].split()[0]
    eventually(lambda: throughline("trace", result).returncode == Exit.OK)  # it comes last
    kept = folder / f"trace-{result}.json.gz"
    assert gzip.decompress(kept.read_bytes()) == b'{"traceEvents": []}'
    again = throughline("trace", result)
    assert (again.returncode, again.stdout) == (Exit.USAGE, "")
    assert "exists already" in again.stderr
    nowhere = throughline("trace", result, "-o", "none/of/it.json.gz")
    assert "cannot be written" in nowhere.stderr
    missing = throughline("trace", "0" * 32)
    assert missing.stderr == "There is no such result; GET /api/v1/results lists them.\n"
    assert throughline("trace", "../jobs").returncode == Exit.USAGE


@pytest.mark.slow
def test_a_real_measurement_on_a_real_worker_leaves_a_trace_that_a_viewer_reads(
    service: str,
    forks: ForkServer,
    folder: Path,
    environment: dict[str, str],
    throughline: Run,
) -> None:
    wanted = {
        "case": {"workload": "nanogpt", "preset": "tiny", "axes": {"batch": "1"}},
        "revision": "real",
        "requires": {"pool": "real"},
        "protocol": SHORT,
        "trace": True,
    }
    token = local_service.token_for(Path(environment["THROUGHLINE_STATE_DIR"]), service)
    shown = {"Authorization": f"Bearer {token}"}
    made = httpx2.post(f"{service}/api/v1/submissions", json=wanted, headers=shown).json()
    job = f"{service}/api/v1/jobs/{made['jobs'][0]['id']}"
    settings = {k: v for k, v in environment.items() if k != "THROUGHLINE_CHILD_COMMAND"}
    more = {"THROUGHLINE_LABELS": '{"pool": "real"}', "THROUGHLINE_WORKER_NAME": "real"}
    order = ("worker", "--device", "cpu", "--once")
    with running(forks, folder, settings | more, *order) as process:
        assert process.wait(LIMIT_S) == 0
    result = httpx2.get(job).json()["result_id"]
    told = httpx2.get(f"{service}/api/v1/results/{result}").json()
    assert told["result"]["status"] == "ok", told["result"]["reason"]
    assert told["result"]["replicates"][0]["profile"]["operations"]
    file = folder / "real.json.gz"
    assert throughline("trace", result, "-o", str(file)).returncode == Exit.OK
    assert told["trace"]["size_b"] == file.stat().st_size
    events = json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
    names = {event["name"] for event in events if event.get("ph") == "X"}
    assert {"aten::linear", "aten::scaled_dot_product_attention"} <= names
    assert any(name.startswith("ProfilerStep#") for name in names)


@pytest.mark.usefixtures("worker")
def test_a_case_that_fails_is_exit_code_1_with_its_reason(throughline: Run) -> None:
    done = throughline(*MINE, "precision=bf16", "-r", "failed", "--wait")
    assert done.returncode == Exit.FAILED
    assert "does not fit" in done.stdout


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [
        (["faster"], Exit.OK),
        (["faster", "unclear"], Exit.OK),
        (["faster", "undecided"], Exit.TIMEOUT),
        (["undecided", "slower"], Exit.FAILED),
        (["faster", "unclear", "missing"], Exit.TIMEOUT),
        (["missing"], Exit.TIMEOUT),
        (["faster", "slower"], Exit.FAILED),
        (["missing", "slower"], Exit.FAILED),
        ([], Exit.TIMEOUT),
    ],
)
def test_a_comparison_is_well_only_when_every_case_was_compared_and_none_got_slower(
    verdicts: list[str], code: Exit, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = [
        RevisionChange(
            case=Case(workload="unet"),
            metric="throughput",
            unit="img/s",
            direction=Direction.HIGHER,
            comparability={},
            series_id=None,
            baseline=None,
            contender=None,
            change=None,
            change_low=None,
            change_high=None,
            verdict=ChangeVerdict("unclear" if verdict == "undecided" else verdict),
            note="",
            undecided=verdict == "undecided",
        )
        for verdict in verdicts
    ]
    assert outcome(changes) is code
    said = capsys.readouterr()
    assert said.out == ""
    assert ("Not clear: 1 of " in said.err) == ("unclear" in verdicts)
    assert ("Not decided: 1 of " in said.err) == ("undecided" in verdicts)
    assert ("Not compared: " in said.err) == ("missing" in verdicts)


def test_a_service_that_is_restarted_does_not_end_the_waiting(
    tmp_path: Path,
    forks: ForkServer,
    environment_in: Callable[[Path], dict[str, str]],
    throughline_in: Callable[[Path, dict[str, str]], Run],
) -> None:
    environment = environment_in(tmp_path) | {"THROUGHLINE_URL": f"http://127.0.0.1:{free_port()}"}
    throughline = throughline_in(tmp_path, environment)
    assert throughline("migrate").returncode == Exit.OK
    with ExitStack() as until_the_end:
        with serving(forks, tmp_path, environment):
            order = running(forks, tmp_path, environment, "submit", "unet", "-r", "v1", "--wait")
            waiting = until_the_end.enter_context(order)
            jobs: list[Any] = []
            eventually(
                lambda: (
                    bool(jobs.extend(told(throughline("jobs", "list", "--json"))["items"]))
                    or bool(jobs)
                )
            )
        eventually(lambda: "The service is away" in (tmp_path / "submit.log").read_text())
        with serving(forks, tmp_path, environment):
            assert throughline("jobs", "cancel", jobs[0]["id"]).returncode == Exit.OK
            assert waiting.wait(LIMIT_S) == Exit.FAILED
    assert (tmp_path / "submit.log").read_text().count("The service is away") == 1


def test_schedules_are_set_listed_fired_and_forgotten(service: str, throughline: Run) -> None:
    made = told(
        throughline(
            *["schedule", "set", "early", "--cron", "30 5 * * 1-5", "--suite", "smoke"],
            *["--timezone", "Europe/Zurich", "--require", "device=cpu", "--json"],
            *["--project", "red"],
        )
    )
    assert made["next_due_at"] is not None
    assert made["project"] == "red"
    names = [item["name"] for item in told(throughline("schedule", "list", "--json"))["items"]]
    assert names == ["early", "nightly"]
    listed = throughline("schedule", "list").stdout
    assert "30 5 * * 1-5" in listed
    assert "disabled" not in listed
    fired = told(throughline("schedule", "fire", "early", "--json"))
    assert (len(fired["jobs"]), fired["project"]) == (6, "red")
    followed = ["schedule", "set", "early", "--cron", "30 5 * * *", "--suite", "smoke"]
    followed += ["--revision-rule", "ref:ours:main", "--again", "--json"]
    made = told(throughline(*followed))
    assert (made["revision_rule"], made["again"], made["note"]) == ("ref:ours:main", True, "")
    refused = throughline("schedule", "fire", "early")
    assert refused.returncode == Exit.USAGE
    assert "No worker that it may use has the target ours" in refused.stderr
    for other in ("early#junk", "early?junk=1", "nightly/../early"):
        assert throughline("schedule", "delete", other).returncode == Exit.USAGE
    assert throughline("schedule", "delete", "early").returncode == Exit.OK
    again = throughline("schedule", "delete", "early")
    assert again.returncode == Exit.USAGE
    assert again.stderr.count("\n") == 1


@pytest.mark.usefixtures("worker")
def test_a_worker_is_drained_and_resumed(throughline: Run) -> None:
    eventually(lambda: "here" in throughline("workers", "list").stdout)
    order = ["workers", "drain", "here", "--reason", "fan broken", "--as", "ada"]
    assert throughline(*order).stdout == "here is drained by ada: fan broken.\n"
    assert "drained by ada: fan broken" in throughline("workers", "list").stdout
    waits = throughline(*MINE, "-r", "drained")
    assert "It will wait. No worker can take this job: here is drained by ada" in waits.stderr
    job = told(throughline("jobs", "list", "--state", "queued", "--json"))["items"][0]["id"]
    assert "here is drained by ada: fan broken." in throughline("jobs", "show", job).stdout
    assert throughline("jobs", "cancel", job).returncode == Exit.OK
    assert throughline("workers", "resume", "here").stdout == "here is given jobs again.\n"
    assert throughline("workers", "resume", "here").returncode == Exit.USAGE
    [here] = [
        one
        for one in told(throughline("workers", "list", "--json"))["items"]
        if one["name"] == "here"
    ]
    assert here["drain"] is None


def test_histories_are_annotated(service: str, throughline: Run) -> None:
    assert throughline("annotate", "list").stdout == "Nobody has written anything.\n"
    told(throughline("submit", "unet", "-r", "annotated", "--require", "pool=none", "--json"))
    named = throughline("annotate", "revision", "annotated", "new loader", "--as", "ada")
    assert re.search(r"annotated +new loader +ada", named.stdout)
    order = ["annotate", "date", "2026-11-20T14:30", "moved to rack 4", "--project", "red"]
    dated = told(throughline(*order, "--json"))
    assert (dated["at"], dated["project"]) == ("2026-11-20T14:30:00Z", "red")
    listed = throughline("annotate", "list").stdout
    assert "moved to rack 4 (project red)" in listed
    for one in told(throughline("annotate", "list", "--json"))["items"]:
        assert throughline("annotate", "remove", one["id"]).returncode == Exit.OK
    assert throughline("annotate", "remove", dated["id"]).returncode == Exit.USAGE
    assert throughline("annotate", "revision", "nowhere", "text").returncode == Exit.USAGE


def test_thresholds_are_set_listed_and_removed(service: str, throughline: Run) -> None:
    order = ["thresholds", "set", "3%", "--workload", "unet", "--why", "noisy", "--as", "ada"]
    made = told(throughline(*order, "--json"))
    assert (made["workload"], made["least_effect"], made["actor"]) == ("unet", 0.03, "ada")
    never = throughline("thresholds", "set", "never", "--metric", "peak_memory", "--why", "noisy")
    assert "metric peak_memory" in never.stdout
    listed = throughline("thresholds", "list").stdout.replace("\u00a0", " ")
    assert re.search(r"from 3 % +workload unet +ada, .* UTC: noisy", listed)
    for rule in told(throughline("thresholds", "list", "--json"))["items"]:
        assert throughline("thresholds", "remove", rule["id"]).returncode == Exit.OK
    assert throughline("thresholds", "list").stdout.startswith("There are no thresholds")


@pytest.mark.parametrize(
    "arguments",
    [
        ["jobs", "show", "0" * 32],
        ["jobs", "show", "a\nb"],
        ["jobs", "show", "\udcff"],
        ["jobs", "list", "--state", "sleeping"],
        ["report", "0" * 32],
        ["report", "a\tb"],
        ["schedule", "set", "n", "--cron", "0 2 31 2 *", "--suite", "smoke"],
        ["schedule", "set", "n", "--cron", "0 2 * * *", "--suite", "smokey"],
        ["submit", "smoke", "-r", "v1", "--project", "É"],
        ["thresholds", "set", "some", "--why", "noisy", "--as", "ada"],
        ["thresholds", "set", "3%", "--metric", "power", "--why", "noisy", "--as", "ada"],
        ["thresholds", "remove", "0" * 32],
        ["compare", "v 1", "v2"],
        ["compare", "mistyped", "mistaken"],
    ],
    ids=" ".join,
)
def test_what_the_service_refuses_is_one_sentence(
    service: str, throughline: Run, arguments: list[str]
) -> None:
    done = throughline(*arguments)
    assert done.returncode == Exit.USAGE
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1


def test_a_port_in_use_is_said(service: str, throughline: Run) -> None:
    done = throughline("serve", "--port", service.rpartition(":")[2])
    assert done.returncode == Exit.USAGE
    assert "is in use" in done.stderr


def test_a_service_without_tables_says_to_migrate(throughline: Run, tmp_path: Path) -> None:
    empty = str(tmp_path / "empty")
    done = throughline("serve", "--port", str(free_port()), THROUGHLINE_STATE_DIR=empty)
    assert done.returncode == Exit.AWAY
    assert "throughline migrate" in done.stderr


@pytest.mark.parametrize("command", [["migrate"], ["verify"], ["up", "--once"], ["serve"]])
def test_a_database_of_a_newer_version_is_one_sentence(
    throughline: Run, tmp_path: Path, command: list[str]
) -> None:
    state = tmp_path / "rolled-back"
    assert throughline("migrate", THROUGHLINE_STATE_DIR=str(state)).returncode == Exit.OK
    with closing(sqlite3.connect(state / "throughline.sqlite3")) as database, database:
        database.execute("UPDATE alembic_version SET version_num = '9999'")
    port = {"THROUGHLINE_PORT": str(free_port())}
    done = throughline(*command, THROUGHLINE_STATE_DIR=str(state), **port)
    assert done.returncode == Exit.AWAY
    assert "a newer version of Throughline made" in done.stderr
    assert done.stderr.count("\n") == 1
    assert "throughline migrate" not in done.stderr


def test_another_server_is_no_throughline_service(throughline: Run, tmp_path: Path) -> None:
    port = free_port()
    other = subprocess.Popen(
        [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"],
        cwd=tmp_path,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + LIMIT_S
        done = throughline("jobs", "list", "--url", f"http://127.0.0.1:{port}")
        while "No Throughline service answers" in done.stderr and time.monotonic() < deadline:
            done = throughline("jobs", "list", "--url", f"http://127.0.0.1:{port}")
    finally:
        other.terminate()
        other.wait()
    assert done.returncode == Exit.AWAY
    assert "check THROUGHLINE_URL" in done.stderr


def test_a_submission_that_no_worker_can_do_waits_and_says_so(
    service: str, throughline: Run
) -> None:
    done = throughline("submit", "nanogpt", "-r", "v1", "--require", "device=tpu")
    assert done.returncode == Exit.OK
    assert "It will wait: no worker" in done.stderr
