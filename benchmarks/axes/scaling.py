"""The batch of a gang: as large on each GPU as on one (weak), or as large in all (strong)."""

from dataclasses import replace

from benchmarks.workload import Recipe

ROLE = "devices"
DEFAULT = "weak"
VALUES = {
    "weak": "each GPU has the batch that one would have",
    "strong": "the GPUs share the batch that one would have",
}
NEEDS = {"strong": {"gpus": ("2", "4", "8")}}


def apply(value: str, recipe: Recipe) -> Recipe:
    """Share the batch or not."""
    return replace(recipe, strong_scaling=value == "strong")
