"""Size of the buckets in which `parallel=ddp` exchanges gradients.

Small ones start earlier in the backward pass; large ones use the links better.
"""

from dataclasses import replace

from benchmarks.workload import Recipe

ROLE = "devices"
DEFAULT = "25"
VALUES = {
    "1": "1 MiB",
    "5": "5 MiB",
    "25": "25 MiB, the first one of 1 MiB",
    "100": "100 MiB",
    "400": "400 MiB",
}
NEEDS = {
    "1": {"parallel": ("ddp",), "overlap": ("on",)},
    "5": {"parallel": ("ddp",), "overlap": ("on",)},
    "100": {"parallel": ("ddp",), "overlap": ("on",)},
    "400": {"parallel": ("ddp",), "overlap": ("on",)},
}


def apply(value: str, recipe: Recipe) -> Recipe:
    """Cut gradients into buckets of that size."""
    return recipe if value == DEFAULT else replace(recipe, bucket_mb=int(value))
