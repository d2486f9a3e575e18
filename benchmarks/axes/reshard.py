"""Gives weights back between forward and backward with `parallel=fsdp2`, or keeps them."""

from dataclasses import replace

from benchmarks.workload import Recipe

ROLE = "devices"
DEFAULT = "on"
VALUES = {
    "on": "given back, and fetched again for the backward pass",
    "off": "kept until the backward pass: more memory, less transfer",
}
NEEDS = {"off": {"parallel": ("fsdp2",)}}


def apply(value: str, recipe: Recipe) -> Recipe:
    """Give weights back or keep them."""
    return replace(recipe, reshard=value == "on")
