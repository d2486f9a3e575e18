"""Implementation that launches the optimizer's update over many parameters."""

import inspect
from dataclasses import replace

from benchmarks.catalog.catalog import Refused
from benchmarks.workload import Recipe

DEFAULT = "foreach"
VALUES = {
    "foreach": "a few kernels over lists of tensors, one operation each",
    "fused": "the whole update of a list of tensors in one kernel",
}


def apply(value: str, recipe: Recipe) -> Recipe:
    """Choose the implementation; the arithmetic is the same.

    An optimizer that has no choice, as Muon or one of the user's own, is left as it is by default.

    Raises:
        Refused: it has no such implementation, and it was asked for.
    """
    if _takes(recipe, value):
        return replace(recipe, optimizer_options={**recipe.optimizer_options, value: True})
    if value == DEFAULT:
        return recipe
    name = getattr(recipe.optimizer, "__name__", type(recipe.optimizer).__name__)
    raise Refused(f"optimizer={value} needs an optimizer that takes {value}=, and {name} does not.")


def _takes(recipe: Recipe, option: str) -> bool:
    try:
        taken = inspect.signature(recipe.optimizer).parameters
    except (TypeError, ValueError):  # written in C, or not to be read: torch's own all can
        return True
    anything = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in taken.values())
    return anything or option in taken
