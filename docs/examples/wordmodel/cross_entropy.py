"""Cross entropy over a large vocabulary as one operator: Triton on a GPU, PyTorch on a CPU.

PyTorch's own writes the logarithms of all probabilities, and in half precision fp32 copies of the
logits as well. This one keeps a number for each row, and computes in fp32 without writing it.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor
from torch.library import custom_op, register_autograd, register_fake

LIBRARY = "wordmodel"


@custom_op(f"{LIBRARY}::cross_entropy", mutates_args=(), device_types="cpu")
def loss_of_rows(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Loss and logarithm of the sum of exponentials of each row, from [N, V] and int64 [N]."""
    wide = logits.to(_accumulated(logits))
    sums = wide.logsumexp(1)
    return sums - wide.gather(1, targets[:, None])[:, 0], sums


@custom_op(f"{LIBRARY}::cross_entropy_gradient", mutates_args=(), device_types="cpu")
def gradient_of_logits(gradient: Tensor, logits: Tensor, targets: Tensor, sums: Tensor) -> Tensor:
    """Gradient of the logits, [N, V], from that of each row's loss, [N]."""
    probabilities = (logits.to(sums.dtype) - sums[:, None]).exp()
    target = torch.zeros_like(probabilities).scatter_(1, targets[:, None], 1.0)
    return ((probabilities - target) * gradient[:, None]).to(logits.dtype)


def _accumulated(logits: Tensor) -> torch.dtype:
    return torch.promote_types(logits.dtype, torch.float32)


def describe(library: str) -> None:
    """Tell torch the shapes that the two operators of a library give, and their derivative."""
    loss_of_rows = f"{library}::cross_entropy"
    gradient_of_logits = f"{library}::cross_entropy_gradient"

    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor, None]:
        operator = getattr(torch.ops, library).cross_entropy_gradient
        return operator(gradient, *ctx.saved_tensors), None

    register_fake(loss_of_rows, _rows)
    register_fake(gradient_of_logits, lambda _, logits, *__: torch.empty_like(logits))
    register_autograd(loss_of_rows, backward, setup_context=_keep)


def _rows(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ARG001
    row = logits.new_empty(logits.shape[0], dtype=_accumulated(logits))
    return row, torch.empty_like(row)


def _keep(ctx: Any, inputs: tuple[Tensor, Tensor], output: tuple[Tensor, Tensor]) -> None:
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(*inputs, output[1])


describe(LIBRARY)

if find_spec("triton") is not None:
    from wordmodel import triton_kernels

    # With TRITON_INTERPRET=1 Triton runs its kernels on a CPU: slowly, for their numbers.
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    devices = ("cuda", "cpu") if interpreted else "cuda"
    loss_of_rows.register_kernel(devices, triton_kernels.loss_of_rows)
    gradient_of_logits.register_kernel(devices, triton_kernels.gradient_of_logits)


def cross_entropy(logits: Tensor, targets: Tensor, library: str = LIBRARY) -> Tensor:
    """Mean loss of logits [N, V] against the words [N] that follow, by a library's operators."""
    losses: Tensor = getattr(torch.ops, library).cross_entropy(logits, targets)[0]
    return losses.mean()
