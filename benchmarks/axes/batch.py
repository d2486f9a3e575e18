"""Samples per optimizer step. A batch that does not fit is reported, never made smaller."""

from dataclasses import replace

from benchmarks.workload import Recipe

ROLE = "input"
DEFAULT = "preset"
VALUES = {"preset": "as the workload's preset says"}
PATTERN = "[1-9][0-9]{0,5}"


def apply(value: str, recipe: Recipe) -> Recipe:
    """Replace the preset's batch."""
    return recipe if value == "preset" else replace(recipe, batch=int(value))
