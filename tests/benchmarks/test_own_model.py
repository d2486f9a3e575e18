"""A user's own model: named, refused, imported and measured."""

import io
import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from builders import loaded
from builders.example_runs import BRIEF, EXAMPLES, result_of, run
from pydantic import ValidationError

from benchmarks import workload_module
from benchmarks.catalog import catalog
from benchmarks.catalog.catalog import Refused, UnknownName, WorkloadEntry
from benchmarks.contracts import (
    Case,
    LongParityStatus,
    ParityStatus,
    ProcessSpec,
    Protocol,
    Result,
    Status,
    workload_of,
)
from benchmarks.measure import session
from benchmarks.measure.progress import Reporter
from benchmarks.measure.session import build
from benchmarks.workload import Context
from cli.output import result_panel
from cli.output.console import Console

TAGGER = "tagger.bench:build"


@pytest.mark.slow
def test_the_command_of_the_documents_measures_the_example_and_holds_it_against_fp32(
    tmp_path: Path,
) -> None:
    words = ("cli", "bench", TAGGER, "precision=bf16", "--protocol", json.dumps(BRIEF))
    result = result_of(run(tmp_path, *words, "--parity", "--json"))
    assert result.status is Status.OK, result.reason
    assert result.case.key == "tagger.bench:build:tiny precision=bf16"
    assert (result.item, result.batch_items) == ("word", 16 * 20)
    assert result.environment.facts["sw.data"] == "tagger-random-v1"
    assert len(result.environment.facts["sw.model"]) == 16
    assert result.environment.facts["sw.model.input"] == "tokens"
    assert result.repro.startswith("python -m benchmarks tagger.bench:build precision=bf16 ")
    assert result.parity is not None
    assert result.parity.status is ParityStatus.PASS, result.parity.reason
    shown = io.StringIO()
    result_panel.show(result, Console(file=shown, width=120))
    assert "tagger.bench:build:tiny precision=bf16" in shown.getvalue()
    assert "word/s" in shown.getvalue()


def test_a_projects_own_folder_called_benchmarks_hides_nothing(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES / "tagger", tmp_path / "tagger")
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "__main__.py").write_text("raise SystemExit('the wrong one')\n")
    words = ("cli", "bench", f"{TAGGER}:huge", "--json")
    result = result_of(run(tmp_path, *words, at=tmp_path))
    assert result.status is Status.UNSUPPORTED
    assert result.reason.startswith("There is no preset of tagger.bench:build 'huge'")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that modules are imported from, and forgotten afterwards."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]
    workload_module.load.cache_clear()


def measured(
    project: Path, workload: str, monkeypatch: pytest.MonkeyPatch, **asked: bool
) -> Result:
    """What a process makes of a model, in this one."""
    monkeypatch.setenv("THROUGHLINE_CACHE_DIR", str(project / "cache"))
    protocol = Protocol.model_validate({**BRIEF, **asked})
    spec = ProcessSpec(case=Case(workload=workload), protocol=protocol)
    return session.measure(spec, torch.device("cpu"), Reporter(None, workload))


def test_a_module_that_is_not_there_says_so(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = measured(project, "nowhere.bench:build", monkeypatch)
    assert result.status is Status.UNSUPPORTED
    assert result.reason.startswith("There is no module nowhere.bench here")


BARE = """
import torch
from torch import nn
from torch.utils.data import TensorDataset
from benchmarks.workload import Recipe

def build(size, context):
    model = nn.Linear(3, 1).eval()
    data = TensorDataset(torch.randn(8, 3), torch.randn(8, 1))
    loss = lambda model, batch: (model(batch[0]) - batch[1]).square().mean()
    return Recipe(model, loss, torch.optim.SGD, nn.Module.parameters, data, batch=4,
                  optimizer_options={"lr": 0.1})
"""


def a_build(project: Path, text: str, name: str) -> Any:
    (project / f"{name}.py").write_text(text)
    return workload_module.load(f"{name}:build")


def test_a_module_without_any_literal_has_sensible_ones(project: Path) -> None:
    module = a_build(project, BARE, "bare_one")
    assert (module.entry.item, dict(module.entry.facts)) == ("sample", {})
    case = catalog.normalise(Case(workload="bare_one:build"), "cpu", module.entry)
    assert case.preset == "tiny"
    recipe = build(case, Context(torch.device("cpu"), project))
    assert recipe.model.training
    with pytest.raises(Refused, match="bare_one:build declares no input in its FACTS"):
        catalog.normalise(
            Case(workload="bare_one:build", axes={"layout": "channels_last"}), "cpu", module.entry
        )


def test_what_axes_may_ask_for_is_recorded_of_an_own_model_alone(project: Path) -> None:
    text = BARE + "FACTS = {'input': 'images', 'what we call it': 'ours'}\n"
    recorded = catalog.recorded(a_build(project, text, "bare_facts").entry)
    assert recorded == {"sw.model.input": "images"}
    assert catalog.remembered({"hw.device": "cpu", **recorded}) == {"input": "images"}
    assert catalog.recorded(catalog.workloads()["resnet50"]) == {}


def test_a_module_with_presets_of_its_own_takes_its_first_one(project: Path) -> None:
    module = a_build(project, BARE + "PRESETS = {'small': {'width': 2}}\n", "bare_two")
    case = catalog.normalise(Case(workload="bare_two:build"), "cuda", module.entry)
    assert case.preset == "small"


def test_a_model_that_makes_nan_has_no_speed(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = BARE.replace("- batch[1])", "- batch[1]).log()")  # of numbers below zero
    (project / "nan_maker.py").write_text(text)
    result = measured(project, "nan_maker:build", monkeypatch)
    assert (result.status, result.samples) == (Status.PARITY_FAIL, ())
    assert result.reason.startswith("The loss was NaN or infinite at the end of FULL and SYNTH")
    assert len(result.replicates) == 1


@pytest.mark.slow
def test_a_model_is_trained_over_more_steps_where_that_is_asked_for(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "plain_one.py").write_text(BARE)
    result = measured(project, "plain_one:build", monkeypatch, long_parity=True)
    long = result.long_parity
    assert long is not None
    assert (result.status, long.status) == (Status.OK, LongParityStatus.NO_WORSE), long.reason
    assert (long.batch, long.steps, result.parity) == (4, 250, None)
    shown = io.StringIO()
    result_panel.show(result, Console(file=shown, width=120))
    assert "no worse: After 250 steps of 4 seeds" in shown.getvalue()


NOISY = """
import atexit, os, sys, threading, time
threading.Thread(target=lambda: time.sleep(300)).start()
atexit.register(lambda: print("run finished, see https://example.com"))
os.system("printf 'a tool says this'")
sys.stdout.write("loading the model ...")
"""


def test_what_a_model_prints_or_leaves_running_neither_spoils_nor_holds_the_result(
    tmp_path: Path,
) -> None:
    (tmp_path / "noisy.py").write_text(NOISY + BARE)
    words = ("benchmarks", "noisy:build", "--protocol", json.dumps(BRIEF), "--device", "cpu")
    cache = {"THROUGHLINE_CACHE_DIR": str(tmp_path / "cache")}
    finished = loaded.run(*words, environment={**os.environ, **cache}, folder=tmp_path)
    assert result_of(finished).status is Status.OK
    assert len(finished.stdout.splitlines()) == 1
    assert "a tool says this" in finished.stderr
    assert "loading the model ..." in finished.stderr


def test_code_that_ends_the_process_is_named(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "leaver.py").write_text(BARE + "raise SystemExit('no weights found')\n")
    result = measured(project, "leaver:build", monkeypatch)
    assert result.status is Status.RUNTIME_ERROR
    assert result.reason.endswith("ended the process, with sys.exit(no weights found).")


def test_a_size_that_no_preset_has_is_named(project: Path) -> None:
    a_build(project, BARE.replace("batch=4", "batch=size['batch']"), "bare_five")
    case = Case(workload="bare_five:build", preset="tiny")
    with pytest.raises(Refused, match="the size 'batch', and the preset has no sizes"):
        build(case, Context(torch.device("cpu"), project))


@pytest.mark.parametrize("name", ["mypkg/bench.py:build", "mypkg.bench", "mypkg.bench:", "a.b:2c"])
def test_what_is_no_name_of_a_function_is_told_how_to_write_one(name: str) -> None:
    with pytest.raises(UnknownName, match=r"package\.module:function.*such as mypkg\.bench:build"):
        catalog.named(name)


@pytest.mark.parametrize("optimizer", ["torch.optim.Muon", "Mine"])
def test_an_optimizer_without_a_choice_is_left_as_it_is(project: Path, optimizer: str) -> None:
    subclass = """
class Mine(torch.optim.SGD):
    def __init__(self, parameters, lr):
        super().__init__(parameters, lr=lr)
"""
    name = f"bare_{optimizer.rpartition('.')[2].lower()}"
    a_build(project, BARE.replace("torch.optim.SGD", optimizer) + subclass, name)
    here = Context(torch.device("cpu"), project)
    recipe = build(Case(workload=f"{name}:build", preset="tiny"), here)
    assert recipe.optimizer_options == {"lr": 0.1}
    fused = Case(workload=f"{name}:build", preset="tiny", axes={"optimizer": "fused"})
    with pytest.raises(Refused, match=f"takes fused=, and {optimizer.rpartition('.')[2]} does not"):
        build(fused, here)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (BARE + "PRESETS = {}\n", "PRESETS of .* is empty"),
        (BARE + "PRESETS = {'tiny': {'batch': 'many'}}\n", "PRESETS.TINY.BATCH of .* is not as"),
        (BARE + "ITEM = 3\n", "ITEM of .* is not as documented"),
    ],
)
def test_literals_that_are_not_as_documented_are_named(
    project: Path, text: str, sentence: str
) -> None:
    with pytest.raises(Refused, match=sentence):
        a_build(project, text, "bare_three")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("tagger.nowhere:build", "There is no module tagger.nowhere here"),
        ("tagger.bench:nothing", "tagger.bench has no function nothing"),
        ("tagger.bench:ITEM", "tagger.bench has no function ITEM"),
    ],
)
def test_a_function_that_is_not_there_is_named(
    project: Path, monkeypatch: pytest.MonkeyPatch, name: str, sentence: str
) -> None:
    shutil.copytree(EXAMPLES / "tagger", project / "tagger")
    with pytest.raises(Refused, match=sentence):
        workload_module.load(name)


def test_an_axis_that_its_input_rules_out_is_refused(project: Path) -> None:
    shutil.copytree(EXAMPLES / "tagger", project / "tagger")
    case = Case(workload=TAGGER, axes={"layout": "channels_last"})
    with pytest.raises(Refused, match=r"needs input=images, and tagger\.bench:build has"):
        catalog.normalise(case, "cpu", workload_module.load(TAGGER).entry)


def test_what_returns_no_recipe_is_refused(project: Path) -> None:
    a_build(project, "def build(size, context):\n    return 7\n", "bare_four")
    case = Case(workload="bare_four:build", preset="tiny")
    with pytest.raises(Refused, match="returned int, and a Recipe"):
        build(case, Context(torch.device("cpu"), project))


def test_a_module_that_misses_a_library_of_its_own_fails_with_its_own_error(project: Path) -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_library"):
        a_build(project, "import no_such_library\n", "bare_five")


def test_the_fingerprint_follows_the_code_of_the_project_and_nothing_else(project: Path) -> None:
    (project / "beside_it.py").write_text("WIDTH = 1\n")
    first = a_build(project, "import beside_it\n" + BARE, "bare_six").code
    (project / "not_imported.py").write_text("\n")
    workload_module.load.cache_clear()
    assert workload_module.load("bare_six:build").code == first
    (project / "beside_it.py").write_text("WIDTH = 2\n")
    workload_module.load.cache_clear()
    assert workload_module.load("bare_six:build").code != first
    assert workload_module.load("nanogpt").code == ""


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("resnet50", ("resnet50", "")),
        ("resnet50:full", ("resnet50", "full")),
        ("mypkg.bench:build", ("mypkg.bench:build", "")),
        ("mypkg.bench:build:tiny", ("mypkg.bench:build", "tiny")),
        ("resnet51", ("resnet51", "")),
    ],
)
def test_a_name_of_the_catalog_is_told_from_a_users_own(name: str, named: tuple[str, str]) -> None:
    assert catalog.named(name) == named


@pytest.mark.parametrize("workload", ["resnet50", "mypkg.bench:build", "MyPkg:Build_2"])
def test_a_key_gives_workload_and_preset_back(workload: str) -> None:
    case = Case(workload=workload, preset="tiny", axes={"precision": "bf16"})
    assert workload_of(case.key) == (workload, "tiny")


@pytest.mark.parametrize(
    "name",
    ["a:b:c", ":build", "a.b:", "a..b:c", "../a:b", "a b:c", "a:b()", "os;x:y", "é:b", "1a:b"],
)
def test_no_other_form_is_a_name(name: str) -> None:
    with pytest.raises(ValidationError):
        Case(workload=name)


def test_the_service_checks_axes_and_leaves_the_module_to_the_worker() -> None:
    case = Case(workload="mypkg.bench:build", axes={"precision": "bf16", "layout": "channels_last"})
    assert catalog.normalise(case) == case.model_copy(
        update={"axes": dict(sorted(case.axes.items()))}
    )
    assert catalog.normalise(case, "cuda").preset == "auto"
    with pytest.raises(UnknownName, match="no value 'fp7'"):
        catalog.normalise(Case(workload="mypkg.bench:build", axes={"precision": "fp7"}))
    tf32 = Case(workload="mypkg.bench:build", axes={"precision": "tf32"})
    with pytest.raises(Refused, match="needs device=cuda"):
        catalog.normalise(tf32, "cpu")


def test_an_entry_of_ours_needs_the_presets_of_both_devices() -> None:
    entry = WorkloadEntry("nanogpt", "", "token", {"small": {}})
    with pytest.raises(UnknownName):
        catalog.normalise(Case(workload="nanogpt"), "cpu", entry)
