"""Lengths of the samples: of one length, or as long as documents or as large as crops really are.

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
    "real": "whole documents, or crops at their own scale, up to the preset's length or side, "
    "padded as `dynamic` says",
}
NEEDS = {
    "real": {
        "real_lengths": ("yes",),
        # The mean of the losses of equal parts is that of the whole only where parts have equal
        # counts.
        "accumulation": ("1",),
        # On the device all crops of a batch get one size.
        "decode": ("cpu", "cpu-uint8", "cache"),
    }
}
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
    counted = getattr(changed.dataset, "counted", "lengths")
    if counted not in ("lengths", "samples"):
        raise Refused(
            f"`counted` of the data set is {counted!r}, and lengths or samples is needed."
        )
    if hasattr(changed.dataset, "collate"):
        raise Refused(
            "lengths=real pads batches itself, and the data set has a collate of its own."
        )
    return replace(changed, cycle=CYCLE)
