"""Arithmetic of the forward and backward pass; weights and optimizer state stay in fp32.

tf32: NVIDIA's 19-bit format inside matrix products and convolutions (Ampere and later).
bf16, fp16: `torch.autocast`; fp16 with `torch.amp.GradScaler`, because its range needs one.
fp8: linear layers scaled by tensor (Ada, Hopper and later), everything else as with bf16.
"""

from dataclasses import replace

import torch

from benchmarks.workload import Recipe

DEFAULT = "fp32"
VALUES = {
    "fp32": "IEEE single precision throughout",
    "tf32": "fp32 storage, TF32 matrix products and convolutions",
    "bf16": "autocast to bfloat16",
    "fp16": "autocast to float16 with gradient scaling",
    "fp8": "autocast to bfloat16, linear layers in 8-bit floats with dynamic scaling",
}
NEEDS = {
    "tf32": {"device": ("cuda",)},
    "fp16": {"device": ("cuda",)},
    "fp8": {"device": ("cuda",), "input": ("tokens",)},
}
# An older GPU takes `allow_tf32` without a word and computes in fp32.
CAPABILITY = {"tf32": (8, 0), "fp8": (8, 9)}


def apply(value: str, recipe: Recipe) -> Recipe:
    """Choose the arithmetic."""
    match value:
        case "tf32":
            return replace(recipe, tf32=True)
        case "bf16":
            return replace(recipe, autocast=torch.bfloat16)
        case "fp16":
            return replace(recipe, autocast=torch.float16, scale_gradients=True)
        case "fp8":
            return replace(recipe, autocast=torch.bfloat16, float8=True)
        case _:
            return recipe
