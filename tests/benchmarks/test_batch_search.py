"""batch=auto finds the largest batch that fits, and leaves the model as it was built."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from benchmarks.catalog import catalog
from benchmarks.contracts import Case
from benchmarks.measure import batch_search, flags
from benchmarks.workload import Batch, Recipe

CPU = torch.device("cpu")


def test_powers_of_two_and_the_halves_in_between_are_tried() -> None:
    assert batch_search.sizes(most=100) == (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96)
    assert batch_search.sizes(3, most=100) == (3, 6, 12, 24, 48, 96)


@given(limit=st.integers(0, 2**21), start=st.integers(1, 2**20), divisor=st.sampled_from([1, 2, 3]))
def test_the_search_finds_what_trying_every_size_would(
    limit: int, start: int, divisor: int
) -> None:
    candidates = batch_search.sizes(divisor)
    tried: list[int] = []

    def fits(batch: int) -> bool:
        tried.append(batch)
        return batch <= limit

    largest = batch_search.largest(fits, candidates, start)
    assert largest == max((size for size in candidates if size <= limit), default=None)
    assert len(tried) == len(set(tried))
    assert len(tried) <= 24


def test_from_the_usual_batch_few_trials_are_needed() -> None:
    tried: list[int] = []

    def fits(batch: int) -> bool:
        tried.append(batch)
        return batch <= 3100

    assert batch_search.largest(fits, batch_search.sizes(), 256) == 3072
    assert tried == [256, 512, 1024, 2048, 4096, 3072]


class Roomy(nn.Module):
    """Runs out of memory beyond a number of samples, as a device would."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 1)
        self.most = most

    def forward(self, x: Tensor) -> Tensor:
        if len(x) > self.most:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        mixed: Tensor = self.layer(x)
        return mixed


def _loss(model: nn.Module, batch: Batch) -> Tensor:
    loss: Tensor = model(batch[0]).pow(2).mean()
    return loss


def recipe(most: int) -> Recipe:
    torch.manual_seed(0)
    return Recipe(
        model=Roomy(most),
        loss=_loss,
        optimizer=torch.optim.AdamW,
        parameters=nn.Module.parameters,
        dataset=TensorDataset(torch.randn(32, 4)),
        batch=8,
        largest_batch=True,
    )


def test_the_largest_batch_that_fits_is_taken_and_the_weights_stay() -> None:
    made = recipe(most=50)
    before = {name: value.clone() for name, value in made.model.state_dict().items()}
    settled = batch_search.settled(made, CPU, 0)
    assert (settled.batch, settled.largest_batch) == (48, False)
    for name, value in settled.model.state_dict().items():
        assert torch.equal(value, before[name])
    assert all(weight.grad is None for weight in settled.model.parameters())


def test_trials_leave_no_plan_of_cudnns_to_the_timed_passes() -> None:
    seen = set()

    def loss(model: nn.Module, batch: Batch) -> Tensor:
        seen.add(torch.backends.cudnn.deterministic)
        return _loss(model, batch)

    settled = batch_search.settled(replace(recipe(50), loss=loss), CPU, 0)
    assert seen == {True}
    flags.put_in_force(settled)
    assert torch.backends.cudnn.deterministic is False


def test_an_optimizer_makes_its_state_in_a_trial_whatever_the_scale(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At the usual first scale the gradients of these losses are infinite in fp16."""
    updated = []

    class Noted(torch.optim.SGD):
        def step(self, closure: object = None) -> None:  # type: ignore[override]
            updated.append(closure)
            super().step()

    def loss(model: nn.Module, batch: Batch) -> Tensor:
        return _loss(model, batch).half() * 4.0

    made = replace(recipe(50), loss=loss, optimizer=Noted, scale_gradients=True)
    batch_search.settled(made, CPU, 0)
    assert updated


def test_micro_batches_are_what_has_to_fit() -> None:
    assert batch_search.settled(replace(recipe(50), accumulation=2), CPU, 0).batch == 96


def test_a_model_of_which_nothing_fits_is_out_of_memory() -> None:
    with pytest.raises(MemoryError):
        batch_search.settled(recipe(most=0), CPU, 0)


def test_an_error_that_is_not_about_memory_is_not_taken_for_a_full_device() -> None:
    def broken(model: nn.Module, batch: Batch) -> Tensor:
        raise RuntimeError("shapes cannot be multiplied")

    with pytest.raises(RuntimeError, match="multiplied"):
        batch_search.settled(replace(recipe(50), loss=broken), CPU, 0)


def test_parts_that_no_tried_size_has_are_refused() -> None:
    with pytest.raises(catalog.Refused, match="choose a batch by number"):
        batch_search.settled(replace(recipe(50), accumulation=5), CPU, 0)


def test_a_batch_by_number_is_never_searched_for() -> None:
    made = replace(recipe(most=2), largest_batch=False)
    assert batch_search.settled(made, CPU, 0) is made


def test_the_search_needs_a_device_with_memory_of_its_own() -> None:
    with pytest.raises(catalog.Refused, match="batch=auto needs device=cuda"):
        catalog.normalise(Case(workload="unet", axes={"batch": "auto"}), "cpu")


@pytest.mark.gpu
def test_a_batch_that_was_found_on_a_gpu_can_be_stepped_again() -> None:
    if not torch.cuda.is_available():
        pytest.skip("no NVIDIA GPU here")
    device = torch.device("cuda", 0)

    def hungry(model: nn.Module, batch: Batch) -> Tensor:
        wide = batch[0].repeat(1, 2**20)  # [B, 4 Mi] floats: 16 MiB a sample
        loss: Tensor = model(wide[:, :4]).mean() + wide.pow(2).mean()
        return loss

    made = replace(recipe(2**20), loss=hungry)
    made = replace(made, model=made.model.to(device))
    settled = batch_search.settled(made, device, 0)
    whole_b = torch.cuda.get_device_properties(device).total_memory
    assert 0.1 * whole_b < settled.batch * 2**24 < whole_b
