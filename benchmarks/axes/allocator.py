"""The way in which torch's allocator gets its memory from the driver and divides it.

Both settings leave fewer unusable pieces between tensors of changing sizes: segments that grow, or
large blocks that small tensors may not be cut from. The setting is made once the model is built, so
that the weights lie in plain segments. `cudaMallocAsync` is no value: torch chooses it as it is
loaded, before a process knows its case.
"""

from dataclasses import replace

from benchmarks.workload import Recipe

DEFAULT = "default"
VALUES = {
    "default": "segments of fixed size, or what PYTORCH_CUDA_ALLOC_CONF says",
    "expandable": "segments that grow in place (expandable_segments:True)",
    "split-128": "blocks above 128 MB stay whole (max_split_size_mb:128)",
    "split-512": "blocks above 512 MB stay whole (max_split_size_mb:512)",
}
NEEDS = {
    "expandable": {"device": ("cuda",)},
    "split-128": {"device": ("cuda",)},
    "split-512": {"device": ("cuda",)},
}
_SETTINGS = {
    "expandable": "expandable_segments:True",
    "split-128": "max_split_size_mb:128",
    "split-512": "max_split_size_mb:512",
}


def apply(value: str, recipe: Recipe) -> Recipe:
    """Ask the allocator for that."""
    return replace(recipe, allocator=_SETTINGS.get(value, ""))
