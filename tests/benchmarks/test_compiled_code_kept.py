"""Code that was compiled for one case is never run for another: both may share a folder."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch._dynamo.utils import counters
from torch._inductor.utils import fresh_cache
from torch.nn import functional

from benchmarks import catalog
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
    torch._dynamo.reset()
    with fresh_cache():
        yield
    flags.put_in_force(recipe)
    torch._dynamo.reset()


def attend(query: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(query, query, query, is_causal=True).sum()


def compiled_anew(recipe: Recipe) -> bool:
    """Compile as a fresh process would, under the case's flags; whether there was need to."""
    flags.put_in_force(recipe)
    torch._dynamo.reset()
    before = counters["aot_autograd"]["autograd_cache_hit"]
    compiled: Callable[[Tensor], Tensor] = torch.compile(attend)
    with torch.autocast("cpu", dtype=recipe.autocast, enabled=recipe.autocast is not None):
        loss = compiled(HEADS.clone().requires_grad_())
    loss.backward()  # type: ignore[no-untyped-call]
    return counters["aot_autograd"]["autograd_cache_hit"] == before


def test_a_second_process_of_a_case_runs_what_the_first_compiled(recipe: Recipe) -> None:
    assert compiled_anew(recipe)
    assert not compiled_anew(recipe)


def test_another_attention_kernel_is_compiled_anew(recipe: Recipe) -> None:
    """torch 2.11 to 2.13 would run the first case's kernel."""
    assert compiled_anew(replace(recipe, attention="flash"))
    assert compiled_anew(replace(recipe, attention="math"))


def test_another_half_precision_is_compiled_anew(recipe: Recipe) -> None:
    """torch 2.11 would compute in the first case's type."""
    assert compiled_anew(replace(recipe, autocast=torch.bfloat16))
    before = torch.compiler.config.cache_key_tag
    assert compiled_anew(replace(recipe, autocast=torch.float16))
    assert torch.compiler.config.cache_key_tag != before  # what torch 2.13 has in its key as well


def test_what_the_environment_asks_for_is_kept(
    recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flags, "_TAG", "ours")
    flags.put_in_force(recipe)
    assert torch.compiler.config.cache_key_tag.startswith("ours attention=auto ")
