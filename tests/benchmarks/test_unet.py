from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.workload import Context, Recipe
from benchmarks.workloads import unet


@pytest.fixture(scope="module")
def meta() -> unet.UNet:
    with torch.device("meta"):
        return unet.UNet(unet.Config())


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    context = Context(torch.device("cpu"), tmp_path_factory.mktemp("cache"))
    return unet.build(unet.PRESETS["tiny"], context)


def test_ddpms_unet_has_35746307_parameters(meta: unet.UNet) -> None:
    assert sum(weight.numel() for weight in meta.parameters()) == 35_746_307


def test_full_preset_and_config_agree() -> None:
    assert unet.Config().width == unet.PRESETS["full"]["width"] == 128
    assert unet.PRESETS["full"]["batch"] == 128
    assert unet.Config().time == 512


def test_the_told_noise_has_the_images_shape(meta: unet.UNet) -> None:
    images = torch.empty(2, 3, 32, 32, device="meta")
    assert meta(images, torch.zeros(2, device="meta").long()).shape == images.shape


def test_attention_sees_16x16_on_both_ways_and_the_middle() -> None:
    model = unet.UNet(unet.Config(width=32))
    seen: list[tuple[int, ...]] = []

    def note(to: list[tuple[int, ...]]) -> Callable[..., None]:
        return lambda _, inputs, __: to.append(tuple(inputs[0].shape[2:]))

    for module in model.modules():
        if isinstance(module, unet.Attention):
            module.register_forward_hook(note(seen))
    model(torch.zeros(1, 3, 32, 32), torch.zeros(1).long())
    # Two blocks down and three up; the middle's, at 4x4, belongs to no level.
    assert seen == [(16, 16)] * 2 + [(4, 4)] + [(16, 16)] * 3


def test_a_training_step_costs_37_gflop_an_image(meta: unet.UNet) -> None:
    with FlopCounterMode(display=False) as counter:
        unet.loss(meta, (torch.empty(1, 3, 32, 32, device="meta"),)).backward()
    assert counter.get_total_flops() == pytest.approx(37.32e9, rel=0.001)


def test_the_schedule_is_ddpms() -> None:
    model = unet.UNet(unet.Config(width=32))
    signal, noise = model.get_buffer("signal"), model.get_buffer("noise")
    assert signal.shape == (1000,)
    assert signal[0].item() ** 2 == pytest.approx(1 - 1e-4, rel=1e-5)
    assert signal[-1].item() ** 2 == pytest.approx(4.04e-5, rel=0.01)
    torch.testing.assert_close(signal**2 + noise**2, torch.ones(1000))
    assert "signal" not in model.state_dict()


def test_the_first_guess_is_no_noise_at_all(tiny: Recipe) -> None:
    torch.manual_seed(0)
    model = unet.UNet(unet.Config(width=32))
    images = torch.randn(64, 3, 32, 32).clamp(-1, 1)
    assert torch.equal(model(images[:1], torch.zeros(1).long()), torch.zeros(1, 3, 32, 32))
    assert unet.loss(model, (images,)).item() == pytest.approx(1, abs=0.03)


def test_attention_is_what_its_formula_says() -> None:
    torch.manual_seed(0)
    layer = unet.Attention(32)
    nn.init.xavier_uniform_(layer.out.weight)
    x = torch.randn(2, 32, 4, 4)

    def flat(image: Tensor) -> Tensor:
        return image.permute(0, 2, 3, 1).reshape(2, 16, 32)

    h = layer.norm(x)
    q, k, v = flat(layer.q(h)), flat(layer.k(h)), flat(layer.v(h))
    mixed = (q @ k.mT / 32**0.5).softmax(-1) @ v
    expected = x + layer.out(mixed.reshape(2, 4, 4, 32).permute(0, 3, 1, 2))
    torch.testing.assert_close(layer(x), expected)


def test_the_tiny_preset_learns_a_fixed_batch(tiny: Recipe) -> None:
    optimizer = tiny.optimizer(tiny.parameters(tiny.model), **tiny.optimizer_options)
    batch = torch.utils.data.default_collate([tiny.dataset[i] for i in range(tiny.batch)])
    losses = []
    for _ in range(8):
        torch.manual_seed(0)  # the same times and noise in every step
        loss = tiny.loss(tiny.model, batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < losses[0] - 0.02


def test_the_recipe_reads_small_images_without_labels(tiny: Recipe) -> None:
    (image,) = tiny.dataset[0]
    assert image.shape == (3, 32, 32)
    assert -1 <= image.min() < 0 < image.max() <= 1
    assert tiny.data_name == "builtin-photos-v1"
    assert tiny.optimizer is torch.optim.AdamW


def test_the_loss_compiles_into_one_graph(tiny: Recipe) -> None:
    def step(batch: tuple[Tensor, ...]) -> Tensor:
        return tiny.loss(tiny.model, batch)

    compiled = torch.compile(step, fullgraph=True, backend="eager")
    assert compiled((torch.randn(2, 3, 32, 32),)).shape == ()
