"""What a workload hands over is held against its contract before a number is made of it."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from benchmarks.catalog.catalog import Refused
from benchmarks.measure import batch_source, check_recipe
from benchmarks.measure.trainer import Trainer
from benchmarks.workload import Batch, Recipe

CPU = torch.device("cpu")
X, Y = torch.randn(64, 3), torch.randn(64, 1)


def squared(model: nn.Module, batch: Batch) -> Tensor:
    return nn.functional.mse_loss(model(batch[0]), batch[1])


def a_recipe(**other: Any) -> Recipe:
    return replace(
        Recipe(
            nn.Linear(3, 1),
            squared,
            torch.optim.SGD,
            nn.Module.parameters,
            TensorDataset(X, Y),
            batch=8,
            optimizer_options={"lr": 0.1},
        ),
        **other,
    )


class Samples(Dataset[Any]):
    """Whatever ``sample`` makes of an index; ``collate`` where the test gives one."""

    def __init__(self, sample: Callable[[int], Any]) -> None:
        self._sample = sample

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> Any:
        return self._sample(index)


class Skipping(TensorDataset):
    """Leaves out what it takes for damaged."""

    @staticmethod
    def collate(samples: list[Batch]) -> list[Tensor]:
        return [torch.stack(parts) for parts in zip(*samples[1:], strict=True)]


class Streamed(IterableDataset[Batch]):
    """Has a length, and no samples by number."""

    def __len__(self) -> int:
        return 64

    def __iter__(self) -> Iterator[Batch]:
        yield from zip(X, Y, strict=True)


@pytest.mark.parametrize(
    ("dataset", "sentence"),
    [
        # Taken for a batch, a tensor would be its own rows: one sample a step, counted as eight.
        (Samples(lambda at: X[at]), r"one Tensor as a batch.*a tuple for each sample, \(x,\)"),
        (Samples(lambda at: {"x": X[at]}), "one dict as a batch"),
        (Samples(lambda at: (X[at], [1.0, 2.0])), "a batch with a list in it"),
        (Samples(lambda at: (X[at], "a name")), "a batch with a tuple in it|with a list in it"),
        (Skipping(X, Y), "a batch of 7 where the recipe's batch is 8"),
    ],
)
def test_a_batch_that_is_not_what_throughput_counts_is_refused(
    dataset: Dataset[Any], sentence: str
) -> None:
    with pytest.raises(Refused, match=sentence):
        next(batch_source.batches(a_recipe(dataset=dataset), seed=0))


def test_a_batch_as_documented_is_let_through() -> None:
    x, y = next(batch_source.batches(a_recipe(), seed=0))
    assert (x.shape, y.shape) == ((8, 3), (8, 1))


def test_tensors_that_do_not_share_their_first_dimension_are_no_batch() -> None:
    with pytest.raises(Refused, match=r"theirs are: \(8, 3\), \(1,\)"):
        check_recipe.tensors((X[:8], torch.ones(1)))
    with pytest.raises(Refused, match=r"theirs are: \(\)"):
        check_recipe.tensors((torch.tensor(1.0),))


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (lambda: 7, r"mine\.bench:build returned int, and a Recipe"),
        (lambda: a_recipe(batch=0), "batch of the recipe is 0"),
        (lambda: a_recipe(items_per_sample=2.5), "items_per_sample of the recipe is 2.5"),
        (lambda: a_recipe(dataset=Streamed()), "of class Streamed, gives its samples one after"),
        (lambda: a_recipe(dataset=iter(())), "of class tuple_iterator, gives its samples one"),
        (
            lambda: a_recipe(loader_options={"shuffle": True, "num_workers": 2}),
            "loader_options of the recipe has shuffle, which is decided here",
        ),
    ],
)
def test_a_recipe_that_cannot_be_measured_is_refused(
    made: Callable[[], object], sentence: str
) -> None:
    with pytest.raises(Refused, match=sentence):
        check_recipe.recipe(made(), "mine.bench:build")


@pytest.mark.parametrize(
    ("loss", "sentence"),
    [
        (lambda model, batch: (squared(model, batch), {}), "is a tuple, and a tensor with one"),
        (lambda model, batch: squared(model, batch).item(), "is a float, and a tensor with one"),
        (lambda model, batch: model(batch[0]), r"is a tensor of shape \(8, 1\)"),
    ],
)
@pytest.mark.parametrize("accumulation", [1, 2])
def test_a_loss_that_is_no_single_number_is_refused(
    loss: Callable[..., Any], sentence: str, accumulation: int
) -> None:
    trainer = Trainer(a_recipe(loss=loss, accumulation=accumulation), CPU)
    if accumulation == 2:
        sentence = sentence.replace("8", "4")
    with pytest.raises(Refused, match=sentence):
        trainer.step((X[:8], Y[:8]))


def test_what_is_no_tensor_in_a_models_state_stays_as_it_is() -> None:
    class Extra(nn.Linear):
        def get_extra_state(self) -> dict[str, int]:
            return {"seen": 3}

        def set_extra_state(self, state: Any) -> None:
            raise AssertionError("nobody asked for that")

    trainer = Trainer(a_recipe(model=Extra(3, 1)), CPU)
    before = trainer.model.state_dict()["weight"].clone()
    trainer.step((X[:8], Y[:8]))
    assert not torch.equal(trainer.model.state_dict()["weight"], before)
    trainer.rewind(0)
    assert torch.equal(trainer.model.state_dict()["weight"], before)
