"""Treatment of the gradients after an update: dropped, or filled with zeros."""

from dataclasses import replace

from benchmarks.workload import Recipe

DEFAULT = "set_to_none"
VALUES = {
    "set_to_none": "dropped: the next backward pass writes new ones",
    "zeros": "kept and filled with zeros: the next backward pass adds to them",
}


def apply(value: str, recipe: Recipe) -> Recipe:
    """Drop the gradients, or keep their memory."""
    return replace(recipe, keep_gradients=value == "zeros")
