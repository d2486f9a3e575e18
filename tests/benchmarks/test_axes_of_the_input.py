"""What the axes of the input change: queues, copies beside the computation."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.utils.data import TensorDataset

from benchmarks.axes import prefetch_factor
from benchmarks.catalog import catalog
from benchmarks.contracts import Case
from benchmarks.measure import batch_source
from benchmarks.measure.estimate import overlap
from benchmarks.workload import Recipe


def recipe(workers: int) -> Recipe:
    return Recipe(
        model=nn.Linear(1, 1),
        loss=lambda model, batch: model(batch[0]).mean(),
        optimizer=torch.optim.SGD,
        parameters=nn.Module.parameters,
        dataset=TensorDataset(torch.arange(64.0).reshape(64, 1)),
        batch=4,
        loader_options={"num_workers": workers},
    )


@pytest.mark.parametrize(("value", "queue"), [("1", 4), ("2", 6), ("8", 18)])
def test_the_queue_that_is_emptied_follows_what_each_process_prepares(
    value: str, queue: int
) -> None:
    made = prefetch_factor.apply(value, recipe(workers=2))
    assert batch_source.queue_batches(made) == queue
    assert batch_source.loader(made, 0).prefetch_factor == int(value)


def test_preparing_ahead_is_refused_without_loader_processes() -> None:
    with pytest.raises(catalog.Refused) as refused:
        catalog.normalise(Case(workload="unet", axes={"prefetch_factor": "4"}))
    assert str(refused.value) == (
        "prefetch_factor=4 needs workers=2 or 4 or 8 or 16, and this case has workers=0."
    )


@pytest.mark.parametrize(
    ("axes", "device", "sentence"),
    [
        ({"prefetch": "on"}, "cuda", "prefetch=on needs pinning=on, and this case has pinning=off"),
        ({"prefetch": "on"}, "cpu", "prefetch=on needs device=cuda, and this worker has device="),
    ],
)
def test_prefetching_is_refused_where_it_cannot_overlap(
    axes: dict[str, str], device: str, sentence: str
) -> None:
    with pytest.raises(catalog.Refused) as refused:
        catalog.normalise(Case(workload="unet", axes=axes), device)
    assert str(refused.value).startswith(sentence)


def test_a_copy_that_nobody_waits_for_overlaps_wholly() -> None:
    assert overlap([0.0, 0.0], [0.01, 0.01]) == 1.0
    assert overlap([0.005, 0.005], [0.01, 0.01]) == pytest.approx(0.5)
    assert overlap([0.02, 0.03], [0.01, 0.01]) == 0.0


@given(st.lists(st.tuples(st.floats(-1e-6, 1), st.floats(0, 1)), min_size=1))
def test_an_overlap_is_a_share(pairs: list[tuple[float, float]]) -> None:
    waited, copied = zip(*pairs, strict=True)
    assert 0.0 <= overlap(waited, copied) <= 1.0
