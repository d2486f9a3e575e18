"""FlexAttention in the place of `scaled_dot_product_attention`, for models that do not know of it.

torch compiles `flex_attention` into one kernel for the shape and the mask at hand; uncompiled it
writes out every score. So it is compiled here, also in a case that compiles nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from benchmarks.catalog.catalog import Refused

_plain: Callable[..., Tensor] = functional.scaled_dot_product_attention


def put_in_place(*, enabled: bool) -> None:
    """Replace `F.scaled_dot_product_attention` by FlexAttention for later calls, or undo that.

    A module that imported the function by name keeps torch's own.
    """
    functional.scaled_dot_product_attention = _attend if enabled else _plain


def forget_shapes() -> None:
    """Reset the compiler's count of shapes, if FlexAttention is used: it gives up after eight."""
    if functional.scaled_dot_product_attention is _attend:
        torch._dynamo.reset()


def _attend(  # noqa: PLR0913, PLR0917 - torch's own signature
    query: Tensor,  # [B, heads, T, width]
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Compute what `scaled_dot_product_attention` computes, where FlexAttention can."""
    if attn_mask is not None or dropout_p:
        raise Refused("attention=flex takes causal and full attention, without mask and dropout.")
    query, key, value = _cast(query), _cast(key), _cast(value)
    mask = _mask(query.shape[-2], key.shape[-2], query.device) if is_causal else None
    attended: Tensor = _kernel()(
        query, key, value, block_mask=mask, scale=scale, enable_gqa=enable_gqa
    )
    return attended


def _cast(tensor: Tensor) -> Tensor:
    kind = tensor.device.type
    return tensor.to(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else tensor


def _mask(queries: int, keys: int, device: torch.device) -> BlockMask:
    make = _blocks if torch.compiler.is_compiling() else _kept_blocks
    return make(queries, keys, device)


def _blocks(queries: int, keys: int, device: torch.device) -> BlockMask:
    return create_block_mask(_causal, None, None, queries, keys, device=device)


_kept_blocks = cache(_blocks)


def _causal(_batch: Tensor, _head: Tensor, query: Tensor, key: Tensor) -> Tensor:
    return query >= key


def _kernel() -> Callable[..., Any]:
    if torch.compiler.is_compiling():
        return flex_attention
    return _compiled()


@cache
def _compiled() -> Callable[..., Any]:
    # fullgraph: otherwise a part that the compiler gives up on would run as the formula, silently.
    return torch.compile(flex_attention, dynamic=False, fullgraph=True)
