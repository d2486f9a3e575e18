"""Lengths of the samples: windows of one length, or whole documents as long as they are.

Samples of real lengths come in cycles of batches that all have the same lengths, grouped as
samplers do that group by length (`benchmarks.measure.cycles`). Throughput counts what is real, and
a timed window holds whole cycles.
"""

from dataclasses import replace

from benchmarks.catalog.catalog import Refused
from benchmarks.workload import Recipe

ROLE = "input"
DEFAULT = "preset"
VALUES = {
    "preset": "every sample is as long as the workload's preset says",
    "real": "whole documents, cut at the preset's length and padded as `dynamic` says",
}
# The mean of the losses of equal parts is that of the whole only where parts have equal counts.
NEEDS = {"real": {"real_lengths": ("yes",), "accumulation": ("1",)}}
CYCLE = 8
"""Batches after which lengths repeat."""


def apply(value: str, recipe: Recipe) -> Recipe:
    """Put samples of real lengths in the place of windows.

    Raises:
        Refused: the recipe has none, or a data set that does not tell their lengths.
    """
    if value == DEFAULT:
        return recipe
    if recipe.real_lengths is None:
        raise Refused("lengths=real needs a recipe with a function real_lengths, and it has none.")
    changed = recipe.real_lengths(recipe)
    if not isinstance(changed, Recipe):
        made = type(changed).__name__
        raise Refused(f"real_lengths of the recipe returned {made}, and a Recipe is needed.")
    if not all(hasattr(changed.dataset, name) for name in ("lengths", "most", "fill")):
        raise Refused(
            "lengths=real needs a data set with lengths, most and fill, as RealLengths of "
            f"benchmarks.workload says, and {type(changed.dataset).__name__} lacks one."
        )
    if hasattr(changed.dataset, "collate"):
        raise Refused(
            "lengths=real pads batches itself, and the data set has a collate of its own."
        )
    return replace(changed, cycle=CYCLE)
