"""A workload's own implementation of some of its operators, by the name that its recipe gives it.

Speed and numbers are held against the same workload with ``eager``, so that no kernel is compared
with itself.
"""

from benchmarks.catalog.catalog import Refused
from benchmarks.workload import Recipe

DEFAULT = "eager"
VALUES = {"eager": "PyTorch's operators, as the workload's code calls them"}
PATTERN = "[a-z][a-z0-9_-]{0,31}"


def apply(value: str, recipe: Recipe) -> Recipe:
    """Put that kernel in place.

    Raises:
        Refused: the recipe has none of that name, or its function returns no recipe.
    """
    if value == DEFAULT:
        return recipe
    if value not in recipe.kernels:
        there = ", ".join((DEFAULT, *recipe.kernels))
        raise Refused(f"This workload has no kernel={value}: choose one of its recipe's: {there}.")
    changed = recipe.kernels[value](recipe)
    if not isinstance(changed, Recipe):
        made = type(changed).__name__
        raise Refused(f"The function of kernel={value} returned {made}, and a Recipe is needed.")
    return changed
