"""The operator's two kernels in Triton. Both read the logits in their own precision."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 2048
"""Columns that a program holds at a time."""


@triton.jit
def loss_kernel(logits, targets, losses, sums, columns, block: tl.constexpr):
    """One row's loss and logarithm of the sum of exponentials, read once."""
    row = tl.program_id(0).to(tl.int64)
    top = float("-inf")  # the largest logit so far, so that no exponential overflows
    total = 0.0
    for first in range(0, columns, block):
        column = first + tl.arange(0, block)
        x = tl.load(logits + row * columns + column, mask=column < columns, other=float("-inf"))
        x = x.to(tl.float32)
        larger = tl.maximum(top, tl.max(x, axis=0))
        total = total * tl.exp(top - larger) + tl.sum(tl.exp(x - larger), axis=0)
        top = larger
    logarithm = top + tl.log(total)
    target = tl.load(logits + row * columns + tl.load(targets + row)).to(tl.float32)
    tl.store(losses + row, logarithm - target)
    tl.store(sums + row, logarithm)


@triton.jit
def gradient_kernel(gradient, logits, targets, sums, gradients, columns, block: tl.constexpr):
    """The gradient of one block of a row: probabilities, less one at the target."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * block + tl.arange(0, block)
    inside = column < columns
    x = tl.load(logits + row * columns + column, mask=inside, other=0.0).to(tl.float32)
    probability = tl.exp(x - tl.load(sums + row))
    at_target = column == tl.load(targets + row)
    slope = (probability - at_target.to(tl.float32)) * tl.load(gradient + row)
    place = gradients + row * columns + column
    tl.store(place, slope.to(gradients.dtype.element_ty), mask=inside)


def loss_of_rows(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Loss and logarithm of the sum of exponentials of each row, fp32, one program a row."""
    logits, (rows, columns) = logits.contiguous(), logits.shape
    losses = torch.empty(rows, dtype=torch.float32, device=logits.device)
    sums = torch.empty_like(losses)
    loss_kernel[rows,](logits, targets.contiguous(), losses, sums, columns, BLOCK)
    return losses, sums


def gradient_of_logits(gradient: Tensor, logits: Tensor, targets: Tensor, sums: Tensor) -> Tensor:
    """Gradient of the logits, one program a row and block."""
    logits, (rows, columns) = logits.contiguous(), logits.shape
    inputs = (gradient.contiguous(), logits, targets.contiguous(), sums)
    gradients = torch.empty_like(logits)
    gradient_kernel[rows, triton.cdiv(columns, BLOCK)](*inputs, gradients, columns, BLOCK)
    return gradients
