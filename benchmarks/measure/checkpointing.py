"""Activation checkpointing through a model's own blocks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from torch import nn
from torch.utils.checkpoint import checkpoint

from benchmarks.catalog.catalog import Refused


def recompute(model: nn.Module, blocks: tuple[type[nn.Module], ...]) -> None:
    """Let each outermost block of ``model`` keep its input only; a second call changes nothing.

    Parameters, buffers and their names stay as they are.

    Raises:
        Refused: the model has no such block.
    """
    outer_blocks = list(outermost(model, blocks))
    if not outer_blocks:
        raise Refused(
            "checkpointing=blocks needs a workload that names its blocks (Recipe.blocks), and "
            "this one names none."
        )
    for block in outer_blocks:
        if "forward" not in vars(block):
            block.forward = partial(checkpoint, block.forward, use_reentrant=False)


def outermost(model: nn.Module, blocks: tuple[type[nn.Module], ...]) -> Iterator[nn.Module]:
    """Blocks that lie in no other block, in the model's order."""
    for child in model.children():
        if isinstance(child, blocks):
            yield child
        else:
            yield from outermost(child, blocks)
