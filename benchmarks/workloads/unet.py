"""DDPM's U-Net on photographs of 32x32 pixels: convolutions, group norm, attention, AdamW.

Ho, Jain and Abbeel 2020, https://arxiv.org/abs/2006.11239, appendix B, and the code at
https://github.com/hojonathanho/diffusion (diffusion_tf/models/unet.py), in its CIFAR-10 form: 128
channels times 1, 2, 2, 2 from 32x32 down to 4x4, two residual blocks a level, attention at 16x16
only, group norm, SiLU, a sinusoidal time embedding: 35,746,307 parameters. It learns to tell the
noise that was added to an image. One training step costs 37.3 GFLOP an image.

Differences from the source: AdamW in place of Adam and its warm-up; no dropout (theirs is 0.1),
no average of the weights and no clipped gradients, as the harness times a plain step; attention
through PyTorch's fused function; and a stride's padding on both sides, as PyTorch's ports have it.

Sizes: ``tiny`` keeps every layer and has a quarter of the channels. At another resolution the
network is the same, with attention at its second level.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812  PyTorch's own custom
from torch import Tensor, nn

from benchmarks.catalog.catalog import Refused
from benchmarks.data.images import Images, View, open_folder, random_square
from benchmarks.data.photographs import Photographs
from benchmarks.workload import Batch, Context, Recipe

# Config

ITEM = "img"
FACTS = {"input": "images", "attends": "everywhere"}
PRESETS = {
    "full": {"batch": 128, "width": 128, "image": 32, "files": 4_000},
    "tiny": {"batch": 4, "width": 32, "image": 32, "files": 96},
}
GROUPS = 32
"""Groups of channels that each norm has."""
STEPS = 1_000
"""Length of the diffusion."""


@dataclass(frozen=True)
class Config:
    """The model's sizes; as they stand, DDPM for CIFAR-10."""

    width: int = 128
    """Channels at the top; a multiple of `GROUPS`."""
    multipliers: tuple[int, ...] = (1, 2, 2, 2)
    """Channels of each level, as multiples of the width."""
    blocks: int = 2
    """Residual blocks per level on the way down; one more on the way up."""
    image: int = 32
    """Pixels on a side of an image."""

    @property
    def time(self) -> int:
        """Width of the time embedding."""
        return 4 * self.width

    @property
    def attention(self) -> tuple[int, ...]:
        """Pixels on a side of the levels that have attention: the second, at each resolution."""
        return (self.image // 2,)


# Layers


class ResBlock(nn.Module):
    """Two 3x3 convolutions around a shortcut; in between it is told the time."""

    def __init__(self, inputs: int, outputs: int, config: Config) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(GROUPS, inputs, eps=1e-6)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.time = nn.Linear(config.time, outputs)
        self.norm2 = nn.GroupNorm(GROUPS, outputs, eps=1e-6)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.shortcut: nn.Module = nn.Identity()
        if inputs != outputs:
            self.shortcut = nn.Conv2d(inputs, outputs, 1)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:  # [B, inputs, H, W], [B, 4 width]
        """Return [B, outputs, H, W]."""
        h = self.conv1(F.silu(self.norm1(x)))
        h = h + self.time(F.silu(time))[:, :, None, None]
        h = self.conv2(F.silu(self.norm2(h)))
        total: Tensor = self.shortcut(x) + h
        return total


class Attention(nn.Module):
    """Each pixel looks at all others: one head, around a shortcut."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(GROUPS, channels, eps=1e-6)
        self.q = nn.Conv2d(channels, channels, 1)
        self.k = nn.Conv2d(channels, channels, 1)
        self.v = nn.Conv2d(channels, channels, 1)
        self.out = nn.Conv2d(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:  # [B, C, H, W]
        """Return [B, C, H, W]."""
        h = self.norm(x)
        q, k, v = (_as_sequence(layer(h)) for layer in (self.q, self.k, self.v))  # [B, 1, HW, C]
        h = F.scaled_dot_product_attention(q, k, v)
        h = h.squeeze(1).transpose(1, 2).reshape(x.shape)  # [B, C, H, W]
        total: Tensor = x + self.out(h)
        return total


def _as_sequence(x: Tensor) -> Tensor:  # [B, C, H, W]
    return x.flatten(2).transpose(1, 2).unsqueeze(1)  # [B, 1, HW, C]


class Stage(nn.Module):
    """A residual block, and attention after it where the level has any."""

    def __init__(self, inputs: int, outputs: int, pixels: int, config: Config) -> None:
        super().__init__()
        self.block = ResBlock(inputs, outputs, config)
        self.attention: nn.Module = nn.Identity()
        if pixels in config.attention:
            self.attention = Attention(outputs)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:  # [B, inputs, H, W], [B, 4 width]
        """Return [B, outputs, H, W]."""
        mixed: Tensor = self.attention(self.block(x, time))
        return mixed


class Downsample(nn.Module):
    """Halve both sides."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, stride=2, padding=1)

    def forward(self, x: Tensor, _: Tensor) -> Tensor:  # [B, C, H, W]
        """Return [B, C, H / 2, W / 2]."""
        halved: Tensor = self.conv(x)
        return halved


class Upsample(nn.Module):
    """Double both sides."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:  # [B, C, H, W]
        """Return [B, C, 2 H, 2 W]."""
        doubled: Tensor = self.conv(F.interpolate(x, scale_factor=2.0, mode="nearest"))
        return doubled


class TimeEmbedding(nn.Module):
    """Sines and cosines of the time, then two layers."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        half = config.width // 2
        exponents = torch.arange(half, dtype=torch.float32) / (half - 1)
        self.register_buffer("frequencies", torch.exp(-math.log(10_000) * exponents), False)  # noqa: FBT003
        self.frequencies: Tensor  # [width / 2]
        self.linear1 = nn.Linear(config.width, config.time)
        self.linear2 = nn.Linear(config.time, config.time)

    def forward(self, t: Tensor) -> Tensor:  # int64 [B]
        """Return [B, 4 width]."""
        angles = t.float()[:, None] * self.frequencies  # [B, width / 2]
        waves = torch.cat([angles.sin(), angles.cos()], dim=1)  # [B, width]
        time: Tensor = self.linear2(F.silu(self.linear1(waves)))
        return time


# Model


class UNet(nn.Module):
    """Down with a copy kept of every step, through the middle, and up with the copies joined on.

    It also holds the linear noise schedule, so that the schedule is where the model is: of an
    image at time t the share ``signal[t]`` is left, with ``noise[t]`` of noise.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        top, bottom = config.width, config.width * config.multipliers[-1]
        self.time = TimeEmbedding(config)
        self.stem = nn.Conv2d(3, top, 3, padding=1)
        self.down = nn.ModuleList(_way_down(config))
        lowest = config.image >> (len(config.multipliers) - 1)
        self.middle1 = ResBlock(bottom, bottom, config)
        self.middle_attention = Attention(bottom)
        self.middle2 = ResBlock(bottom, bottom, config)
        self.up = nn.ModuleList(_way_up(config, lowest))
        self.norm = nn.GroupNorm(GROUPS, top, eps=1e-6)
        self.out = nn.Conv2d(top, 3, 3, padding=1)
        left = torch.cumprod(1 - torch.linspace(1e-4, 0.02, STEPS), dim=0)
        self.register_buffer("signal", left.sqrt(), persistent=False)
        self.register_buffer("noise", (1 - left).sqrt(), persistent=False)
        self.apply(_initialise)

    def forward(self, x: Tensor, t: Tensor) -> Tensor:  # [B, 3, S, S], int64 [B]
        """Return the noise that ``x`` is thought to hold, [B, 3, S, S]."""
        time = self.time(t)  # [B, 4 width]
        x = self.stem(x)  # [B, width, S, S]
        kept = [x]
        for layer in self.down:
            x = layer(x, time)  # down to [B, 2 width, S / 8, S / 8]
            kept.append(x)
        x = self.middle2(self.middle_attention(self.middle1(x, time)), time)
        for layer in self.up:
            if isinstance(layer, Upsample):
                x = layer(x)
            else:
                x = layer(torch.cat([x, kept.pop()], dim=1), time)
        noise: Tensor = self.out(F.silu(self.norm(x)))
        return noise


def _way_down(config: Config) -> Iterator[nn.Module]:
    channels, pixels = config.width, config.image
    for level, multiplier in enumerate(config.multipliers):
        if level > 0:
            yield Downsample(channels)
            pixels //= 2
        for _ in range(config.blocks):
            yield Stage(channels, config.width * multiplier, pixels, config)
            channels = config.width * multiplier


def _way_up(config: Config, pixels: int) -> Iterator[nn.Module]:
    kept = _kept_channels(config)
    channels = kept[-1]
    for level, multiplier in reversed(list(enumerate(config.multipliers))):
        for _ in range(config.blocks + 1):
            yield Stage(channels + kept.pop(), config.width * multiplier, pixels, config)
            channels = config.width * multiplier
        if level > 0:
            yield Upsample(channels)
            pixels *= 2


def _kept_channels(config: Config) -> list[int]:
    """Channels of the copies in the order in which the way down makes them."""
    kept = [config.width]
    for level, multiplier in enumerate(config.multipliers):
        if level > 0:
            kept.append(kept[-1])
        kept += [config.width * multiplier] * config.blocks
    return kept


def _initialise(module: nn.Module) -> None:
    """Initialise as DDPM does: uniform by fan average, and nothing at the end of each branch."""
    if isinstance(module, nn.Conv2d | nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    # `apply` comes to a parent after its children, so these zeros stay.
    elif isinstance(module, ResBlock):
        nn.init.zeros_(module.conv2.weight)
    elif isinstance(module, Attention | UNet):
        nn.init.zeros_(module.out.weight)


# Data


def view(image: int) -> View:
    """Scale the image's middle or a side of it to a square and to values from -1 to 1; flip
    half."""
    return View(random_square, image, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))


# Loss


def loss(model: nn.Module, batch: Batch) -> Tensor:
    """Mean squared error of the noise told for (images [B, 3, S, S],) at random times.

    A batch may bring its own times [B] and noise [B, 3, S, S]; else they are drawn.
    """
    images, t, noise = batch if len(batch) == 3 else draw(batch)
    signal_share, noise_share = (_table(model, name)[t] for name in ("signal", "noise"))
    noisy = signal_share * images + noise_share * noise
    return F.mse_loss(model(noisy, t), noise)


def draw(batch: Batch) -> Batch:
    """Add times and noise, drawn on the images' device, so that the host never waits for it."""
    (images,) = batch
    t = torch.randint(STEPS, (images.shape[0],), device=images.device)  # [B]
    return images, t, torch.randn_like(images)


def _table(model: nn.Module, name: str) -> Tensor:
    table = getattr(getattr(model, "module", model), name)  # of a gang it is wrapped
    assert isinstance(table, Tensor)
    return table.view(-1, 1, 1, 1)  # [1000, 1, 1, 1]: one value broadcast over an image


# Build


def flops(size: Mapping[str, int]) -> float:
    """FLOP of a training step per image, by formula: two for a multiply-add, forward and twice that
    backward, but for the stem and the time's first layer, whose inputs need no gradient."""
    config = Config(width=size["width"], image=size["image"])
    top, time = config.width, config.time
    first = 27 * top * config.image**2 + top * time
    rest = time * time + 27 * top * config.image**2  # the second time layer and the last one
    channels, pixels, kept = top, config.image, _kept_channels(config)
    for level, multiplier in enumerate(config.multipliers):
        if level > 0:
            pixels //= 2
            rest += 9 * channels**2 * pixels**2
        for _ in range(config.blocks):
            rest += _stage_macs(channels, top * multiplier, pixels, config)
            channels = top * multiplier
    rest += 2 * _block_macs(channels, channels, pixels, config) + _attention_macs(channels, pixels)
    for level, multiplier in reversed(list(enumerate(config.multipliers))):
        for _ in range(config.blocks + 1):
            rest += _stage_macs(channels + kept.pop(), top * multiplier, pixels, config)
            channels = top * multiplier
        if level > 0:
            pixels *= 2
            rest += 9 * channels**2 * pixels**2
    return 2.0 * (3 * rest + 2 * first)


def _stage_macs(inputs: int, outputs: int, pixels: int, config: Config) -> int:
    mixed = _attention_macs(outputs, pixels) if pixels in config.attention else 0
    return _block_macs(inputs, outputs, pixels, config) + mixed


def _block_macs(inputs: int, outputs: int, pixels: int, config: Config) -> int:
    shortcut = inputs * outputs if inputs != outputs else 0
    return (9 * (inputs + outputs) * outputs + shortcut) * pixels**2 + config.time * outputs


def _attention_macs(channels: int, pixels: int) -> int:
    return 4 * channels**2 * pixels**2 + 2 * channels * pixels**4


def build(size: Mapping[str, int], context: Context) -> Recipe:
    """Propose the recipe: DDPM's learning rate for CIFAR-10.

    Raises:
        Refused: an image that cannot be halved at each level, or a width that cannot be grouped.
    """
    config = Config(width=size["width"], image=size["image"])
    if config.image % (least := 2 ** (len(config.multipliers) - 1)):
        raise Refused(
            f"The U-Net halves an image {len(config.multipliers) - 1} times: the resolution must "
            f"be a multiple of {least}, and {config.image} is none."
        )
    if config.width % GROUPS:
        raise Refused(
            f"Each norm has {GROUPS} groups: the width must be a multiple of {GROUPS}, and "
            f"{config.width} is none."
        )
    torch.manual_seed(context.seed)
    with context.device:
        model = UNet(config)
    files = Photographs(size["files"], config.image * 3 // 2, config.image * 9 // 8)
    folder = open_folder(context, files)
    return Recipe(
        model=model,
        loss=loss,
        optimizer=torch.optim.AdamW,
        parameters=nn.Module.parameters,
        optimizer_options={"lr": 2e-4},
        dataset=Images(folder, view(config.image), context.seed, labelled=False),
        batch=size["batch"],
        data_name=folder.name,
        cudnn_benchmark=True,
        blocks=(Stage, ResBlock, Attention),
        draw=draw,
    )
