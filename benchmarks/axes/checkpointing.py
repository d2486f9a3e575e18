"""Activation checkpointing: less memory for one more forward pass through the blocks.

A block keeps its input only and is computed again in the backward pass (non-reentrant, through
each workload's own blocks). Batch norm then sees each batch twice, so that its running averages
move faster; the gradients are the same. The second pass is no work that throughput counts.
"""

from dataclasses import replace

from benchmarks.workload import Recipe

DEFAULT = "off"
VALUES = {
    "off": "every activation is kept for the backward pass",
    "blocks": "each block of the model keeps its input and is computed twice",
}


def apply(value: str, recipe: Recipe) -> Recipe:
    """Recompute the blocks or not."""
    return replace(recipe, checkpointing=value == "blocks")
