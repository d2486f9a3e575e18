"""Linear layers in 8-bit floats, forward and backward; everything else stays as autocast has it.

Dynamic scaling by tensor, as torchao and NVIDIA's Transformer Engine begin: each operand is scaled
so that its largest value is the largest of the format, E4M3 forward and E5M2 for gradients
(Micikevicius et al. 2022, https://arxiv.org/abs/2209.05433). Weights and optimizer state stay fp32.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.catalog.catalog import Refused

FORWARD = torch.float8_e4m3fn
GRADIENT = torch.float8_e5m2
MULTIPLE = 16
"""What the sizes of a product in fp8 must be multiples of."""


def use_float8(model: nn.Module) -> None:
    """Let every eligible linear layer of ``model`` compute in fp8; a second call changes nothing.

    A head that shares its weight with an embedding is left out, as is usual in training.

    Raises:
        Refused: no layer is eligible.
    """
    layers = eligible(model)
    if not layers:
        raise Refused(
            f"precision=fp8 needs linear layers whose sizes are multiples of {MULTIPLE}, and this "
            "workload has none."
        )
    for layer in layers:
        if "forward" not in vars(layer):
            layer.forward = partial(linear, layer)  # type: ignore[method-assign]


def eligible(model: nn.Module) -> list[nn.Linear]:
    """Linear layers whose sizes fit and whose weight is no embedding."""
    embeddings = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    return [
        layer
        for layer in model.modules()
        if isinstance(layer, nn.Linear)
        and layer.in_features % MULTIPLE == 0
        and layer.out_features % MULTIPLE == 0
        and id(layer.weight) not in embeddings
    ]


def linear(layer: nn.Linear, x: Tensor) -> Tensor:
    """Apply ``layer`` to x [..., in] in fp8; return bfloat16 [..., out]."""
    flat = x.reshape(-1, x.shape[-1])
    product: Tensor = _Product.apply(flat, layer.weight)  # type: ignore[no-untyped-call]
    mixed = product.reshape(*x.shape[:-1], layer.out_features)
    return mixed if layer.bias is None else mixed + layer.bias.to(mixed.dtype)


def scaled(values: Tensor, form: torch.dtype) -> tuple[Tensor, Tensor]:
    """``values`` in 8 bits, and the float32 factor that gives them their size back."""
    most = torch.finfo(form).max
    largest = values.abs().amax().float().clamp(min=1e-12)
    return (values * (most / largest)).clamp(-most, most).to(form), largest / most


class _Product(torch.autograd.Function):
    """x [M, K] times weight [N, K] transposed."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        x8, x_scale = scaled(x, FORWARD)
        w8, w_scale = scaled(weight, FORWARD)
        ctx.save_for_backward(x8, x_scale, w8, w_scale)
        ctx.forms = x.dtype, weight.dtype
        return multiplied(x8, w8.t(), x_scale, w_scale, fast=True)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        x8, x_scale, w8, w_scale = ctx.saved_tensors
        g8, g_scale = scaled(gradients[0], GRADIENT)
        x_form, weight_form = ctx.forms
        # The second operand must lie column by column in memory: a copy of single bytes.
        of_x = multiplied(g8, _by_columns(w8), g_scale, w_scale, fast=False)
        turned = g8.t().contiguous()
        of_weight = multiplied(turned, _by_columns(x8), g_scale, x_scale, fast=False)
        return of_x.to(x_form), of_weight.to(weight_form)


def _by_columns(matrix: Tensor) -> Tensor:
    return matrix.t().contiguous().t()


def multiplied(a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor, *, fast: bool) -> Tensor:
    """Multiply a [M, K] by b [K, N], both in 8 bits; return bfloat16 [M, N]."""
    return torch._scaled_mm(
        a, b, scale_a=a_scale, scale_b=b_scale, out_dtype=torch.bfloat16, use_fast_accum=fast
    )
