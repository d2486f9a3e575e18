"""ResNet-50 v1.5 on JPEG photographs: convolutions, batch norm, SGD with momentum.

He et al. 2015, https://arxiv.org/abs/1512.03385, table 1; with the stride in each bottleneck's
3x3 convolution ("v1.5"), as torchvision.models.resnet50 builds it: 25,557,032 parameters, the
same names in the state dict, the same initialisation. Kept here, not imported: a library's
upgrade must not change what the history measures. One training step costs 24.3 GFLOP an image
at 224x224 (one multiply-add counted as two).

Sizes: ``tiny`` keeps the whole architecture and shrinks the batch and the images only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import torch
import torch.nn.functional as F  # noqa: N812  PyTorch's own custom
from torch import Tensor, nn

from benchmarks.data.images import Images, View, open_folder, random_area
from benchmarks.data.native_images import NativeImages
from benchmarks.data.photographs import Photographs
from benchmarks.workload import Batch, Context, Recipe

# Config

ITEM = "img"
FACTS = {"input": "images", "attends": "no", "real_lengths": "yes"}
PRESETS = {
    "full": {"batch": 256, "image": 224, "files": 2_000},
    "tiny": {"batch": 4, "image": 64, "files": 96},
}
CLASSES = 1_000
STRIDE = 32
"""Pixels of an image for each of the last plane. With ``dynamic=on`` torch compiles a plane of one
pixel by itself, so ``tiny`` has two graphs."""
STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
"""Width, number of bottlenecks and stride of each stage."""
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_DEVIATION = (0.229, 0.224, 0.225)


# Layers


class Bottleneck(nn.Module):
    """1x1 to narrow, 3x3, 1x1 to widen fourfold, around a shortcut."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.downsample: nn.Module | None = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: Tensor) -> Tensor:  # [B, inputs, H, W]
        """Return [B, 4 width, H / stride, W / stride]."""
        shortcut = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn1(self.conv1(x)))  # [B, width, H, W]
        x = self.relu(self.bn2(self.conv2(x)))  # [B, width, H / stride, W / stride]
        x = self.bn3(self.conv3(x))  # [B, 4 width, H / stride, W / stride]
        x += shortcut
        return torch.relu_(x)


# Model


class ResNet50(nn.Module):
    """Stem, four stages of bottlenecks, mean over the plane, linear head."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        self.layer1, self.layer2, self.layer3, self.layer4 = _stages()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(2048, CLASSES)
        for layer in self.modules():  # batch norm starts at weight 1, bias 0 by itself
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:  # [B, 3, S, S]
        """Return the logits, [B, 1000]."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))  # [B, 64, S/4, S/4]
        x = self.layer1(x)  # [B, 256, S/4, S/4]
        x = self.layer2(x)  # [B, 512, S/8, S/8]
        x = self.layer3(x)  # [B, 1024, S/16, S/16]
        x = self.layer4(x)  # [B, 2048, S/32, S/32]
        logits: Tensor = self.fc(self.avgpool(x).flatten(1))  # [B, 2048] -> [B, 1000]
        return logits


def _stages() -> Iterator[nn.Sequential]:
    inputs = 64
    for width, blocks, stride in STAGES:
        first = Bottleneck(inputs, width, stride)
        inputs = 4 * width
        yield nn.Sequential(first, *(Bottleneck(inputs, width, 1) for _ in range(1, blocks)))


# Data


def view(image: int) -> View:
    """torchvision's reference training: random area, flip, ImageNet's mean and deviation."""
    return View(random_area, image, IMAGENET_MEAN, IMAGENET_DEVIATION)


def at_own_scale(recipe: Recipe) -> Recipe:
    """Let each crop keep its scale, to the next multiple of the model's stride."""
    assert isinstance(recipe.dataset, Images)
    return replace(recipe, dataset=NativeImages.of(recipe.dataset, STRIDE))


# Loss


def loss(model: nn.Module, batch: Batch) -> Tensor:
    """Cross entropy of (images [B, 3, S, S], labels [B])."""
    images, labels = batch
    return F.cross_entropy(model(images), labels)


# Build


def flops(size: Mapping[str, int]) -> float:
    """FLOP of a training step per image, by formula: two for a multiply-add, forward and twice that
    backward, but for the stem, whose input needs no gradient."""
    side = -(-size["image"] // 2)
    stem = 49 * 3 * 64 * side**2
    side = -(-side // 2)
    rest, inputs = 2048 * CLASSES, 64
    for width, blocks, stride in STAGES:
        for block in range(blocks):
            first = block == 0
            before, side = side, -(-side // stride) if first else side
            rest += inputs * width * before**2 + (9 * width + 4 * width) * width * side**2
            rest += inputs * 4 * width * side**2 if first else 0
            inputs = 4 * width
    return 2.0 * (3 * rest + 2 * stem)


def build(size: Mapping[str, int], context: Context) -> Recipe:
    """Propose the recipe: the paper's settings, a learning rate of 0.1 for each 256 images."""
    torch.manual_seed(context.seed)
    with context.device:
        model = ResNet50()
    folder = open_folder(context, Photographs(size["files"], 500, 375), CLASSES)
    return Recipe(
        model=model,
        loss=loss,
        optimizer=torch.optim.SGD,
        parameters=nn.Module.parameters,
        optimizer_options={"lr": 0.1 * size["batch"] / 256, "momentum": 0.9, "weight_decay": 1e-4},
        dataset=Images(folder, view(size["image"]), context.seed),
        batch=size["batch"],
        data_name=folder.name,
        cudnn_benchmark=True,
        blocks=(Bottleneck,),
        real_lengths=at_own_scale,
    )
