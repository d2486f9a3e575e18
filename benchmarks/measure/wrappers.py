"""Shares a model and its gradients among the ranks of a gang.

Most of torch.distributed is imported where it is used: it takes seconds to load.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from benchmarks.measure.checkpointing import outermost
from benchmarks.workload import Recipe


def shared(recipe: Recipe, model: nn.Module, device: torch.device) -> tuple[nn.Module, nn.Module]:
    """Share ``model`` among the ranks as the recipe says.

    Returns:
        The module that holds this rank's weights, and the one that its loss calls.
    """
    match recipe.parallel:
        case "ddp":
            return model, _replicated(recipe, model, device)
        case "fsdp2":
            from torch.distributed.fsdp import fully_shard  # noqa: PLC0415

            for part in (*outermost(model, recipe.blocks), model):
                # As torch has it: the root's own weights are needed again at once.
                again = None if recipe.reshard else False
                fully_shard(part, reshard_after_forward=again)
        case "tp":
            from torch.distributed.device_mesh import init_device_mesh  # noqa: PLC0415

            assert recipe.tensor_parallel is not None
            recipe.tensor_parallel(model, init_device_mesh(device.type, (recipe.gpus,)))
        case "pp":
            assert recipe.stage is not None
            model = recipe.stage(model, dist.get_rank(), recipe.gpus)
    return model, model


def _replicated(recipe: Recipe, model: nn.Module, device: torch.device) -> nn.Module:
    bucket_mb = recipe.bucket_mb
    if not recipe.overlap:
        torch._dynamo.config.optimize_ddp = False
        sizes = (weight.numel() * weight.element_size() for weight in model.parameters())
        bucket_mb = sum(sizes) // 2**20 + 1
    devices = None if device.type == "cpu" else [device]
    return DistributedDataParallel(model, devices, bucket_cap_mb=bucket_mb)


def exchanging(parallel: str, model: Any, *, last: bool) -> AbstractContextManager[None]:
    """Exchange gradients only in the ``last`` part of a batch, as everybody does."""
    if parallel == "fsdp2":
        model.set_requires_gradient_sync(last)
    if parallel == "ddp" and not last:
        without: AbstractContextManager[None] = model.no_sync()
        return without
    return nullcontext()


def around_gradients(parallel: str) -> AbstractContextManager[None]:
    """Keep the logits of `parallel=tp` shared from the forward pass to the backward pass."""
    if parallel != "tp":
        return nullcontext()
    from torch.distributed.tensor.parallel import loss_parallel  # noqa: PLC0415

    return loss_parallel()


def own(tensor: Tensor) -> Tensor:
    """Return this rank's share of ``tensor``: all of it, if it is not shared."""
    share: Tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return share
