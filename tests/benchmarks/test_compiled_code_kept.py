"""Code that was compiled for one case is never run for another: both may share a folder."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.catalog import catalog
from benchmarks.contracts import Case
from benchmarks.measure import flags
from benchmarks.measure.session import build
from benchmarks.workload import Context, Recipe

HEADS = torch.ones(1, 2, 16, 8)


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    case = catalog.normalise(Case(workload="nanogpt", preset="tiny"), "cpu")
    return build(case, Context(torch.device("cpu"), tmp_path))


@pytest.fixture(autouse=True)
def _a_folder_of_its_own(recipe: Recipe) -> Iterator[None]:
    from torch._inductor.utils import fresh_cache  # seconds to import

    torch._dynamo.reset()
    with fresh_cache():
        yield
    flags.put_in_force(recipe)
    torch._dynamo.reset()


def attend(query: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(query, query, query, is_causal=True).sum()


def compiled_anew(recipe: Recipe) -> bool:
    """Compile as a fresh process would, under the case's flags; whether there was need to."""
    from torch._dynamo.utils import counters

    flags.put_in_force(recipe)
    torch._dynamo.reset()
    before = counters["aot_autograd"]["autograd_cache_hit"]
    compiled: Callable[[Tensor], Tensor] = torch.compile(attend)
    compiled(HEADS)
    return counters["aot_autograd"]["autograd_cache_hit"] == before


def test_code_is_run_again_under_its_own_flags_and_no_others(recipe: Recipe) -> None:
    """torch 2.11 to 2.13 would run the kernel that was compiled first."""
    assert compiled_anew(replace(recipe, attention="flash"))
    assert not compiled_anew(replace(recipe, attention="flash"))
    assert compiled_anew(replace(recipe, attention="math"))


def test_every_flag_that_is_traced_has_code_of_its_own(recipe: Recipe) -> None:
    """torch 2.11 would compute in the type of autocast that was compiled first."""
    cases = (
        recipe,
        replace(recipe, autocast=torch.bfloat16),
        replace(recipe, autocast=torch.float16),
        replace(recipe, autocast=torch.bfloat16, float8=True),
        replace(recipe, attention="math"),
        replace(recipe, attention="flash"),
        replace(recipe, checkpointing=True),
        replace(recipe, tf32=True),
        replace(recipe, memory_format=torch.channels_last),
    )
    tags = set()
    for case in cases:
        flags.put_in_force(case)
        tags.add(torch.compiler.config.cache_key_tag)
    assert len(tags) == len(cases)


def test_what_the_environment_asks_for_is_kept(
    recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flags, "_TAG", "ours")
    flags.put_in_force(recipe)
    assert torch.compiler.config.cache_key_tag.startswith("ours attention=auto ")
