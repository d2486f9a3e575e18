"""`throughline diagnose` climbs by itself and shows the ladder, on a simulated machine."""

import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from benchmarks.contracts import Case, ProcessSpec, Protocol, Result
from benchmarks.diagnosis import hill_climb
from benchmarks.diagnosis.suggestions import LEAST
from cli.exits import Exit, Stop
from cli.local import climb
from cli.local.climb import BRIEF
from cli.local.measure import LocalRunner, read_protocol
from cli.output import climb_report
from cli.output.console import Console
from tests.cli.simulated_machine import measured

Run = Callable[..., subprocess.CompletedProcess[str]]
CHILD = Path(__file__).with_name("simulated_machine.py")


@pytest.fixture
def diagnose(
    tmp_path: Path,
    environment: dict[str, str],
    throughline_in: Callable[[Path, dict[str, str]], Run],
) -> Run:
    command = {"THROUGHLINE_CHILD_COMMAND": f'["{sys.executable}", "{CHILD}"]'}
    run = throughline_in(tmp_path, environment | command)
    return lambda *arguments, **more: run("diagnose", *arguments, **more)


class Simulated:
    """Stands in for processes on this machine, without any."""

    def __init__(self, script: str) -> None:
        self._script = script
        self.beats: list[tuple[float, float] | None] = []

    def measure(self, case: Case, protocol: Protocol, **more: Any) -> Result:
        self.beats.append(more["beat"])
        return measured(ProcessSpec(case=case, protocol=protocol), self._script)


@dataclass
class Climbed:
    """A climb from ResNet-50: its document, what was said meanwhile, and what at the end."""

    beats: list[tuple[float, float] | None]
    document: dict[str, Any]
    said: str
    shown: str


def climbed(script: str = "ok", **axes: str) -> Climbed:
    first, machine = Case(workload="resnet50", axes=axes), Simulated(script)
    said, shown = io.StringIO(), io.StringIO()
    measure = climb.measurer(cast(LocalRunner, machine), BRIEF, first)
    found = climb.run(measure, first, 600.0, Console(file=said, width=200))
    climb_report.show(found, Console(file=shown, width=200))
    document = json.loads(json.dumps(found.document()))
    return Climbed(machine.beats, document, said.getvalue(), shown.getvalue())


def test_it_climbs_to_the_top_and_tells_each_step(diagnose: Run) -> None:
    done = diagnose("resnet50", "--json")
    assert done.returncode == Exit.OK, done.stderr
    told = json.loads(done.stdout)
    assert told["ended"] == "summit"
    assert told["best"] == ("resnet50:full layout=channels_last precision=bf16 workers=16")
    assert told["speedup"] == pytest.approx(0.5 / 0.08, rel=0.01)
    kept = [rung["tried"] for rung in told["rungs"] if rung["kept"]]
    assert kept == [None, "workers=16", "precision=bf16", "layout=channels_last"]
    assert all(rung["because"] for rung in told["rungs"][1:])
    first, second = done.stderr.splitlines()[:2]
    assert first.startswith("input-bound, high confidence.")
    assert second.startswith("Trying workers=16: 60% of the step is spent waiting for batches")


def test_each_try_is_told_what_it_must_beat() -> None:
    """Half a percent more than the best so far, whether or not the last try was it."""
    found = climbed()
    rungs = found.document["rungs"]
    first, *bars = found.beats
    assert first is None
    best = rungs[0]
    for bar, rung in zip(bars, rungs[1:], strict=True):
        assert bar is not None
        full, synth = bar
        assert full == pytest.approx(1.005 * best["throughput"])
        assert synth == pytest.approx(1.005 * best["throughput_synth"])
        best = rung if rung["kept"] else best


def test_the_ladder_is_shown_at_the_end() -> None:
    shown = climbed().shown
    assert "compile=default" in shown
    assert "Nothing else is left to try that may bring more than 2%." in shown
    best = "resnet50:full layout=channels_last precision=bf16 workers=16"
    assert f"Best: {best}" in shown
    assert f"throughline bench {best} --parity long" in shown.replace("\n", " ")


def test_a_rung_suggests_what_other_rungs_measured() -> None:
    rungs = climbed().document["rungs"]
    made = {one["case"]["axes"].get("precision"): one["throughput"] for one in rungs[1:3]}
    before = next(one for one in rungs if one["tried"] == "workers=16")
    told = {one["axis"]: one for one in before["verdict"]["suggestions"]}
    assert told["precision"]["speedup"] == pytest.approx(made["bf16"] / made[None])
    assert "measured +" in told["precision"]["sentence"]


def test_what_does_not_fit_is_told_and_not_kept() -> None:
    told = climbed("oom").document
    bf16 = next(rung for rung in told["rungs"] if rung["tried"] == "precision=bf16")
    assert (bf16["status"], bf16["kept"]) == ("oom", False)
    assert "precision=bf16" not in told["best"]


def test_doubts_about_a_case_are_told_and_do_not_keep_it_from_being_kept() -> None:
    rungs = climbed("doubtful").document["rungs"]
    first, bf16 = rungs[0], next(one for one in rungs if one["tried"] == "precision=bf16")
    assert (first["parity"], first["flags"]) == (None, [])
    assert bf16["parity"] == {"status": "nondeterministic", "reason": "Two runs differ by 1e-3."}
    assert bf16["flags"] == ["throttled"]
    assert bf16["kept"]


def test_doubts_stand_under_the_ladder_and_where_the_case_was_tried() -> None:
    found = climbed("doubtful")
    doubt = "parity nondeterministic: Two runs differ by 1e-3."
    assert f"precision=bf16: {doubt}" in found.shown
    assert "precision=bf16: flags: throttled" in found.shown
    tried = found.said.split("Trying precision=bf16")[1].split("Trying")[0]
    assert f"  {doubt}\n  flags: throttled\n" in tried
    assert "parity nondeterministic" not in climbed().shown


def test_a_case_that_hangs_is_stopped_when_the_budget_is_spent(diagnose: Run) -> None:
    told = json.loads(diagnose("resnet50", "--json", "--budget=8s", MACHINE="hangs").stdout)
    assert told["ended"] == "budget"
    assert [rung["status"] for rung in told["rungs"]] == ["ok", "timeout"]


def test_it_begins_where_it_is_told_to() -> None:
    told = climbed(workers="8", precision="tf32").document
    assert told["rungs"][0]["case"]["axes"] == {"precision": "tf32", "workers": "8"}


def test_a_first_case_that_fails_is_told_with_its_reason(diagnose: Run) -> None:
    done = diagnose("resnet50", "workers=2", MACHINE="broken")
    assert done.returncode == Exit.FAILED
    assert "crashed: It does not work here." in done.stderr
    assert "The first case could not be measured." in done.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["resnet5"], "There is no workload 'resnet5'"),
        (["resnet50", "--budget=soon"], "no span of time"),
        (["resnet50", "--protocol={"], "Invalid JSON"),
        (["resnet50", '--protocol={"window_min_s": -1}'], "window_min_s"),
    ],
)
def test_wrong_usage_is_one_sentence(diagnose: Run, arguments: list[str], sentence: str) -> None:
    done = diagnose(*arguments)
    assert done.returncode == Exit.USAGE
    assert sentence in done.stderr


def test_the_page_tells_the_thresholds_that_are_in_force() -> None:
    page = " ".join((Path(__file__).parents[2] / "docs" / "cli.md").read_text().split())
    part = page.partition("## Find what stops a model")[2].partition(" ## ")[0]
    told = {float(text) for text in re.findall(r"([\d.]+) %", part)}
    assert told == {100 * share for share in (LEAST, hill_climb.SURE, hill_climb.WORTH, 0.95)}
    assert f"faster by more than {100 * LEAST:g} %" in part
    assert f"may bring more than {100 * hill_climb.WORTH:g} %" in part


def test_a_given_protocol_replaces_only_the_fields_that_it_names() -> None:
    told = read_protocol('{"window_max_s": 9.0}', BRIEF)
    assert told == BRIEF.model_copy(update={"window_max_s": 9.0})
    assert read_protocol(None) == Protocol()
    with pytest.raises(Stop, match="windows: Extra"):
        read_protocol('{"windows": 1}')
