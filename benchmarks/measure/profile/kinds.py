"""The kind of work of a kernel, by the operators that launched it and its own name. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

OPTIMIZER = "Optimizer.step"
"""Prefix of the annotation that every torch optimizer puts around its step."""

_COMMUNICATION = re.compile(r"nccl|c10d|all_?reduce|all_?gather|reduce_?scatter", re.IGNORECASE)
_MEMORY = re.compile(r"^(memcpy|memset)", re.IGNORECASE)
_OPERATORS = (
    ("attention", re.compile(r"attention|flex_attn")),
    ("conv", re.compile(r"convolution|::_?conv(\d|_|$)")),
    ("norm", re.compile(r"(batch|layer|group|instance|rms)_?norm|cudnn_batch_norm")),
    ("gemm", re.compile(r"::(_?(add|ba)?(dd)?b?mm|matmul|linear|_?scaled_mm|addmv|mv|dot)(_|$)")),
)
"""Tried in this order: attention contains products, and convolution contains gemm."""
_KERNELS = (
    ("attention", re.compile(r"flash|fmha|attention|sdpa|dot_do_o|convert_dq", re.IGNORECASE)),
    ("conv", re.compile(r"conv(?!ert)|fprop|dgrad|wgrad|winograd", re.IGNORECASE)),
    ("norm", re.compile(r"norm(?!al)|bn_[fb]w|_bn_", re.IGNORECASE)),
    ("gemm", re.compile(r"gemm|gemv|nvjet|xmma|cutlass|_mm_|cublas", re.IGNORECASE)),
    ("memcpy", re.compile(r"copy_kernel|CatArray|direct_copy", re.IGNORECASE)),
    ("pointwise", re.compile(r"elementwise|reduce|softmax|triton_|vectorized|scan|index|dropout")),
)
COPIES = {"aten::copy_", "aten::clone", "aten::contiguous", "aten::cat", "aten::_to_copy"}


def kind_of(name: str, stack: Sequence[str] = ()) -> str:
    """The kind of the kernel ``name``, or of an operator of a CPU.

    ``stack`` are the operators and annotations around it, the outermost first.
    """
    if _COMMUNICATION.search(name):
        return "communication"
    if any(entry.startswith(OPTIMIZER) for entry in stack):
        return "optimizer"
    if _MEMORY.match(name):
        return "memcpy"
    operators = [entry for entry in (*stack, name) if "::" in entry and " " not in entry]
    innermost = operators[-1] if operators else ""
    if innermost in COPIES:  # such as into a convolution's own layout
        return "memcpy"
    known = _first(_OPERATORS, reversed(operators)) or _first(_KERNELS, (name,))
    if known:
        return known
    return "pointwise" if innermost.startswith("aten::") else "other"


def _first(rules: Sequence[tuple[str, re.Pattern[str]]], names: Iterable[str]) -> str:
    matches = (kind for name in names for kind, pattern in rules if pattern.search(name))
    return next(matches, "")
