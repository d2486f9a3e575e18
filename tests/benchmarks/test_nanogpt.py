import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.data import UnusableData
from benchmarks.workload import Context, Recipe
from benchmarks.workloads import nanogpt

SMALL = nanogpt.Config(layers=2, head=16, width=32, length=16, vocabulary=300)


@pytest.fixture(scope="module")
def meta() -> nanogpt.GPT:
    with torch.device("meta"):
        return nanogpt.GPT(nanogpt.Config())


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    context = Context(torch.device("cpu"), tmp_path_factory.mktemp("cache"))
    return nanogpt.build(nanogpt.PRESETS["tiny"], context)


def test_gpt2_small_has_124373760_parameters(meta: nanogpt.GPT) -> None:
    total = sum(weight.numel() for weight in meta.parameters())
    assert total == 124_373_760
    # nanoGPT prints "number of parameters: 123.59M": all but the position embedding.
    assert total - meta.transformer.wpe.weight.numel() == 123_587_328


def test_the_state_dict_has_nanogpts_names(meta: nanogpt.GPT) -> None:
    layer = {"ln_1", "ln_2", "attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"}
    names = {f"transformer.h.{i}.{part}.weight" for i in range(12) for part in layer}
    names |= {f"transformer.{part}.weight" for part in ("wte", "wpe", "ln_f")} | {"lm_head.weight"}
    assert set(meta.state_dict()) == names


def test_full_preset_and_config_agree() -> None:
    full = nanogpt.PRESETS["full"]
    assert nanogpt.Config() == nanogpt.Config(
        **{name: full[name] for name in nanogpt.Config.__dataclass_fields__}
    )
    assert full["batch"] == 32


def test_embeddings_are_tied() -> None:
    model = nanogpt.GPT(SMALL)
    assert model.transformer.wte.weight is model.lm_head.weight


def test_full_size_logits_cover_the_vocabulary(meta: nanogpt.GPT) -> None:
    tokens = torch.zeros(2, 1024, dtype=torch.long, device="meta")
    assert meta(tokens).shape == (2, 1024, 50304)


def test_a_training_step_costs_855_mflop_a_token(meta: nanogpt.GPT) -> None:
    tokens = torch.zeros(1, 1024, dtype=torch.long, device="meta")
    with FlopCounterMode(display=False) as counter:
        nanogpt.loss(meta, (tokens, tokens)).backward()
    assert counter.get_total_flops() / 1024 == pytest.approx(854.8e6, rel=0.001)


def test_a_later_token_never_changes_earlier_logits() -> None:
    torch.manual_seed(0)
    model = nanogpt.GPT(SMALL)
    tokens = torch.randint(300, (1, 16))
    changed = tokens.clone()
    changed[0, 10] = (changed[0, 10] + 1) % 300
    before, after = model(tokens), model(changed)
    torch.testing.assert_close(before[:, :10], after[:, :10], rtol=0, atol=0)
    assert not torch.allclose(before[:, 10:], after[:, 10:])


def test_the_first_loss_is_that_of_a_uniform_guess(tiny: Recipe) -> None:
    batch = torch.utils.data.default_collate([tiny.dataset[i] for i in range(8)])
    with torch.no_grad():
        loss = tiny.loss(tiny.model, batch).item()
    assert loss == pytest.approx(math.log(1024), abs=0.15)


def test_residual_projections_start_smaller() -> None:
    torch.manual_seed(0)
    model = nanogpt.GPT(nanogpt.Config(layers=8, width=128, head=32, length=8, vocabulary=300))
    state = model.state_dict()
    assert state["transformer.h.3.mlp.c_fc.weight"].std().item() == pytest.approx(0.02, rel=0.05)
    assert state["transformer.h.3.mlp.c_proj.weight"].std().item() == pytest.approx(
        0.02 / 4, rel=0.05
    )


def test_only_matrices_decay() -> None:
    model = nanogpt.GPT(SMALL)
    decaying, spared = nanogpt.decay_groups(model)
    assert (decaying["weight_decay"], spared["weight_decay"]) == (0.1, 0.0)
    assert {weight.dim() for weight in decaying["params"]} == {2}
    assert {weight.dim() for weight in spared["params"]} == {1}
    assert len(decaying["params"]) + len(spared["params"]) == len(list(model.parameters()))


def test_the_tiny_preset_learns_a_fixed_batch(tmp_path: Path, tiny: Recipe) -> None:
    torch.manual_seed(0)
    model = nanogpt.GPT(nanogpt.Config(4, 32, 128, 128, 1024))
    optimizer = tiny.optimizer(tiny.parameters(model), **tiny.optimizer_options)
    batch = torch.utils.data.default_collate([tiny.dataset[i] for i in range(tiny.batch)])
    losses = []
    for _ in range(8):
        loss = tiny.loss(model, batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < losses[0] - 0.5


def test_the_recipe_counts_tokens(tiny: Recipe) -> None:
    assert tiny.items_per_sample == 128
    assert tiny.data_name == "builtin-tokens-v1"
    assert tiny.optimizer is torch.optim.AdamW
    assert tiny.optimizer_options["betas"] == (0.9, 0.95)


def test_a_token_file_for_another_vocabulary_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "other.bin"
    np.full(1_000, 40_000, dtype=np.uint16).tofile(file)
    context = Context(torch.device("cpu"), tmp_path, data_root=file)
    with pytest.raises(UnusableData, match="token 40000 and the model's vocabulary ends at 1023"):
        nanogpt.build(nanogpt.PRESETS["tiny"], context)


def test_the_loss_compiles_into_one_graph() -> None:
    model = nanogpt.GPT(SMALL)

    def step(batch: tuple[torch.Tensor, ...]) -> torch.Tensor:
        return nanogpt.loss(model, batch)

    tokens = torch.randint(300, (2, 17))
    compiled = torch.compile(step, fullgraph=True, backend="eager")
    batch = (tokens[:, :-1], tokens[:, 1:])
    torch.testing.assert_close(compiled(batch), nanogpt.loss(model, batch))
