"""Batches that each loader process prepares ahead."""

from dataclasses import replace

from benchmarks.workload import Recipe

ROLE = "input"
DEFAULT = "2"
VALUES = {
    "1": "the one being made",
    "2": "one more",
    "4": "three more",
    "8": "seven more: rides out longer pauses, holds more memory",
}
NEEDS = {
    "1": {"workers": ("2", "4", "8", "16")},
    "4": {"workers": ("2", "4", "8", "16")},
    "8": {"workers": ("2", "4", "8", "16")},
}


def apply(value: str, recipe: Recipe) -> Recipe:
    """Give each loader process a queue of that length."""
    if value == "2":
        return recipe
    options = {**recipe.loader_options, "prefetch_factor": int(value)}
    return replace(recipe, loader_options=options)
