"""Samples per optimizer step. A batch that does not fit is reported, never made smaller."""

from dataclasses import replace

from benchmarks.workload import Recipe

ROLE = "input"
DEFAULT = "preset"
VALUES = {
    "preset": "as the workload's preset says",
    "auto": "the largest power of two, or half between two, that fits; searched for beforehand",
    "fastest": "the smallest one of the highest throughput, among powers of two and the largest",
}
PATTERN = "[1-9][0-9]{0,5}"
# A search times one process.
NEEDS = {
    "auto": {"device": ("cuda",), "parallel": ("none",)},
    "fastest": {"device": ("cuda",), "parallel": ("none",)},
}


def apply(value: str, recipe: Recipe) -> Recipe:
    """Replace the preset's batch."""
    match value:
        case "preset":
            return recipe
        case "auto":
            return replace(recipe, largest_batch=True)
        case "fastest":
            return replace(recipe, fastest_batch=True)
        case _:
            return replace(recipe, batch=int(value))
