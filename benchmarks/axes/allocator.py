"""The way in which torch's allocator gets its memory from the driver.

Segments that grow leave fewer unusable pieces between tensors of changing sizes. The setting is
made once the model is built, so that the weights lie in plain segments. `cudaMallocAsync` is no
value: torch chooses it as it is loaded, before a process knows its case.
"""

from dataclasses import replace

from benchmarks.workload import Recipe

DEFAULT = "default"
VALUES = {
    "default": "segments of fixed size, or what PYTORCH_CUDA_ALLOC_CONF says",
    "expandable": "segments that grow in place (expandable_segments:True)",
}
NEEDS = {"expandable": {"device": ("cuda",)}}


def apply(value: str, recipe: Recipe) -> Recipe:
    """Let segments grow or not."""
    return replace(recipe, expandable_segments=value == "expandable")
