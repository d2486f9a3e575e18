"""Compilation of the forward and backward pass with `torch.compile`.

The loss is compiled together with the model, so that the compiler may fuse it.
"""

from dataclasses import replace

from benchmarks.workload import Recipe

DEFAULT = "off"
VALUES = {
    "off": "eager",
    "default": "fused kernels",
    "reduce-overhead": "fused kernels replayed as CUDA graphs",
    "max-autotune": "the same with kernels chosen by timing candidates: minutes to compile",
}
NEEDS = {"reduce-overhead": {"device": ("cuda",)}, "max-autotune": {"device": ("cuda",)}}


def apply(value: str, recipe: Recipe) -> Recipe:
    """Compile in the mode of that name."""
    if value == "off":
        return recipe
    return replace(recipe, compile_options={"mode": value, "dynamic": False})
