"""What a profile tells of real steps on a CPU: lines, FLOPs, waits, phases; or why it cannot."""

import gzip
import inspect
import json
import runpy
import sysconfig
import warnings
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from builders.measured import a_pass
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from benchmarks.contracts import Profile, Protocol
from benchmarks.measure.profile import extra_passes as passes
from benchmarks.measure.profile import observation, phases, recording
from benchmarks.measure.progress import Reporter
from benchmarks.measure.trainer import Trainer
from benchmarks.workload import Batch, Recipe

B, IN, HIDDEN = 16, 32, 64
CPU = torch.device("cpu")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wide, self.narrow = nn.Linear(IN, HIDDEN, bias=False), nn.Linear(HIDDEN, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.wide(x).relu()
        out: Tensor = self.narrow(x)
        return out


def loss(model: nn.Module, batch: Batch) -> Tensor:
    out: Tensor = model(batch[0]).pow(2).mean()
    return out


def waiting_loss(model: nn.Module, batch: Batch) -> Tensor:
    out = loss(model, batch)
    if out.item() < 0:
        raise AssertionError
    return out


def trainer(loss_of=loss) -> Trainer:  # type: ignore[no-untyped-def]
    recipe = Recipe(
        model=Net(),
        loss=loss_of,
        optimizer=torch.optim.SGD,
        parameters=lambda model: model.parameters(),
        dataset=TensorDataset(torch.randn(64, IN)),
        batch=B,
        optimizer_options={"lr": 1e-3},
    )
    return Trainer(recipe, CPU)


def ring() -> list[Batch]:
    return [(torch.randn(B, IN),) for _ in range(4)]


def line_of(function: object, words: str) -> str:
    """Where in this file ``function`` says ``words``."""
    lines, first = inspect.getsourcelines(function)  # type: ignore[arg-type]
    place = next(number for number, line in enumerate(lines) if words in line)
    return f"{Path(__file__).name}:{first + place}"


def test_operations_are_put_down_to_their_lines_the_backward_ones_to_their_forwards() -> None:
    origins, _ = recording.observe(trainer(), ring())
    wide, narrow = line_of(Net.forward, "self.wide(x)"), line_of(Net.forward, "self.narrow(x)")
    parts = origins.parts["aten::mm"]
    products = {part.line.rpartition("/")[2]: part.kernels for part in parts}
    assert products == {wide: 2, narrow: 3}  # forward, weights' gradient; inputs' gradient
    (mask,) = origins.parts["aten::threshold_backward"]
    assert mask.line.endswith(wide)


def test_the_profile_names_those_lines() -> None:
    profile = recording.profile(trainer(), ring())
    named = {operation.source.rpartition(":")[0] for operation in profile.operations}
    assert any(Path(__file__).match(name) for name in named if name)
    assert profile.steps == 5
    assert profile.busy_s


def test_a_step_asks_for_the_flops_that_its_shapes_say() -> None:
    profile = recording.profile(trainer(), ring())
    # Forward and the weights' gradient of both layers, and the inputs' gradient of the second.
    expected = 2 * B * HIDDEN * (2 * IN + 3 * 1)
    assert sum(demand.flops for demand in profile.demands) == expected
    forward = B * IN * 4 + IN * HIDDEN * 4 + B * HIDDEN * 4
    products = [d.moved_b / d.calls for d in profile.demands if d.name == "aten.mm"]
    assert forward in products
    assert {d.name for d in profile.demands if d.fusable} >= {
        "aten.relu",
        "aten.threshold_backward",
    }


def test_an_item_in_the_step_is_found_and_named_with_its_line() -> None:
    (wait,) = recording.profile(trainer(waiting_loss), ring()).synchronizations
    assert wait.source.endswith(line_of(waiting_loss, "out.item()"))
    assert ".item()" in wait.what


def test_a_step_without_a_wait_has_none() -> None:
    assert recording.profile(trainer(), ring()).synchronizations == ()


def test_a_profile_that_is_refused_is_absent_with_its_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("CUPTI_ERROR_INSUFFICIENT_PRIVILEGES\nand more")

    monkeypatch.setattr(torch.profiler, "profile", refuse)
    profile = recording.profile(trainer(), ring())
    assert profile == Profile(
        absent="The profile could not be taken: RuntimeError: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"
    )


def test_a_step_that_cannot_be_watched_keeps_its_profile_and_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise torch.OutOfMemoryError("no room")

    monkeypatch.setattr(recording, "observe", refuse)
    profile = recording.profile(trainer(), ring())
    assert profile.busy_s
    assert profile.demands == ()
    assert profile.notes == ("The eager step could not be watched: OutOfMemoryError: no room",)


def test_the_trace_is_kept_where_it_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    recording.profile(trainer(), ring(), path)
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    names = {event.get("name") for event in events}
    assert "aten::mm" in names


def test_phases_add_up_to_the_step() -> None:
    made = trainer()
    phase_times = phases.measure(made, ring(), a_pass(0.1, stall_s=0.01, copy_s=0.002))
    assert set(phase_times.seconds) == {"data", "copy", "forward", "backward", "optimizer"}
    assert (phase_times.seconds["data"], phase_times.seconds["copy"]) == (0.01, 0.002)
    inside = sum(phase_times.seconds[phase] for phase in ("forward", "backward", "optimizer"))
    assert phase_times.step_s is not None
    assert 0 < inside <= phase_times.step_s
    assert made._forward == made._loss


def test_a_step_that_is_one_graph_has_no_phases_and_says_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = trainer()
    monkeypatch.setattr(made, "step", lambda batch: batch[0].sum())
    phase_times = phases.measure(made, ring(), a_pass(0.1))
    assert phase_times.seconds == {}
    assert "one CUDA graph" in phase_times.absent


def test_marks_that_change_the_step_are_told() -> None:
    phase_times = phases.measure(trainer(), ring(), a_pass(0.1))
    assert phase_times.step_s is not None
    exact = a_pass(phase_times.step_s)
    assert not phases.perturbed(phase_times, exact)
    assert phases.perturbed(phase_times, a_pass(phase_times.step_s * 1.03))


def test_a_trace_whose_idle_times_are_the_profilers_own_is_told() -> None:
    profile = Profile(steps=5, step_s=0.2, busy_s=0.09)
    assert passes.unreliable(profile, a_pass(0.1))
    assert not passes.unreliable(profile, a_pass(0.19))


def test_nothing_is_run_that_was_not_asked_for() -> None:
    timed = (a_pass(0.1), a_pass(0.1))
    with Reporter(None, "test") as reporter:
        quiet = passes.run(trainer(), ring(), timed, Protocol(), reporter)
        asked = Protocol(phases=True, profile=True)
        both = passes.run(trainer(), ring(), timed, asked, reporter)
    assert (quiet.phases, quiet.profile, quiet.flags) == (None, None, [])
    assert both.phases is not None
    assert both.profile is not None


def test_only_the_first_process_of_a_job_profiles() -> None:
    asked = Protocol(replicates=3, phases=True, profile=True)
    assert asked.of_replicate(1) == asked
    later = asked.of_replicate(2)
    assert (later.phases, later.profile) == (False, False)
    assert later.model_copy(update={"phases": True, "profile": True}) == asked


def test_a_compiled_case_is_watched_eagerly() -> None:
    compiled = replace(trainer().recipe, compile_options={"mode": "default"})
    assert recording.eager(compiled).compile_options is None


@pytest.mark.parametrize("compiled", [False, True])
def test_convolutions_are_tuned_for_the_watcher_only_if_the_step_has_tuned_them(
    compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuned = []

    def noting_loss(model: nn.Module, batch: Batch) -> Tensor:
        tuned.append(torch.backends.cudnn.benchmark)
        return loss(model, batch)

    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    timed = trainer(noting_loss)
    timed.recipe = replace(timed.recipe, compile_options={} if compiled else None)
    recording.observe(timed, ring())
    assert set(tuned) == {not compiled}
    assert torch.backends.cudnn.benchmark


def test_packages_within_the_standard_librarys_folder_are_installed_ones() -> None:
    """As where pip installs into the interpreter itself: the names decide, nothing is read."""
    library = Path(sysconfig.get_path("stdlib"))
    of_workload = observation._may_be_of_workload
    assert of_workload(str(library / "site-packages" / "bench" / "__init__.py"))
    assert not of_workload(str(library / "json" / "decoder.py"))
    assert not of_workload(str(Path(torch.__file__).parent / "nn" / "modules" / "module.py"))


def installed(folder: Path, source: str) -> dict[str, object]:
    """What a module with that source, which pip has put there, holds."""
    path = folder / "site-packages" / "bench" / "__init__.py"
    path.parent.mkdir(parents=True)
    path.write_text(source)
    return runpy.run_path(str(path))


def test_lines_of_an_installed_workload_are_named(tmp_path: Path) -> None:
    """As in a container, where nothing lies outside of the installed packages."""
    held = installed(
        tmp_path, "def loss(model, batch):\n    return model(batch[0]).pow(2).mean()\n"
    )
    origins, _ = recording.observe(trainer(held["loss"]), ring())
    assert any(part.line.endswith("bench/__init__.py:2") for part in origins.parts["aten::pow"])


def test_a_library_that_the_workload_calls_is_put_down_to_the_workloads_line(
    tmp_path: Path,
) -> None:
    squared = installed(tmp_path, "def squared(x):\n    return x.pow(2)\n")["squared"]

    def calling_loss(model: nn.Module, batch: Batch) -> Tensor:
        out: Tensor = squared(model(batch[0])).mean()  # type: ignore[operator]
        return out

    origins, _ = recording.observe(trainer(calling_loss), ring())
    (part,) = origins.parts["aten::pow"]
    assert part.line.endswith(line_of(calling_loss, "squared(model"))


def test_a_warning_of_cuda_names_the_line_that_waits_and_others_are_passed_over() -> None:
    """The warnings are raised by hand: only a GPU raises them by itself."""
    watched: Counter[tuple[str, str]] = Counter()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, *_, **__: observation._take(str(message), watched)
        warnings.warn("Synchronization debug mode is a prototype feature", stacklevel=1)
        warnings.warn("called a synchronizing CUDA operation (...)", stacklevel=1)
    ((_, source),) = watched
    here = test_a_warning_of_cuda_names_the_line_that_waits_and_others_are_passed_over
    assert source.endswith(line_of(here, 'warn("called a sync'))
