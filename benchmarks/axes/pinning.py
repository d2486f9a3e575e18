"""Page-locked host memory for batches, which lets copies run beside the computation."""

from dataclasses import replace

from benchmarks.workload import Recipe

ROLE = "input"
DEFAULT = "off"
VALUES = {
    "off": "pageable batches, blocking copies",
    "on": "pinned batches, non_blocking copies",
}
NEEDS = {"on": {"device": ("cuda",)}}


def apply(value: str, recipe: Recipe) -> Recipe:
    """Pin what the loader yields and copy it without waiting."""
    if value == "off":
        return recipe
    options = {**recipe.loader_options, "pin_memory": True}
    return replace(recipe, loader_options=options, non_blocking=True)
