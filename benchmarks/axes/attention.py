"""The kernel behind `scaled_dot_product_attention`, in the forward and backward pass.

A kernel that has nothing for the shapes at hand (cuDNN and wide heads, on some releases) is
refused by torch at the first step, and the case is then unsupported.
"""

from dataclasses import replace

from benchmarks.workload import Recipe

DEFAULT = "auto"
VALUES = {
    "auto": "torch chooses by shape, precision and device",
    "math": "plain matrix products and a softmax that is written out",
    "flash": "FlashAttention, in half precision",
    "efficient": "the memory-efficient kernel, in any precision",
    "cudnn": "cuDNN's fused kernel, in half precision",
    "flex": "FlexAttention, compiled for the shape and the mask",
}
NEEDS = {
    "math": {"attends": ("causally", "everywhere")},
    "flash": {
        "attends": ("causally", "everywhere"),
        "device": ("cuda",),
        "precision": ("bf16", "fp16", "fp8"),
    },
    "efficient": {"attends": ("causally", "everywhere"), "device": ("cuda",)},
    "cudnn": {
        "attends": ("causally", "everywhere"),
        "device": ("cuda",),
        "precision": ("bf16", "fp16", "fp8"),
    },
    "flex": {"attends": ("causally", "everywhere"), "device": ("cuda",)},  # no backward on a CPU
}
CAPABILITY = {"flash": (8, 0), "cudnn": (8, 0)}


def apply(value: str, recipe: Recipe) -> Recipe:
    """Allow that kernel only."""
    return replace(recipe, attention=value)
