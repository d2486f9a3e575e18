"""Memory layout of images, feature maps and convolution weights."""

from dataclasses import replace

import torch

from benchmarks.workload import Recipe

DEFAULT = "contiguous"
VALUES = {
    "contiguous": "N, C, H, W",
    "channels_last": "N, H, W, C in memory: what tensor cores read without transposing",
}
NEEDS = {"channels_last": {"input": ("images",)}}


def apply(value: str, recipe: Recipe) -> Recipe:
    """Lay out the model and its four-dimensional inputs."""
    if value == "contiguous":
        return recipe
    return replace(recipe, memory_format=torch.channels_last)
