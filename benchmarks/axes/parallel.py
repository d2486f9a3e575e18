"""Shares a model among the ranks of a gang in torch's own ways; ddp of one GPU is its wrapper.

DistributedDataParallel has its defaults: rank 0's buffers (of batch norm) are sent to all before
each forward pass. The other ways leave each rank its own.
"""

from dataclasses import replace

from benchmarks.catalog.catalog import Refused
from benchmarks.workload import Recipe

ROLE = "devices"
DEFAULT = "none"
VALUES = {
    "none": "one process without a wrapper",
    "ddp": "each rank has the whole model; gradients are averaged in the backward pass",
    "fsdp2": "each rank keeps a share of every weight and fetches a block when it is its turn",
    "tp": "ranks share each layer and the tokens between layers; all have the same batch",
    "pp": "each rank has some of the layers; parts of a batch go from one to the next",
}
NEEDS = {
    "ddp": {
        # A captured graph would hold the collectives, which has not been tried.
        "graphs": ("off",),
        # Ranks would wait for the one with the longest samples.
        "lengths": ("preset",),
    },
    "fsdp2": {
        "graphs": ("off",),
        "lengths": ("preset",),
        # torch shards contiguous weights only.
        "layout": ("contiguous",),
        # A scaler, or a layer in fp8, looks at whole tensors.
        "precision": ("fp32", "tf32", "bf16"),
    },
    "tp": {
        "tensor_parallel": ("yes",),
        "gpus": ("2", "4", "8"),
        "graphs": ("off",),
        "lengths": ("preset",),
        "compile": ("off",),
        "precision": ("fp32", "tf32", "bf16"),
    },
    "pp": {
        "pipeline": ("yes",),
        "gpus": ("2", "4", "8"),
        "graphs": ("off",),
        "lengths": ("preset",),
        "compile": ("off",),
        "precision": ("fp32", "tf32", "bf16"),
        # Its micro-batches are the parts of a batch.
        "accumulation": ("1",),
    },
}


def apply(value: str, recipe: Recipe) -> Recipe:
    """Share the model or not.

    Raises:
        Refused: the recipe does not say how.
    """
    needed = {"tp": "tensor_parallel", "pp": "stage"}.get(value)
    if needed and getattr(recipe, needed) is None:
        raise Refused(f"parallel={value} needs a recipe with a function {needed}: it has none.")
    return replace(recipe, parallel=value)
