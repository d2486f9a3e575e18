"""A step as one CUDA graph: what it needs, what is refused, and that it is the same step."""

import multiprocessing
from dataclasses import replace
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from benchmarks.catalog import catalog
from benchmarks.contracts import Case
from benchmarks.measure import graphs
from benchmarks.measure.parity_check import without_dropout
from benchmarks.measure.profile import recording
from benchmarks.measure.trainer import Trainer
from benchmarks.workload import Batch, Recipe


def _loss(model: nn.Module, batch: Batch) -> Tensor:
    loss: Tensor = model(batch[0]).pow(2).mean()
    return loss


def recipe(device: str = "cpu") -> Recipe:
    torch.manual_seed(0)
    return Recipe(
        model=nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 1)).to(device),
        loss=_loss,
        optimizer=torch.optim.AdamW,
        parameters=nn.Module.parameters,
        dataset=TensorDataset(torch.randn(32, 8)),
        batch=8,
        optimizer_options={"lr": 1e-2, "fused": True},
    )


def test_an_optimizer_that_counts_steps_counts_them_on_the_device() -> None:
    assert graphs.capturable(recipe()).optimizer_options["capturable"] is True
    sgd = replace(recipe(), optimizer=torch.optim.SGD)
    assert graphs.capturable(sgd) is sgd


def test_without_the_axis_a_step_is_launched_as_ever() -> None:
    assert type(graphs.trainer(recipe(), torch.device("cpu"))) is Trainer


@pytest.mark.parametrize(
    ("mode", "captured", "launched_as"),
    [
        (None, False, None),
        ("default", False, None),
        ("max-autotune", False, None),
        ("default", True, "default"),
        ("reduce-overhead", False, "default"),
        ("reduce-overhead", True, "default"),
    ],
)
def test_compiled_kernels_are_launched_one_by_one_where_a_graph_hides_their_arguments(
    mode: str | None, captured: bool, launched_as: str | None
) -> None:
    options = None if mode is None else {"mode": mode, "dynamic": False}
    hidden = replace(recipe(), compile_options=options, graphs=captured, float8=True)
    plain = recording.launched(hidden)
    if launched_as is None:
        assert plain is None
    else:
        expected = {"mode": launched_as, "dynamic": False}
        assert plain == replace(hidden, compile_options=expected, graphs=False, float8=False)


@pytest.mark.parametrize(
    "axes",
    [
        {"precision": "fp16"},
        {"compile": "reduce-overhead"},
        {"compile": "max-autotune"},
        {"checkpointing": "blocks"},
    ],
)
def test_what_a_graph_cannot_hold_is_refused_before_anything_runs(axes: dict[str, str]) -> None:
    with pytest.raises(catalog.Refused, match="graphs=on needs"):
        catalog.normalise(Case(workload="nanogpt", axes={"graphs": "on", **axes}), "cuda")


def test_graphs_need_a_gpu() -> None:
    with pytest.raises(catalog.Refused, match="needs device=cuda, and this worker has device=cpu"):
        catalog.normalise(Case(workload="nanogpt", axes={"graphs": "on"}), "cpu")


def test_a_step_that_waits_for_the_device_is_refused_with_the_reason() -> None:
    error = RuntimeError("CUDA error: operation not permitted when stream is capturing\nCompile ..")
    assert graphs.refusal(error) == (
        "graphs=on cannot capture this step as one CUDA graph: CUDA error: operation not permitted "
        "when stream is capturing."
    )


@pytest.fixture
def gpu() -> torch.device:
    if not torch.cuda.is_available():
        pytest.skip("no NVIDIA GPU here")
    return torch.device("cuda")


@pytest.mark.gpu
@pytest.mark.parametrize("changed", [{}, {"accumulation": 2}, {"keep_gradients": True}])
def test_a_replayed_step_is_the_step(gpu: torch.device, changed: dict[str, object]) -> None:
    losses = []
    for captured in (False, True):
        made = replace(recipe("cuda"), graphs=captured, **changed)  # type: ignore[arg-type]
        trainer = graphs.trainer(made, gpu)
        batches = [(torch.full((8, 8), float(n), device=gpu),) for n in range(6)]
        trainer.step(batches[0])
        trainer.rewind(0)
        losses.append([trainer.step(batch).item() for batch in batches])
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert len(set(losses[0])) > 1


@pytest.mark.gpu
def test_dropout_that_is_taken_out_is_out_of_the_graph_too(gpu: torch.device) -> None:
    made = replace(recipe("cuda"), graphs=True)
    made.model.append(nn.Dropout(0.5))
    trainer = graphs.trainer(made, gpu)
    batch = (torch.ones(8, 8, device=gpu),)
    trainer.step(batch)
    without_dropout(trainer.model)
    trainer.changed()
    losses = []
    for _ in range(2):
        trainer.step(batch)  # captures, the first time
        trainer.rewind(0)
        losses.append(trainer.step(batch).item())
    assert losses[0] == losses[1]


def test_a_model_that_was_changed_is_captured_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a CPU, where a stand-in captures."""
    captured = 0

    def capture(self: graphs.GraphedTrainer, batch: Batch) -> None:
        nonlocal captured
        captured += 1
        self.inputs, self._graph, self._loss_of_replay = batch, Mock(), batch[0].sum()

    monkeypatch.setattr(graphs.GraphedTrainer, "_capture", capture)
    trainer = graphs.GraphedTrainer(recipe(), torch.device("cpu"))
    for _ in range(2):
        trainer.step((torch.ones(8, 8),))
    assert captured == 1
    trainer.changed()
    trainer.step((torch.ones(8, 8),))
    assert captured == 2


@pytest.mark.gpu
def test_a_batch_of_another_size_is_captured_anew(gpu: torch.device) -> None:
    trainer = graphs.trainer(replace(recipe("cuda"), graphs=True), gpu)
    for size in (8, 1, 8):
        batch = (torch.ones(size, 8, device=gpu),)
        assert trainer.step(batch).isfinite()


def _waits(model: nn.Module, batch: Batch) -> Tensor:
    loss = _loss(model, batch)
    return loss * (1.0 if loss.item() > 0 else 2.0)


def _step_that_reads_from_the_device() -> None:
    made = replace(recipe("cuda"), graphs=True, loss=_waits)
    trainer = graphs.trainer(made, torch.device("cuda"))
    with pytest.raises(catalog.Refused, match="graphs=on cannot capture this step"):
        trainer.step((torch.ones(8, 8, device="cuda"),))


@pytest.mark.gpu
def test_a_step_that_reads_from_the_device_is_refused(gpu: torch.device) -> None:
    # In a process of its own: after a capture that failed, CUDA's random numbers fail as well.
    child = multiprocessing.get_context("spawn").Process(target=_step_that_reads_from_the_device)
    child.start()
    child.join(120)
    assert child.exitcode == 0
