"""What may be typed, what it costs to ask for help, and how a wrong command ends."""

import io
import json
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.contracts import Case, Result
from cli.exits import Exit, Stop
from cli.local import ports
from cli.local.state_dir import StateFolder
from cli.main import COMMANDS, load
from cli.output import result_panel
from cli.output.console import Console

Run = Callable[..., subprocess.CompletedProcess[str]]
HEAVY = {"torch", "sqlalchemy", "fastapi", "numpy", "scipy", "pydantic", "httpx2", "alembic"}
DOCUMENT = Path(__file__).parents[2] / "docs" / "cli.md"


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from cli.main import app\n"
        "try:\n    app(['--help'])\nexcept SystemExit:\n    pass\n"
        "print(sorted(name for name in sys.modules if '.' not in name), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.strip("[]\n").replace("'", "").split(", "))
    assert "typer" in loaded
    assert not loaded & HEAVY


def test_help_names_every_subcommand_and_the_exit_codes(throughline: Run) -> None:
    done = throughline("--help")
    assert done.returncode == Exit.OK
    for command in ("up", "serve", "worker", "bench", "submit", "jobs", "compare", "schedule"):
        assert f" {command} " in done.stdout
    assert "130 interrupted" in done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_subcommands_says_what_each_says_of_itself(name: str) -> None:
    assert load(name).get_short_help_str(limit=1_000).rstrip(".") == COMMANDS[name].rstrip(".")


def test_every_subcommand_is_documented() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert not [name for name in COMMANDS if f"`throughline {name}" not in text]


@pytest.mark.parametrize(
    "arguments",
    [
        ["submit", "smoke", "-r", "v1"],
        ["jobs", "list"],
        ["jobs", "show", "x"],
        ["jobs", "cancel", "x"],
        ["report", "x"],
        ["compare", "a", "b"],
        ["findings", "list"],
        ["findings", "expect", "x", "--as", "ann"],
        ["schedule", "list"],
        ["schedule", "fire", "nightly"],
        ["schedule", "delete", "nightly"],
        ["schedule", "set", "n", "--cron", "0 2 * * *", "--suite", "smoke"],
    ],
    ids=lambda told: told if isinstance(told, str) else " ".join(told or ()),
)
def test_without_a_service_each_command_says_how_to_start_one(
    throughline: Run, arguments: list[str]
) -> None:
    done = throughline(*arguments)
    assert done.returncode == Exit.AWAY
    assert done.stdout == ""
    assert done.stderr == (
        "No Throughline service answers at http://127.0.0.1:9. "
        "Start one with `throughline serve`, or set THROUGHLINE_URL.\n"
    )


TWICE = ("--require", "device=cuda", "--require", "device=cpu")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["submit", "smokey", "-r", "v1"], "no suite or workload 'smokey'"),
        (["submit", "resnet50", "precision", "-r", "v1"], "no axis=value"),
        (["submit", "resnet50", "precision=bf17", "-r", "v1"], "no value 'bf17'"),
        (["submit", "resnet50", "colour=red", "-r", "v1"], "no axis 'colour'"),
        (["submit", "resnet50", "layout=?", "-r", "v1"], "The value '?' of layout must be 1 to 64"),
        (["submit", "nanogpt", "workers=-1", "-r", "v1"], "The value '-1' of workers must be"),
        (["submit", "unet", "wor!=1", "-r", "v1"], "The axis 'wor!' must be 1 to 64"),
        (["submit", "unet", "--preset", "t!ny", "-r", "v1"], "The preset 't!ny' must be 1 to 64"),
        (["submit", "unet", "layout=\udcff", "-r", "v1"], "The value '\\udcff' of layout"),
        (["submit", "unet", *(f"a{at}=1" for at in range(65)), "-r", "v1"], "at most 64 items"),
        (["submit", "smoke", "precision=bf16", "-r", "v1"], "smoke is a suite"),
        (["submit", "resnet50", "--only", "unet", "-r", "v1"], "--only picks workloads of a suite"),
        (["submit", "smoke", "-r", "v1", "--require", "gpu"], "LABEL=VALUE"),
        (["submit", "smoke", "-r", "v1", *TWICE], "The label 'device' is given twice."),
        (
            ["schedule", "set", "n", "--cron", "0 2 * * *", "--suite", "smoke", *TWICE],
            "is given twice",
        ),
        (["submit", "smoke"], "name the version under test with --revision"),
        (["submit", "smoke", "-r", "v1", "--url", "nowhere"], "no address of a service"),
        (["jobs", "list", "--url", "http://127.0.0.1:99999"], "no address of a service"),
        (["jobs", "list", "--url", "http://:8765"], "no address of a service"),
        (["jobs", "list", "--url", "http://127.0.0.1:9/?a=b"], "no address of a service"),
        (["jobs", "list", "--url", "http://[::1"], "no address of a service"),
        (["jobs", "list", "--url", "http://127.0.0.1:9/api/v1/"], "leave /api/v1 out"),
        (["submit", "smoke", "-r", "v1", "--idempotency-key", "größe"], "--idempotency-key: write"),
        (["submit", "smoke", "-r", "v1", "--idempotency-key", ""], "--idempotency-key: write"),
        (["submit", "smoke", "-r", "v1", "--idempotency-key", "a b"], "--idempotency-key: write"),
        (["submit", "smoke", "-r", "\udcff"], "a character that names cannot have"),
        (["jobs", "show", "../schedules/nightly"], "no id and no name"),
        (["jobs", "show", ""], "no id and no name"),
        (["jobs", "cancel", ".."], "no id and no name"),
        (["report", "x/../y"], "no id and no name"),
        (["schedule", "fire", "."], "no id and no name"),
        (["schedule", "delete", "x/../nightly"], "no id and no name"),
        (["jobs", "list", "--revision", "\udcff"], "a character that names cannot have"),
        (["jobs", "show", "a" * 70_000], "too long"),
        (["compare", "a" * 70_000, "r1"], "too long"),
    ],
)
def test_a_wrong_order_is_one_sentence(
    throughline: Run, arguments: list[str], sentence: str
) -> None:
    done = throughline(*arguments, GIT_DIR="/nowhere")
    assert done.returncode == Exit.USAGE
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_token_file_that_is_no_text_is_one_sentence(throughline: Run, tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes("tl_abc".encode("utf-16"))
    done = throughline("jobs", "list", THROUGHLINE_TOKEN_FILE=str(tmp_path / "token"))
    assert done.returncode == Exit.USAGE
    assert "THROUGHLINE_TOKEN_FILE, is no token" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "field", "value"),
    [
        (["bench", "nanogpt"], "PROCESSES_LIMIT", "abc"),
        (["diagnose", "nanogpt"], "CONTAINMENT", "foo"),
        (["bench", "nanogpt"], "CHILD_COMMAND", "python -m benchmarks"),
        (["worker", "enroll", "tl_enrol_x"], "LABELS", "rack=3"),
        (["migrate"], "PORT", "abc"),
    ],
)
def test_a_wrong_setting_is_one_sentence(
    throughline: Run, arguments: list[str], field: str, value: str
) -> None:
    done = throughline(*arguments, **{f"THROUGHLINE_{field}": value})
    assert done.returncode == Exit.USAGE
    assert done.stderr.startswith(f"The setting THROUGHLINE_{field} is wrong: ")
    assert done.stderr.count("\n") == 1


def test_the_worker_says_what_an_interrupt_does(throughline: Run) -> None:
    assert "Ctrl-C lets it finish its job first" in throughline("worker", "--help").stdout


@pytest.mark.parametrize("count", ["0", "51", "many"])
def test_a_number_of_replicates_that_cannot_be_is_wrong_usage(throughline: Run, count: str) -> None:
    done = throughline("submit", "smoke", "-r", "v1", "--replicates", count)
    assert done.returncode == Exit.USAGE


def test_an_unknown_option_is_wrong_usage(throughline: Run) -> None:
    assert throughline("jobs", "list", "--colour").returncode == Exit.USAGE


def test_the_version_is_printed(throughline: Run) -> None:
    assert throughline("version").stdout.count(".") == 2


def test_a_port_in_use_is_passed_over_unless_it_was_asked_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        with pytest.raises(Stop, match=f"Port {number} is in use"):
            ports.choose("127.0.0.1", number)
        assert ports.choose("127.0.0.1", None) != number


def test_an_address_of_another_machine_cannot_be_listened_on() -> None:
    with pytest.raises(Stop, match="cannot listen"):
        ports.choose("192.0.2.1", 8765)


def test_a_state_folder_has_one_user_at_a_time(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path / "state")
    claim = folder.claim()
    claim.tell("http://127.0.0.1:8765")
    with pytest.raises(Stop, match=r"already running at http://127\.0\.0\.1:8765"):
        folder.claim()
    claim.release()
    folder.claim().release()


def test_a_state_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Stop, match="--state-dir"):
        StateFolder(tmp_path / "file" / "state").claim()


def test_a_benchmark_here_and_now_prints_its_result(throughline: Run) -> None:
    done = throughline("bench", "resnet50", "precision=bf16")
    assert done.returncode == Exit.OK
    for part in (
        "resnet50:tiny precision=bf16",
        "240 img/s",
        "±",
        "3 GiB",
        "works without waiting",
    ):
        assert part in done.stdout.replace("\u00a0", " ")


@pytest.fixture
def written(tmp_path: Path, environment: dict[str, str]) -> Callable[..., tuple[int, bytes]]:
    """Run `throughline ARGUMENTS` with its output in a file; its exit code, and its complaints."""

    def run(file: Path, *arguments: str, **more: str) -> tuple[int, bytes]:
        with file.open("wb") as out:
            done = subprocess.run(
                [sys.executable, "-m", "cli", *arguments],
                cwd=tmp_path,
                env=environment | more,
                stdout=out,
                stderr=subprocess.PIPE,
                timeout=60,
                check=False,
            )
        return done.returncode, re.sub(rb"(?m)^\w+ \.\.\.\n", b"", done.stderr)

    return run


def test_a_terminal_without_a_character_costs_no_measurement(
    written: Callable[..., tuple[int, bytes]], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert written(out, "bench", "resnet50", PYTHONIOENCODING="ascii") == (Exit.OK, b"")
    assert "resnet50:tiny" in out.read_text(encoding="ascii")
    assert written(out, "bench", "unet", "--json", PYTHONIOENCODING="latin-1") == (Exit.OK, b"")
    assert json.loads(out.read_text(encoding="latin-1"))["status"] == "ok"


@pytest.mark.parametrize("words", ["bench unet --json", "--help"])
def test_an_output_that_takes_nothing_is_one_sentence(
    written: Callable[..., tuple[int, bytes]], words: str
) -> None:
    code, told = written(Path("/dev/full"), *words.split())
    assert code == Exit.FAILED
    assert told == b"The output could not be written: No space left on device.\n"


def test_a_reader_that_goes_early_is_told_nothing(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    command = f"{sys.executable} -m cli --help | true"
    told = subprocess.run(
        ["sh", "-c", command],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert told.stderr == ""


def test_a_case_is_named_as_it_is_and_its_command_is_whole(throughline: Run) -> None:
    """As markup and emoji of rich a preset called train was a train."""
    sink = io.StringIO()
    result = Result.model_validate_json(throughline("bench", "unet", "--json").stdout)
    protocol = '{"window_min_s":' + "1" * 90 + "}"
    told = {
        "case": Case(workload="mypkg.more:train", preset="tiny", axes={"batch": "8"}),
        "repro": f"python -m benchmarks --protocol '{protocol}'",
    }
    result_panel.show(result.model_copy(update=told), Console(file=sink, width=80))
    shown = sink.getvalue()
    assert "mypkg.more:train:tiny batch=8" in shown
    assert "\u2026" not in shown
    assert "".join(re.findall("1+", shown.partition("again with")[2])) == "1" * 90


def test_the_processes_of_a_benchmark_have_seeds_of_their_own_and_share_their_caches(
    throughline: Run,
) -> None:
    """As JSON it is a Result and nothing else."""
    words = ("bench", "unet", "--replicates", "2", "--seed", "7", "--json")
    done, again = (throughline(*words, SCRIPT="caches") for _ in range(2))
    result = json.loads(done.stdout)
    assert result["status"] == "ok"
    assert result["samples"][0]["values"] == [60.0, 60.0]
    assert [replicate["seed"] for replicate in result["replicates"]] == [7, 8]
    first, second = re.findall("caches: (.+)", done.stderr)
    assert first == second != re.findall("caches: (.+)", again.stderr)[0]
    assert not Path(first).parent.exists()


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ("oom", "does not fit"),
        ("crash", "killed by SIGKILL"),
        ("garbage", "is no Result"),
        ("nan", "has NaN at samples[0].values[0]"),
    ],
)
def test_a_benchmark_that_fails_says_why(throughline: Run, script: str, sentence: str) -> None:
    done = throughline("bench", "resnet50", "precision=bf16", SCRIPT=script)
    assert done.returncode == Exit.FAILED
    assert sentence in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("script", "status", "sentence"),
    [
        ("crash", "crashed", "out-of-memory killer"),
        ("leaves", "garbage", "is no Result"),
    ],
)
def test_a_child_that_leaves_no_result_is_one_json_document_all_the_same(
    throughline: Run, script: str, status: str, sentence: str
) -> None:
    words = ("unet", "precision=bf16", "--preset", "tiny")
    done = throughline("bench", *words, "--json", SCRIPT=script)
    told = json.loads(done.stdout)
    assert done.returncode == Exit.FAILED
    assert told["case"] == {"workload": "unet", "preset": "tiny", "axes": {"precision": "bf16"}}
    assert told["status"] == status
    assert sentence in told["reason"]


def test_what_was_measured_before_a_child_died_is_kept(throughline: Run) -> None:
    words = ("unet", "--replicates", "3", "--seed", "1", "--json")
    done = throughline("bench", *words, SCRIPT="segfault")
    told = json.loads(done.stdout)
    assert (done.returncode, told["status"]) == (Exit.FAILED, "crashed")
    assert told["reason"] == "The child died by SIGSEGV; see the end of its log."
    assert [replicate["seed"] for replicate in told["replicates"]] == [1]
    assert told["environment"]["facts"]["hw.device"] == "cpu"


@pytest.mark.parametrize(
    ("file", "sentence"),
    [
        ("nowhere/x.json", "There is no folder for the trace nowhere/x.json."),
        ("x.txt", "A trace is a .json or a .json.gz, which x.txt is not."),
    ],
)
def test_a_trace_that_could_not_be_kept_is_one_sentence(
    throughline: Run, file: str, sentence: str
) -> None:
    done = throughline("bench", "resnet50", "--trace", file)
    assert done.returncode == Exit.USAGE
    assert done.stderr == f"{sentence}\n"


def test_a_wrong_benchmark_is_wrong_usage(throughline: Run) -> None:
    done = throughline("bench", "resnet5000")
    assert done.returncode == Exit.USAGE
    assert "There is no workload 'resnet5000'" in done.stderr


@pytest.mark.parametrize(
    ("words", "length"),
    [
        (["nanogpt"], None),
        (["nanogpt", "--parity"], "short"),
        (["nanogpt", "--parity", "batch=8"], "short"),
        (["--parity", "nanogpt", "batch=8"], "short"),
        (["nanogpt", "--parity", "--json", "batch=8"], "short"),
        (["nanogpt", "--parity", "short", "batch=8"], "short"),
        (["nanogpt", "--parity", "long", "batch=8"], "long"),
        (["nanogpt", "batch=8", "--parity=long"], "long"),
    ],
    ids=lambda told: told if isinstance(told, str) else " ".join(told or ()),
)
def test_parity_may_stand_alone_wherever_it_stands(words: list[str], length: str | None) -> None:
    given = load("bench").make_context("bench", list(words)).params
    assert (given["workload"], given["parity"]) == ("nanogpt", length)
    settings = [word for word in words if re.match(r"\w+=", word)]
    assert list(given["settings"] or ()) == settings
