"""Processes that decode and batch input beside the training process."""

from dataclasses import replace

from benchmarks.workload import Recipe

ROLE = "input"
DEFAULT = "0"
VALUES = {
    "0": "the training process reads its own input",
    "2": "two worker processes",
    "4": "four worker processes",
    "8": "eight worker processes",
    "16": "sixteen worker processes",
}


def apply(value: str, recipe: Recipe) -> Recipe:
    """Give the loader that many workers, kept alive over epochs."""
    count = int(value)
    options = {**recipe.loader_options, "num_workers": count, "persistent_workers": count > 0}
    return replace(recipe, loader_options=options)
