"""`throughline sweep` measures a case at several values, and names the knee."""

import io
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from builders.measured import a_pass, a_replicate, a_result

from benchmarks.contracts import Case, Protocol, Result, Status
from cli.commands.sweep import measure_each
from cli.exits import Exit, Stop
from cli.local.measure import DeviceHeld, LocalRunner
from cli.output import sweep_page, sweep_report
from cli.output.console import Console

Run = Callable[..., subprocess.CompletedProcess[str]]
BRIEF = {
    "warmup_min_steps": 2,
    "warmup_min_s": 0.1,
    "warmup_max_s": 1.0,
    "window_min_s": 0.2,
    "window_max_s": 0.5,
    "window_min_steps": 4,
    "window_min_blocks": 2,
    "block_min_s": 0.02,
}


class Simulated:
    """Stands in for processes: a batch up to 32 takes as long as one of 32; 256 does not fit."""

    def __init__(self, ends: dict[int, BaseException] | None = None) -> None:
        self.ends = ends or {}

    def measure(self, case: Case, protocol: Protocol) -> Result:
        batch = int(case.axes["batch"])
        if batch in self.ends:
            raise self.ends[batch]
        timed = a_pass(0.001 * max(batch, 32))
        result = a_result(a_replicate(timed, timed))
        factor = batch / result.batch_items if result.batch_items else batch
        samples = tuple(
            one.model_copy(update={"values": tuple(factor * value for value in one.values)})
            if one.metric == "throughput"
            else one
            for one in result.samples
        )
        if batch >= 256:
            reason = "A batch of 256 <does> not fit."
            update: dict[str, Any] = {"status": Status.OOM, "reason": reason, "samples": ()}
        else:
            update = {"samples": samples}
        return result.model_copy(update={"case": case, "verdict": None, **update})


def swept(*batches: int, **more: Any) -> sweep_report.Sweep:
    cases = {str(n): Case(workload="resnet50", axes={"batch": str(n)}) for n in batches}
    return measure_each(cast(LocalRunner, Simulated(**more)), "batch", cases, Protocol())


def shown(made: sweep_report.Sweep) -> str:
    out = io.StringIO()
    sweep_report.show(made, Console(file=out, width=200))
    return out.getvalue().replace("\u00a0", " ")


def test_the_knee_is_named_and_what_does_not_fit_ends_nothing() -> None:
    made = swept(8, 256, 16, 32, 64, 128)
    told = made.document()
    assert [point["status"] for point in told["points"]] == ["ok", "oom", *["ok"] * 4]
    assert told["curve"]["knee"]["size"] == 32
    assert [point["of_most"] for point in told["points"]] == pytest.approx(
        [0.25, None, 0.5, 1, 1, 1]
    )
    text = shown(made)
    assert re.search(r"\b8 .* 25\.0 % +32\.00 ms", text)
    assert re.search(r"\b256 +oom", text)
    assert "batch=256: A batch of 256 <does> not fit." in text
    assert "Knee: " in text
    assert "at batch=32. That is the most." in text


def test_a_curve_that_still_rises_has_no_knee() -> None:
    text = shown(swept(4, 8, 16, 256))
    assert "No knee: throughput still rises at the largest measured value, to " in text
    assert "at batch=16." in text
    flat = "Already the smallest value, 1,000 img/s at batch=32, is within 5% of the most."
    assert flat in shown(swept(32, 64, 128))
    assert "No knee: a curve needs 3 measured values." in shown(swept(4, 8, 256))


def test_what_was_measured_before_an_interruption_is_shown() -> None:
    made = swept(8, 16, ends={16: KeyboardInterrupt()})
    assert [point.value for point in made.points] == ["8"]
    assert "Interrupted; this is what was measured so far." in shown(made)
    held = swept(8, 16, ends={16: DeviceHeld("A process stays.", Exit.FAILED)})
    assert held.ended == "A process stays."
    with pytest.raises(Stop):
        swept(8, ends={8: Stop("The device cannot be used.")})


def test_the_page_needs_nothing_else_and_runs_no_strangers_words() -> None:
    text = sweep_page.page(swept(8, 16, 32, 64, 256))
    assert "&lt;does&gt;" in sweep_page.figure(swept(8, 256))["data"][1]["text"][0]  # type: ignore[index]
    own = text.replace(re.findall(r"<script>.*?</script>", text, flags=re.DOTALL)[0], "")
    assert "<does>" not in own
    assert "var(--" not in own
    assert not re.findall(r"(src|href)=", own)
    assert '"x":[32.0],"y":[' in own  # the knee
    assert "Throughput of resnet50 over batch" in own


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nanogpt", "--over", "batch"], "no AXIS=VALUE,VALUE..., such as batch=8,16"),
        (["nanogpt", "--over", "batch=8,,16"], "no AXIS=VALUE,VALUE..., such as batch=8,16"),
        (["nanogpt", "--over", "batch=8,8"], "--over takes 2 to 32 different values of batch."),
        (["nanogpt", "batch=4", "--over", "batch=8,16"], "The axis 'batch' is given twice."),
        (["nanogpt", "--over", "resolution=32,64"], "needs a workload whose PRESETS have the size"),
        (["nanogpt", "--over", "batch=8,x"], "Axis 'batch' has no value 'x'"),
        (["unet", "--over", "batch=8,9", "--html", "no/where.html"], "There is no folder no"),
    ],
)
def test_a_wrong_request_is_refused_before_anything_is_measured(
    throughline: Run, arguments: list[str], sentence: str
) -> None:
    done = throughline("sweep", *arguments)
    assert done.returncode == Exit.USAGE
    assert sentence in done.stderr


def test_values_that_are_no_sizes_have_a_table_and_no_knee(throughline: Run) -> None:
    done = throughline("sweep", "unet", "--over", "precision=fp32,bf16", SCRIPT="oom")
    assert done.returncode == Exit.OK, done.stderr
    assert "precision=bf16: The batch does not fit into 4.0 GiB" in done.stdout
    assert "60 item/s  ± 1.0 %" in done.stdout.replace("\u00a0", " ")
    assert "nee" not in done.stdout


def test_when_no_value_can_be_measured_it_has_failed(throughline: Run) -> None:
    done = throughline("sweep", "unet", "--over", "batch=1,2", SCRIPT="garbage")
    assert done.returncode == Exit.FAILED
    assert "batch=2: " in done.stdout


@pytest.mark.slow
def test_a_real_sweep_over_the_sequence_length(
    tmp_path: Path, environment: dict[str, str], throughline_in: Callable[..., Run]
) -> None:
    np.arange(20_000, dtype=np.uint16).__mod__(1024).tofile(tmp_path / "train.bin")
    real = {k: v for k, v in environment.items() if k != "THROUGHLINE_CHILD_COMMAND"}
    options = ["--device", "cpu", "--data-root", str(tmp_path), "--protocol", json.dumps(BRIEF)]
    lengths = "sequence=16,99999"
    done = throughline_in(tmp_path, real)(
        *("sweep", "nanogpt:tiny", "batch=2", "--over", lengths, "--json"),
        *(*options, "--html", "curve.html"),
    )
    assert done.returncode == Exit.OK, done.stderr
    told = json.loads(done.stdout)
    assert told["unit"] == "token/s"
    assert told["points"][0]["batch_items"] == 2 * 16
    assert told["points"][0]["throughput"]["value"] > 0
    assert told["points"][0]["case"]["axes"] == {"batch": "2", "sequence": "16"}
    assert "one window needs 100000" in told["points"][1]["reason"]
    assert "Plotly.newPlot" in (tmp_path / "curve.html").read_text()
