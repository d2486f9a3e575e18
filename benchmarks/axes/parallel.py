"""Wraps the model of each rank of a gang; with `gpus=1` it shows what the wrapper alone costs.

DistributedDataParallel is torch's own with its defaults: 25 MiB buckets, and rank 0's buffers (of
batch norm) sent to all before each forward pass.
"""

from dataclasses import replace

from benchmarks.workload import Recipe

ROLE = "devices"
DEFAULT = "none"
VALUES = {
    "none": "one process without a wrapper",
    "ddp": "each rank has the whole model; gradients are averaged in the backward pass",
}
NEEDS = {
    "ddp": {
        # A captured graph would hold the collectives, which has not been tried.
        "graphs": ("off",),
        # Ranks would wait for the one with the longest samples.
        "lengths": ("preset",),
    }
}


def apply(value: str, recipe: Recipe) -> Recipe:
    """Wrap the model or not."""
    return replace(recipe, parallel=value)
