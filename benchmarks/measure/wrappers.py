"""What a model is wrapped in where several ranks train it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def _as_it_is(model: nn.Module, device: torch.device) -> nn.Module:  # noqa: ARG001
    return model


def _replicated(model: nn.Module, device: torch.device) -> nn.Module:
    return DistributedDataParallel(model, None if device.type == "cpu" else [device])


WRAPPERS: Mapping[str, Callable[[nn.Module, torch.device], nn.Module]] = {
    "none": _as_it_is,
    "ddp": _replicated,
}
"""By value of the axis `parallel`."""


def wrapped(parallel: str, model: nn.Module, device: torch.device) -> nn.Module:
    """Wrap ``model`` as the axis says; its parameters stay the same objects."""
    return WRAPPERS[parallel](model, device)


def exchanging(model: nn.Module, *, last: bool) -> AbstractContextManager[None]:
    """Exchange gradients only in the ``last`` part of a batch, as everybody does."""
    if last or not isinstance(model, DistributedDataParallel):
        return nullcontext()
    return model.no_sync()
