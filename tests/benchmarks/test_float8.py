"""Linear layers in 8-bit floats: near to the plain ones both ways, and a model still learns."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from benchmarks.catalog import catalog
from benchmarks.contracts import Case
from benchmarks.measure import batch_source, float8
from benchmarks.measure.session import build
from benchmarks.measure.trainer import Trainer
from benchmarks.workload import Context, Recipe
from benchmarks.workloads.nanogpt import GPT, Config

CPU = torch.device("cpu")
TINY = Config(layers=2, head=32, width=64, length=32, vocabulary=256)


def _error(value: Tensor, true: Tensor) -> float:
    return float((value.float() - true).detach().norm() / true.detach().norm())


@pytest.mark.parametrize("bias", [True, False])
def test_a_product_and_its_gradients_are_near_to_the_plain_ones(*, bias: bool) -> None:
    torch.manual_seed(0)
    layer = nn.Linear(64, 48, bias=bias)
    x = torch.randn(4, 32, 64, requires_grad=True)
    upstream = torch.randn(4, 32, 48)
    plain = layer(x)
    expected = torch.autograd.grad(plain, (x, layer.weight), upstream)
    product = float8.linear(layer, x)
    assert product.dtype == torch.bfloat16
    assert _error(product, plain) < 0.06  # E4M3 keeps three bits after the first
    gradients = torch.autograd.grad(product, (x, layer.weight), upstream.bfloat16())
    for gradient, true in zip(gradients, expected, strict=True):
        assert gradient.dtype == true.dtype
        assert _error(gradient, true) < 0.1  # E5M2 keeps two


def test_the_largest_value_is_kept_and_small_ones_scale_with_it() -> None:
    values = torch.tensor([1e-3, -5e4, 7.0, 0.0])
    scaled, factor = float8.scaled(values, float8.FORWARD)
    assert float(scaled[1].float() * factor) == pytest.approx(-5e4, rel=1e-3)
    nothing, factor = float8.scaled(torch.zeros(3), float8.FORWARD)
    assert torch.equal(nothing.float() * factor, torch.zeros(3))


def test_a_head_that_is_an_embedding_and_odd_sizes_stay_as_they_are() -> None:
    model = GPT(TINY)
    layers = float8.eligible(model)
    assert model.lm_head not in layers
    assert len(layers) == 4 * TINY.layers
    assert float8.eligible(nn.Sequential(nn.Linear(17, 32), nn.Linear(32, 1000))) == []


def test_a_workload_without_such_layers_is_refused() -> None:
    with pytest.raises(catalog.Refused, match="multiples of 16, and this workload has none"):
        float8.use_float8(nn.Sequential(nn.Linear(17, 3)))


@pytest.mark.parametrize("workload", ["resnet50", "unet"])
def test_images_are_refused_before_anything_runs(workload: str) -> None:
    with pytest.raises(catalog.Refused, match="precision=fp8 needs input=tokens"):
        catalog.normalise(Case(workload=workload, axes={"precision": "fp8"}), "cuda")


def _losses(recipe: Recipe, steps: int) -> list[float]:
    trainer = Trainer(recipe, CPU)
    batch = trainer.place(next(iter(batch_source.loader(recipe, 0))))
    return [trainer.step(batch).item() for _ in range(steps)]


def test_a_small_gpt_learns_in_fp8_as_it_does_in_bf16(tmp_path: Path) -> None:
    def recipe(**changes: object) -> Recipe:
        made = build(catalog.normalise(Case(workload="nanogpt"), "cpu"), Context(CPU, tmp_path))
        return replace(made, autocast=torch.bfloat16, batch=2, **changes)  # type: ignore[arg-type]

    plain = _losses(recipe(), 12)
    losses = _losses(recipe(float8=True), 12)
    assert losses[0] == pytest.approx(plain[0], rel=0.01)
    assert losses[-1] < losses[0] - 0.5 * (plain[0] - plain[-1])


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # dynamo does
def test_a_layer_in_fp8_compiles_into_one_graph() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(32, 32)
    x = torch.randn(16, 32)
    compiled = torch.compile(float8.linear, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(layer, x), float8.linear(layer, x))
