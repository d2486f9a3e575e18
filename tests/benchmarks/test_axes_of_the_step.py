"""What the axes of the step change, and that the mathematics stays."""

import gc
import importlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import flex_attention

from benchmarks.catalog import catalog
from benchmarks.contracts import Case, Status
from benchmarks.measure import batch_source, checkpointing, flags, flex
from benchmarks.measure.failures import classify
from benchmarks.measure.session import build
from benchmarks.measure.trainer import Trainer
from benchmarks.workload import Batch, Context, Recipe

CPU = torch.device("cpu")
WORKLOADS = ("nanogpt", pytest.param("resnet50", marks=pytest.mark.slow), "unet")
PLAIN_ATTENTION = functional.scaled_dot_product_attention


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Context:
    return Context(CPU, tmp_path_factory.mktemp("cache"))


@pytest.fixture(autouse=True)
def flags_as_torch_came() -> Iterator[None]:
    yield
    flags.put_in_force(_plain())


def _plain() -> Recipe:
    return Recipe(
        model=nn.Linear(4, 1),
        loss=_mean_square,
        optimizer=torch.optim.SGD,
        parameters=nn.Module.parameters,
        dataset=torch.utils.data.TensorDataset(torch.randn(16, 4)),
        batch=8,
        optimizer_options={"lr": 0.1},
    )


def _mean_square(model: nn.Module, batch: Batch) -> Tensor:
    loss: Tensor = model(batch[0]).pow(2).mean()
    return loss


def recipe_of(context: Context, workload: str, **axes: str) -> Recipe:
    case = catalog.normalise(Case(workload=workload, axes=axes), "cpu")
    return build(case, context)


def stepped(recipe: Recipe, steps: int = 2) -> tuple[list[float], dict[str, Tensor]]:
    """Losses and trained weights of a few steps over the same batches."""
    trainer = Trainer(recipe, CPU)
    batches = iter(batch_source.loader(recipe, 0))
    torch.manual_seed(1)
    losses = [trainer.step(trainer.place(next(batches))).item() for _ in range(steps)]
    return losses, dict(trainer.model.named_parameters())


@pytest.mark.parametrize("workload", WORKLOADS)
def test_checkpointing_changes_no_loss_and_no_weight(context: Context, workload: str) -> None:
    losses, weights = stepped(recipe_of(context, workload))
    again, recomputed = stepped(recipe_of(context, workload, checkpointing="blocks"))
    assert again == pytest.approx(losses, rel=1e-5)
    assert recomputed.keys() == weights.keys()
    for name, weight in weights.items():
        torch.testing.assert_close(recomputed[name], weight, rtol=1e-4, atol=1e-6)


def _kept_bytes(recipe: Recipe) -> int:
    """Bytes that the forward pass leaves for the backward pass, weights not counted."""
    trainer = Trainer(recipe, CPU)
    weights = {weight.data_ptr() for weight in trainer.model.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        if tensor.data_ptr() not in weights:
            kept[tensor.data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    batch = trainer.place(next(iter(batch_source.loader(recipe, 0))))
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = recipe.loss(trainer.model, batch)
    assert loss.requires_grad
    return sum(kept.values())


@pytest.mark.parametrize("workload", WORKLOADS)
def test_checkpointing_keeps_far_less_for_the_backward_pass(
    context: Context, workload: str
) -> None:
    whole = _kept_bytes(recipe_of(context, workload))
    assert _kept_bytes(recipe_of(context, workload, checkpointing="blocks")) < 0.6 * whole


def test_a_block_within_a_block_is_recomputed_once(context: Context) -> None:
    recipe = recipe_of(context, "unet")
    blocks = list(checkpointing.outermost(recipe.model, recipe.blocks))
    inner = {id(part) for block in blocks for part in block.modules() if part is not block}
    assert blocks
    assert not inner & {id(block) for block in blocks}
    checkpointing.recompute(recipe.model, recipe.blocks)
    once = [block.forward for block in blocks]
    checkpointing.recompute(recipe.model, recipe.blocks)
    assert [block.forward for block in blocks] == once


def test_checkpointing_compiles(context: Context) -> None:
    recipe = recipe_of(context, "nanogpt", checkpointing="blocks")
    losses, _ = stepped(recipe)
    eager = replace(
        recipe_of(context, "nanogpt", checkpointing="blocks"),
        compile_options={"backend": "aot_eager", "fullgraph": True},
    )
    assert stepped(eager)[0] == pytest.approx(losses, rel=1e-4)


def test_checkpointing_is_refused_where_no_block_is_named() -> None:
    with pytest.raises(catalog.Refused, match="names its blocks"):
        Trainer(replace(_plain(), checkpointing=True), CPU)


@pytest.mark.parametrize("parts", ["2", "4"])
def test_accumulating_over_parts_is_the_same_step(context: Context, parts: str) -> None:
    def with_sgd(recipe: Recipe) -> Recipe:  # AdamW would not see a gradient of the wrong size
        return replace(recipe, optimizer=torch.optim.SGD, optimizer_options={"lr": 0.1})

    losses, weights = stepped(with_sgd(recipe_of(context, "nanogpt")))
    again, accumulated = stepped(with_sgd(recipe_of(context, "nanogpt", accumulation=parts)))
    assert again == pytest.approx(losses, rel=1e-4)
    for name, weight in weights.items():
        torch.testing.assert_close(accumulated[name], weight, rtol=1e-3, atol=1e-6)


def test_a_batch_that_cannot_be_cut_evenly_is_refused() -> None:
    with pytest.raises(catalog.Refused) as refused:
        Trainer(replace(_plain(), accumulation=3), CPU)
    assert str(refused.value) == (
        "accumulation=3 needs a batch that 3 divides, and this case has 8."
    )


@pytest.mark.parametrize("kept", [True, False])
def test_gradients_are_dropped_or_filled_with_zeros(*, kept: bool) -> None:
    trainer = Trainer(replace(_plain(), keep_gradients=kept), CPU)
    trainer.step((torch.randn(8, 4),))
    gradients = [weight.grad for weight in trainer.model.parameters()]
    assert all((grad is not None) is kept for grad in gradients)
    assert all(not grad.any() for grad in gradients if grad is not None)


@pytest.mark.parametrize("loose", [True, False])
def test_the_garbage_collector_is_out_of_a_pass_unless_asked_in(*, loose: bool) -> None:
    with flags.collector(replace(_plain(), collect_garbage=loose)):
        assert gc.isenabled() is loose
    assert gc.isenabled()


def _allowed() -> dict[str, bool]:
    return {
        "math": torch.backends.cuda.math_sdp_enabled(),
        "flash": torch.backends.cuda.flash_sdp_enabled(),
        "efficient": torch.backends.cuda.mem_efficient_sdp_enabled(),
        "cudnn": torch.backends.cuda.cudnn_sdp_enabled(),
    }


@pytest.mark.parametrize("kernel", ["math", "flash", "efficient", "cudnn"])
def test_one_attention_kernel_is_allowed_and_the_next_case_starts_anew(kernel: str) -> None:
    before = _allowed()
    in_force = flags.put_in_force(replace(_plain(), attention=kernel))
    assert in_force["flag.attention"] == kernel
    assert [name for name, allowed in _allowed().items() if allowed] == [kernel]
    flags.put_in_force(_plain())
    assert _allowed() == before


@pytest.mark.parametrize("workload", ["nanogpt", "unet"])
def test_attention_written_out_gives_the_same_loss(context: Context, workload: str) -> None:
    losses, _ = stepped(recipe_of(context, workload))
    written_out = recipe_of(context, workload, attention="math")
    flags.put_in_force(written_out)
    assert stepped(written_out)[0] == pytest.approx(losses, rel=1e-4)


@pytest.fixture
def flex_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """FlexAttention's own formula, forward and backward; on a CPU torch refuses the latter."""
    monkeypatch.setattr(flex_attention, "_validate_device", lambda *_: None)
    formula = torch.compile(flex_attention.flex_attention, backend="aot_eager", dynamic=False)
    monkeypatch.setattr(flex, "_compiled", lambda: formula)


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
@pytest.mark.usefixtures("flex_on_a_cpu")
@pytest.mark.parametrize(
    "compiled",
    [None, pytest.param({"backend": "aot_eager"}, marks=pytest.mark.slow)],
    ids=["eager", "compiled"],
)
def test_flex_attention_gives_the_same_loss_and_gradients(
    context: Context, compiled: dict[str, str] | None
) -> None:
    losses, weights = stepped(recipe_of(context, "nanogpt"))
    flexible = replace(recipe_of(context, "nanogpt"), attention="flex", compile_options=compiled)
    flags.put_in_force(flexible)
    assert functional.scaled_dot_product_attention is not PLAIN_ATTENTION
    flex_losses, trained = stepped(flexible)
    assert flex_losses == pytest.approx(losses, rel=1e-4)
    for name, weight in weights.items():
        torch.testing.assert_close(trained[name], weight, rtol=1e-3, atol=1e-4)
    flags.put_in_force(_plain())
    assert functional.scaled_dot_product_attention is PLAIN_ATTENTION


@pytest.mark.parametrize("shapes", [2, pytest.param(8, marks=pytest.mark.slow)])
def test_flex_attention_is_never_the_formula_in_silence(
    monkeypatch: pytest.MonkeyPatch, shapes: int
) -> None:
    """The compiler gives up after eight shapes; a search for the largest batch tries more."""
    made = torch.compile
    monkeypatch.setattr(
        torch, "compile", lambda function, **how: made(function, backend="aot_eager", **how)
    )
    flex._compiled.cache_clear()
    flags.put_in_force(replace(_plain(), attention="flex"))

    def attend(batch: int) -> None:
        query = torch.randn(batch, 1, 4, 16)
        functional.scaled_dot_product_attention(query, query, query)

    with torch._dynamo.config.patch(recompile_limit=shapes):
        with pytest.raises(torch._dynamo.exc.FailOnRecompileLimitHit):
            list(map(attend, range(1, shapes + 3)))
        for batch in range(1, shapes + 3):
            flex.forget_shapes()
            attend(batch)
    flex._compiled.cache_clear()
    torch._dynamo.reset()


def test_flex_attention_refuses_what_it_would_compute_otherwise() -> None:
    flags.put_in_force(replace(_plain(), attention="flex"))
    query = torch.randn(1, 1, 4, 4)
    for more in ({"dropout_p": 0.1}, {"attn_mask": torch.ones(4, 4, dtype=torch.bool)}):
        with pytest.raises(catalog.Refused, match="without mask and dropout"):
            functional.scaled_dot_product_attention(query, query, query, **more)


def test_a_kernel_that_has_nothing_for_these_shapes_makes_the_case_unsupported() -> None:
    status, reason = classify(RuntimeError("No available kernel. Aborting execution."), 8)
    assert status is Status.UNSUPPORTED
    assert "choose another attention=" in reason


@pytest.mark.parametrize(
    ("workload", "axes", "sentence"),
    [
        (
            "resnet50",
            {"attention": "math"},
            "attention=math needs attends=causally or everywhere, and resnet50 has attends=no.",
        ),
        (
            "nanogpt",
            {"attention": "flash"},
            "attention=flash needs precision=bf16 or fp16 or fp8, "
            "and this case has precision=fp32.",
        ),
        (
            "nanogpt",
            {"attention": "cudnn", "precision": "tf32"},
            "attention=cudnn needs precision=bf16 or fp16 or fp8, "
            "and this case has precision=tf32.",
        ),
    ],
)
def test_an_impossible_attention_is_refused_before_anything_runs(
    workload: str, axes: dict[str, str], sentence: str
) -> None:
    with pytest.raises(catalog.Refused) as refused:
        catalog.normalise(Case(workload=workload, axes=axes), "cuda")
    assert str(refused.value) == sentence


@pytest.mark.parametrize(
    ("value", "settings"),
    [("expandable", "expandable_segments:True"), ("split-512", "max_split_size_mb:512")],
)
def test_settings_are_asked_of_torchs_allocator_and_told(
    monkeypatch: pytest.MonkeyPatch, value: str, settings: str
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(torch._C, "_accelerator_setAllocatorSettings", asked.append, raising=False)
    recipe = importlib.import_module("benchmarks.axes.allocator").apply(value, _plain())
    assert flags.put_in_force(recipe)["flag.allocator"] == settings.lower()
    assert asked == [settings]
    assert flags.put_in_force(_plain())["flag.allocator"] == "default"
    assert asked == [settings]


def test_the_allocator_of_an_older_torch_is_asked_by_its_older_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    monkeypatch.delattr(torch._C, "_accelerator_setAllocatorSettings", raising=False)
    monkeypatch.setattr(torch.cuda.memory, "_set_allocator_settings", asked.append)
    flags.put_in_force(replace(_plain(), allocator="expandable_segments:True"))
    assert asked == ["expandable_segments:True"]


def test_expandable_segments_are_refused_on_a_cpu() -> None:
    with pytest.raises(catalog.Refused, match="allocator=expandable"):
        catalog.normalise(Case(workload="nanogpt", axes={"allocator": "expandable"}), "cpu")


def test_the_order_in_which_axes_are_applied_does_not_matter(context: Context) -> None:
    chosen = {
        "accumulation": "2",
        "checkpointing": "blocks",
        "gc": "on",
        "optimizer": "fused",
        "precision": "bf16",
        "prefetch_factor": "4",
        "workers": "2",
        "zero_grad": "zeros",
    }
    start = recipe_of(context, "nanogpt")
    start = replace(start, optimizer_options={"lr": 1e-3})
    made = []
    for names in (sorted(chosen), sorted(chosen, reverse=True)):
        recipe = start
        for name in names:
            recipe = importlib.import_module(f"benchmarks.axes.{name}").apply(chosen[name], recipe)
        made.append(recipe)
    assert made[0] == made[1]


IN_FORCE = """
import importlib, torch
from benchmarks.measure import flags
from benchmarks.workload import Recipe
from torch import nn
from torch.utils.data import TensorDataset
recipe = Recipe(nn.Linear(1, 1), lambda m, b: m(b[0]).sum(), torch.optim.SGD, nn.Module.parameters,
                TensorDataset(torch.zeros(1, 1)), batch=1)
torch.zeros(1, device="cuda")
flags.put_in_force(importlib.import_module("benchmarks.axes.allocator").apply("VALUE", recipe))
held = torch.empty(2**30, dtype=torch.uint8, device="cuda")
"""
GROWS = """
assert any(one["is_expandable"] for one in torch.cuda.memory_snapshot())
"""
STAYS_WHOLE = """
del held
kept = torch.cuda.memory_reserved()
small = torch.empty(2**26, dtype=torch.uint8, device="cuda")
assert torch.cuda.memory_reserved() >= kept + 2**26
"""


@pytest.mark.gpu
@pytest.mark.parametrize(("value", "shown"), [("expandable", GROWS), ("split-128", STAYS_WHOLE)])
def test_settings_of_the_allocator_are_in_force_on_a_gpu(value: str, shown: str) -> None:
    """In a process of its own: the setting stays."""
    program = IN_FORCE.replace("VALUE", value) + shown
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
