"""How the optimizer's update is launched over many parameters."""

from dataclasses import replace

from benchmarks.workload import Recipe

DEFAULT = "foreach"
VALUES = {
    "foreach": "a few kernels over lists of tensors, one operation each",
    "fused": "the whole update of a list of tensors in one kernel",
}


def apply(value: str, recipe: Recipe) -> Recipe:
    """Choose the implementation; the arithmetic is the same."""
    options = {**recipe.optimizer_options, value: True}
    return replace(recipe, optimizer_options=options)
