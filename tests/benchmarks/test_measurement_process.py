"""``python -m benchmarks`` in a real process: one Result on stdout, whatever happens."""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from builders import loaded
from builders.measured import BATCH, a_pass

from benchmarks.__main__ import main as benchmarks_command
from benchmarks.contracts import Case, Event, ProcessSpec, Protocol, Result, Status
from benchmarks.exits import NO_DEVICE
from benchmarks.measure.session import protocol_after
from tests.benchmarks.test_own_model import BARE

BRIEF = json.dumps(
    {
        "warmup_min_steps": 4,
        "warmup_min_s": 0.1,
        "warmup_max_steps": 6,
        "window_min_s": 0.2,
        "window_min_steps": 4,
        "window_min_blocks": 2,
        "window_max_blocks": 2,
        "window_max_s": 20.0,
        "block_min_steps": 1,
        "block_min_s": 0.01,
        "settle_max_s": 0.0,
    }
)
ROOT = Path(__file__).parents[2]
SMALL = "batch=2"
"""Most of the time of a tiny case on a CPU is arithmetic, and nothing here is about how much."""
ONE_THREAD = {"OMP_NUM_THREADS": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
"""Tests share two cores; threads that spin beside each other would take minutes, and processes that
wait for something to compile would first import torch.
"""
OPTIONS = ("--protocol", BRIEF, "--device", "cpu")
SMALL_GPT = """
from benchmarks.workloads.nanogpt import build
ITEM = "token"
FACTS = {"input": "tokens"}
PRESETS = {"tiny": {"batch": 2, "layers": 1, "head": 32, "width": 128, "length": 128,
                    "vocabulary": 1024, "text": 2_000_000}}
"""
"""nanoGPT with one layer: most of what a compiler does for four is the same four times."""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def run(
    cache: Path,
    *words: str,
    limit: Callable[[], None] | None = None,
    at: Path | None = None,
    **variables: str,
) -> subprocess.CompletedProcess[str]:
    """Measure what a person would type."""
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *words, *OPTIONS],
        env={**os.environ, "THROUGHLINE_CACHE_DIR": str(cache), **ONE_THREAD, **variables},
        capture_output=True,
        text=True,
        timeout=240,
        preexec_fn=limit,
        cwd=at,
        check=False,
    )


def run_loaded(
    cache: Path, *words: str, spec: ProcessSpec | None = None
) -> subprocess.CompletedProcess[str]:
    """Measure what a person would type, or what a worker would write to standard input."""
    return loaded.run(
        *("benchmarks", *(("-",) if spec else (*words, *OPTIONS))),
        environment={**os.environ, "THROUGHLINE_CACHE_DIR": str(cache)},
        folder=ROOT,
        given=spec.model_dump_json().encode() if spec else b"",
        passed=() if spec is None or spec.events_fd is None else (spec.events_fd,),
    )


def result_of(finished: subprocess.CompletedProcess[str]) -> Result:
    assert finished.returncode == 0, finished.stderr
    return Result.model_validate_json(finished.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    ("words", "item"),
    [
        (
            "nanogpt optimizer=fused accumulation=2 checkpointing=blocks gc=on zero_grad=zeros",
            "token",
        ),
        pytest.param(
            "resnet50 workers=2 layout=channels_last prefetch_factor=1 decode=cache",
            "img",
            marks=pytest.mark.slow,
        ),
        pytest.param("unet", "img", marks=pytest.mark.slow),
    ],
    ids=["nanogpt", "resnet50", "unet"],
)
def test_a_case_is_measured_with_its_loader_and_without(cache: Path, words: str, item: str) -> None:
    result = result_of(run_loaded(cache, *words.split(), SMALL))
    assert result.status is Status.OK, result.reason
    assert result.case.preset == "tiny"
    metrics = {sample.metric: sample for sample in result.samples}
    assert metrics["throughput"].unit == f"{item}/s"
    assert metrics["throughput"].values[0] > 0
    assert metrics["throughput_synth"].values[0] > 0
    (replicate,) = result.replicates
    for timed in (replicate.full, replicate.synth):
        steps = timed.step_trace.values()
        assert len(steps) == timed.steps >= 4
        assert timed.rate == pytest.approx(result.batch_items * len(steps) / sum(steps), rel=1e-4)
        parts = (timed.stall_s, timed.copy_s, timed.work_s)
        assert sum(parts) == pytest.approx(sum(steps) / len(steps), rel=1e-3)
    assert result.environment.facts["flag.tf32_matmul"] == "false"
    assert result.environment.facts["flag.loader.start_method"]
    assert result.verdict is not None


def test_a_compiled_case_tells_compilation_from_steady_state_and_is_profiled(
    cache: Path, tmp_path: Path
) -> None:
    trace = tmp_path / "trace.json"
    (tmp_path / "small_gpt.py").write_text(SMALL_GPT)
    words = ("small_gpt:build", "compile=default", "--trace", str(trace))
    header = {"TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "1"}  # for a dozen kernels
    done = run(cache, *words, at=tmp_path, PYTHONPATH=str(ROOT), **header)
    result = result_of(done)
    assert result.status is Status.OK, result.reason
    assert "USDT" not in done.stderr
    (replicate,) = result.replicates
    assert replicate.warmup.first_step_s > 5 * replicate.synth.p50_s
    assert json.loads(trace.read_bytes())["traceEvents"]
    assert replicate.phases is None
    profile = replicate.profile
    assert profile is not None
    assert (profile.absent, profile.notes) == ("", ())
    lines = {
        operation.source.rpartition(":")[0] for operation in profile.operations if operation.source
    }
    assert lines == {"benchmarks/workloads/nanogpt.py"}
    # 6 N + 12 L H Q T a token, as the workload's docstring counts it; attention of a CPU is not.
    per_token = sum(demand.flops for demand in profile.demands) / result.batch_items
    assert per_token == pytest.approx(6 * (result.parameters - 128 * 128), rel=0.01)


@pytest.mark.parametrize("name", ["trace.txt", "nowhere/trace.json"])
def test_a_trace_that_could_not_be_kept_is_refused_at_once(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert benchmarks_command(["nanogpt", "--trace", str(tmp_path / name)]) == 2
    assert capsys.readouterr().err.startswith("--trace: ")


def as_a_worker_asks(**more: object) -> ProcessSpec:
    case = {"workload": "nanogpt", "axes": {"batch": "2"}}
    fields = {"case": case, "protocol": json.loads(BRIEF), "device": "cpu", **more}
    return ProcessSpec.model_validate(fields)


BESIDE = dict.fromkeys(("phases", "profile", "parity", "efficiency"), True)


def test_what_a_worker_asks_for_is_told_as_it_goes_and_left_at_timing_below_the_bar(
    cache: Path,
) -> None:
    reader, writer = os.pipe()
    spec = {
        "case": {"workload": "nanogpt", "axes": {"batch": "2"}},
        "protocol": {**json.loads(BRIEF), **BESIDE},
        "device": "cpu",
        "seed": 7,
        "beat": (1e12, 1e12),
        "events_fd": writer,
    }
    finished = run_loaded(cache, spec=ProcessSpec.model_validate(spec))
    os.close(writer)
    result = result_of(finished)
    assert result.status is Status.OK, result.reason
    assert result.repro.startswith("python -m benchmarks nanogpt batch=2 --preset tiny --seed 7")
    with os.fdopen(reader) as lines:
        events = [Event.model_validate_json(line) for line in lines]
    phases = list(dict.fromkeys(event.progress.phase for event in events))
    assert phases == ["build", "first_step", "warmup", "full", "synth"]
    fractions = [event.progress.fraction for event in events]
    assert fractions == sorted(fractions)
    (replicate,) = result.replicates
    assert replicate.full.rate > 0
    absent = (replicate.phases, replicate.profile, result.parity, result.efficiency)
    assert absent == (None,) * 4


@pytest.mark.parametrize(
    ("beat", "looked_at"),
    [(None, True), ((9.9, 99.0), True), ((99.0, 19.9), True), ((10.0, 20.0), False)],
)
def test_a_case_that_beats_a_bar_in_one_rate_is_looked_at(
    beat: tuple[float, float] | None, looked_at: bool
) -> None:
    asked = ProcessSpec(
        case=Case(workload="nanogpt"), protocol=Protocol.model_validate(BESIDE), beat=beat
    )
    full, synth = (a_pass(BATCH / rate) for rate in (10.0, 20.0))
    assert (full.rate, synth.rate) == pytest.approx((10.0, 20.0))
    left = protocol_after(asked, full, synth)
    assert [left.phases, left.profile, left.parity, left.efficiency] == [looked_at] * 4


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("resnet51",), "There is no workload 'resnet51'"),
        (("resnet50", "precision=fp7"), "Axis 'precision' has no value 'fp7'"),
        (("resnet50", "precision"), "Write an axis as axis=value"),
        (("nanogpt", "layout=channels_last"), "layout=channels_last needs input=images"),
        (("resnet50", "--preset", "huge"), "There is no preset of resnet50 'huge'"),
        (("resnet50:huge",), "There is no preset of resnet50 'huge'"),
        (("resnet50", "precision=bf16", "precision=fp32"), "The axis 'precision' is given twice"),
        (("resnet50", "batch=-1"), "axes.batch: must be 1 to 64 of the characters"),
    ],
)
def test_a_wrong_name_ends_with_one_sentence_and_status_2(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], sentence: str
) -> None:
    assert benchmarks_command([*words, *OPTIONS]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(sentence)
    assert len(printed.err.splitlines()) == 1


def test_a_wrong_name_is_the_exit_code_of_the_process_before_torch_is_imported(cache: Path) -> None:
    finished = run(cache, "resnet51", PYTHONPROFILEIMPORTTIME="1")
    assert finished.returncode == 2
    assert finished.stdout == ""
    assert "There is no workload 'resnet51'" in finished.stderr
    assert "pydantic" in finished.stderr
    assert "torch" not in finished.stderr


def test_a_device_that_cannot_be_used_is_told_from_a_wrong_command_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert benchmarks_command(["nanogpt", "--device", "cuda:99"]) == NO_DEVICE
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("cuda:99 cannot be used: torch ")
    assert len(printed.err.splitlines()) == 1


def measured_here(
    cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str
) -> Result:
    """What a process would print of a case that is never built, without torch's two seconds."""
    monkeypatch.setenv("THROUGHLINE_CACHE_DIR", str(cache))
    assert benchmarks_command([*words, *OPTIONS]) == 0
    return Result.model_validate_json(capsys.readouterr().out)


def test_a_case_that_this_device_cannot_run_is_unsupported(
    cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    result = measured_here(cache, capsys, monkeypatch, "nanogpt", "precision=tf32")
    assert result.status is Status.UNSUPPORTED
    assert result.reason == ("precision=tf32 needs device=cuda, and this worker has device=cpu.")


@pytest.mark.slow
def test_a_worker_without_a_compiler_is_told_to_install_one(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "bare.py").write_text(BARE)
    result = result_of(
        run(
            cache,
            "bare:build",
            "compile=default",
            at=tmp_path,
            PYTHONPATH=str(ROOT),
            CXX=str(tmp_path / "missing"),
            TORCHINDUCTOR_CACHE_DIR=str(tmp_path),
        )
    )
    assert result.status is Status.COMPILE_ERROR
    assert "C++ compiler" in result.reason
    assert result.log_tail


def test_a_batch_that_does_not_fit_is_oom_and_never_made_smaller(cache: Path) -> None:
    def little_memory() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (3 * 2**30, 3 * 2**30))

    result = result_of(run(cache, "nanogpt", "batch=8000", limit=little_memory))
    assert result.status is Status.OOM, result.reason
    assert "A batch of 8000 does not fit" in result.reason
    assert result.case.axes == {"batch": "8000"}


def test_a_wrong_data_root_says_what_to_give(
    cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("resnet50", "--data-root", str(tmp_path / "nowhere"))
    result = measured_here(cache, capsys, monkeypatch, *words)
    assert result.status is Status.RUNTIME_ERROR
    assert "nowhere" in result.reason
