"""batch=fastest: the smallest batch that no other beats clearly, found within a bound of time."""

import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
import torch
from builders.measured import a_pass, a_replicate, a_result
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from benchmarks.catalog import catalog
from benchmarks.contracts import Case, ParityStatus, ProcessSpec, Protocol, Status, TriedBatch
from benchmarks.diagnosis.merge import merge
from benchmarks.measure import fastest_batch, session
from benchmarks.measure.device import choose
from benchmarks.measure.fastest_batch import search
from benchmarks.measure.progress import Reporter
from benchmarks.workload import Batch, Context, Recipe
from service.schemas.policy import Policy

CPU = torch.device("cpu")
BRIEF = Protocol(
    warmup_min_steps=2,
    warmup_min_s=0.1,
    warmup_max_s=1.0,
    settle_max_s=0.0,
    window_min_s=0.2,
    window_max_s=0.5,
    window_min_steps=4,
    window_min_blocks=2,
    block_min_s=0.02,
    parity=True,
)


def rated(**rates: float) -> list[TriedBatch]:
    return [TriedBatch(batch=int(n[1:]), rate=rate, peak_memory_b=0) for n, rate in rates.items()]


@pytest.mark.parametrize(
    ("rates", "batch"),
    [
        ({"b8": 90.0, "b16": 100.0, "b32": 100.9}, 16),
        ({"b8": 90.0, "b16": 100.0, "b32": 101.1}, 32),
        ({"b8": 90.0, "b16": 100.0, "b32": 70.0}, 16),
        ({"b8": 99.5, "b16": 99.5, "b24": 100.0}, 8),
    ],
)
def test_a_larger_batch_must_be_clearly_faster(rates: dict[str, float], batch: int) -> None:
    assert fastest_batch.chosen(rated(**rates)) == batch


def tried(most: int, start: int = 32, parts: int = 1, over_after: int = 99) -> list[int]:
    """Batches in the order of their trials; the rate saturates, and halves beyond 256."""
    order: list[int] = []

    def trial(batch: int) -> TriedBatch | None:
        order.append(batch)
        if batch > most:
            return None
        rate = batch / (batch + 8) / (2 if batch > 256 else 1)
        return TriedBatch(batch=batch, rate=rate, peak_memory_b=0)

    found = search(trial, start, parts, lambda: len(order) >= over_after)
    assert [one.batch for one in found] == sorted(n for n in order if n <= most)
    return order


def test_doublings_then_halvings_until_far_slower_then_the_half_between() -> None:
    assert tried(most=200) == [32, 64, 128, 256, 16, 192]
    assert tried(most=150) == [32, 64, 128, 256, 16, 192]


def test_a_usual_batch_that_does_not_fit_is_halved_until_one_does() -> None:
    assert tried(most=7) == [32, 16, 8, 4, 2, 6]
    assert tried(most=0) == tried(most=1) == [32, 16, 8, 4, 2, 1]


def test_each_batch_can_be_cut_into_the_parts_that_are_asked_for() -> None:
    assert tried(most=100, parts=3) == [24, 48, 96, 192, 12, 144]
    assert all(batch % 4 == 0 for batch in tried(most=6, parts=4))


def test_no_trial_begins_once_the_time_is_over() -> None:
    assert tried(most=10**7, over_after=2) == [32, 64]


class Saturating(nn.Module):
    """Takes as long for any batch up to 16, and twice as long for twice as many beyond.

    A clock of its own counts that: two busy cores would tell another time.
    """

    def __init__(self) -> None:
        super().__init__()
        self.spent_s = 0.0
        self.layer = nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        if len(x) > 64:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        self.spent_s += 0.02 * max(len(x), 16) / 16
        mixed: Tensor = self.layer(x)
        return mixed


def _loss(model: nn.Module, batch: Batch) -> Tensor:
    loss: Tensor = model(batch[0]).pow(2).mean()
    return loss


def recipe() -> Recipe:
    torch.manual_seed(0)
    return Recipe(
        model=Saturating(),
        loss=_loss,
        optimizer=torch.optim.AdamW,
        parameters=nn.Module.parameters,
        dataset=TensorDataset(torch.randn(32, 4)),
        batch=8,
        items_per_sample=3,
        fastest_batch=True,
    )


def test_the_fastest_batch_is_found_with_real_steps_and_kept_for_later_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, kept = recipe(), tmp_path / "batch" / "one.json"
    assert isinstance(made.model, Saturating)
    model = made.model
    clock = SimpleNamespace(perf_counter=lambda: model.spent_s, monotonic=time.monotonic)
    monkeypatch.setattr(fastest_batch, "time", clock)
    before = {name: value.clone() for name, value in made.model.state_dict().items()}
    settled, told = fastest_batch.settled(made, CPU, 0, kept)
    assert (settled.batch, settled.fastest_batch) == (16, False)
    assert [one.batch for one in told] == [8, 16, 32, 64]
    assert [one.rate for one in told] == pytest.approx([1_200, 2_400, 2_400, 2_400])
    for name, value in settled.model.state_dict().items():
        assert torch.equal(value, before[name])
    monkeypatch.setattr(fastest_batch, "_tried", None)  # a later process finds what was kept
    assert fastest_batch.settled(recipe(), CPU, 0, kept)[1] == told


def test_a_batch_by_number_is_never_searched_for(tmp_path: Path) -> None:
    made = replace(recipe(), fastest_batch=False)
    assert fastest_batch.settled(made, CPU, 0, tmp_path / "x") == (made, ())
    assert not list(tmp_path.iterdir())


def test_a_model_of_which_nothing_fits_is_out_of_memory(tmp_path: Path) -> None:
    def full(model: nn.Module, batch: Batch) -> Tensor:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    with pytest.raises(MemoryError):
        fastest_batch.settled(replace(recipe(), loss=full), CPU, 0, tmp_path / "x")


def test_the_value_asks_for_the_search_and_for_a_gpu(tmp_path: Path) -> None:
    case = Case(workload="nanogpt", preset="tiny", axes={"batch": "fastest"})
    with pytest.raises(catalog.Refused, match="batch=fastest needs device=cuda"):
        catalog.normalise(case, "cpu")
    assert session.build(case, Context(CPU, tmp_path)).fastest_batch


def test_the_batches_that_were_tried_stay_when_a_later_process_leaves_nothing() -> None:
    told = tuple(rated(b8=1.0))
    first = a_result(a_replicate(a_pass(0.1), a_pass(0.1))).model_copy(
        update={"batches_tried": told}
    )
    gone = first.model_copy(
        update={
            "status": Status.CRASHED,
            "batches_tried": (),
            "environment": first.environment.model_copy(update={"facts": {}}),
        }
    )
    assert merge([first, gone]).batches_tried == told


@pytest.mark.slow
def test_a_result_has_the_chosen_batch_and_those_that_were_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parity takes the same batch: no trial is needed for what the case is held against."""
    np.arange(4_000, dtype=np.uint16).clip(max=1023).tofile(tmp_path / "train.bin")
    told = tuple(rated(b2=10.0, b4=20.0, b8=20.1))
    monkeypatch.setenv("THROUGHLINE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(fastest_batch, "_tried", lambda *_: told)
    monkeypatch.delitem(cast(dict[str, object], catalog.axes()["batch"].needs), "fastest")
    spec = ProcessSpec(
        case=Case(workload="nanogpt", preset="tiny", axes={"batch": "fastest", "sequence": "32"}),
        protocol=BRIEF,
        data_root=tmp_path,
    )
    result = session.measure(spec, CPU, Reporter(None, "test"))
    assert result.status is Status.OK, result.reason
    assert result.batches_tried == told
    assert (result.batch_items, result.environment.facts["flag.batch"]) == (4 * 32, "4")
    assert result.parity
    assert result.parity.status is ParityStatus.PASS
    (kept,) = (tmp_path / "cache" / "batch").iterdir()
    assert '"batch":8' in kept.read_text()


def test_a_pair_of_which_each_searches_for_its_batch_is_not_measured_in_turn() -> None:
    assert Policy().in_turn("unet:full batch=64")
    assert not Policy().in_turn("unet:full batch=fastest")
    assert not Policy().in_turn("unet:full batch=auto precision=bf16")


@pytest.mark.gpu
def test_the_fastest_batch_of_a_transformer_on_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THROUGHLINE_CACHE_DIR", str(tmp_path))
    axes = {"batch": "fastest", "sequence": "256", "precision": "bf16", "optimizer": "fused"}
    protocol = {"warmup_max_s": 1.5, "warmup_min_s": 0.5, "settle_max_s": 0.0}
    protocol |= {"window_min_s": 0.5, "window_max_s": 1.0}
    spec = ProcessSpec(
        case=Case(workload="nanogpt", preset="tiny", axes=axes),
        protocol=Protocol.model_validate(protocol),
    )
    result = session.measure(spec, choose("cuda"), Reporter(None, "fastest"))
    assert result.status is Status.OK, result.reason
    tried = {one.batch: one for one in result.batches_tried}
    batch = int(result.environment.facts["flag.batch"])
    best = max(one.rate for one in tried.values())
    assert len(tried) >= 5
    assert tried[batch].rate * 1.01 >= best
    assert all(one.rate * 1.01 < best for one in tried.values() if one.batch < batch)
    assert result.batch_items == 256 * batch
    assert result.replicates[0].synth.rate == pytest.approx(tried[batch].rate, rel=0.3)
