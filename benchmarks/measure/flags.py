"""Puts every setting that changes speed in force, and names each one."""

from __future__ import annotations

import gc
import multiprocessing
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from benchmarks.measure import flex
from benchmarks.workload import Recipe

_SDP: Any = torch.backends.cuda  # half of these functions come without types
_ATTENTION = {
    "math": _SDP.enable_math_sdp,
    "flash": _SDP.enable_flash_sdp,
    "efficient": _SDP.enable_mem_efficient_sdp,
    "cudnn": _SDP.enable_cudnn_sdp,
}
"""Switches of each `scaled_dot_product_attention` kernel, for the whole process."""
_ATTENTION_BY_DEFAULT: dict[str, bool] = {
    "math": _SDP.math_sdp_enabled(),
    "flash": _SDP.flash_sdp_enabled(),
    "efficient": _SDP.mem_efficient_sdp_enabled(),
    "cudnn": _SDP.cudnn_sdp_enabled(),
}
"""As torch came."""
_TRACED = ("attention", "autocast", "float8", "checkpointing", "tf32_matmul", "memory_format")
"""The flags that change the compiled code."""
_COMPILER: Any = torch.compiler.config
_TAG: str = _COMPILER.cache_key_tag
"""As the environment set it."""


def put_in_force(recipe: Recipe) -> dict[str, str]:
    """Set torch's global flags for ``recipe`` and say what was set, as ``flag.`` facts.

    Nothing is left to a default that a library upgrade could change in silence.
    """
    torch.backends.cuda.matmul.allow_tf32 = recipe.tf32
    torch.backends.cudnn.allow_tf32 = recipe.tf32
    torch.backends.cudnn.benchmark = recipe.cudnn_benchmark
    torch.backends.cudnn.deterministic = False
    if torch.are_deterministic_algorithms_enabled():  # the call itself loads all of the compiler
        torch.use_deterministic_algorithms(mode=False)
    for name, allow in _ATTENTION.items():
        alone = recipe.attention in _ATTENTION
        allow(name == recipe.attention if alone else _ATTENTION_BY_DEFAULT[name])
    if recipe.allocator:
        _set_allocator(recipe.allocator)
    flex.put_in_place(enabled=recipe.attention == "flex")
    facts = {f"flag.{name}": str(value).lower() for name, value in _flags(recipe).items()}
    _keep_compiled_code_apart(facts)
    return facts


def _set_allocator(settings: str) -> None:
    """Change torch's CUDA allocator; memory that it holds already stays as it is."""
    newer = getattr(torch._C, "_accelerator_setAllocatorSettings", None)
    change: Any = newer or torch.cuda.memory._set_allocator_settings  # which 2.13 deprecates
    change(settings)


def _keep_compiled_code_apart(facts: Mapping[str, str]) -> None:
    traced = " ".join(f"{name}={facts[f'flag.{name}']}" for name in _TRACED)
    _COMPILER.cache_key_tag = f"{_TAG} {traced}".strip()


def _flags(recipe: Recipe) -> dict[str, object]:
    compiled = recipe.compile_options
    return {
        "tf32_matmul": recipe.tf32,
        "tf32_cudnn": recipe.tf32,
        "cudnn_benchmark": recipe.cudnn_benchmark,
        "cudnn_deterministic": False,
        "deterministic_algorithms": False,
        "autocast": recipe.autocast or "off",
        "float8": recipe.float8,
        "grad_scaler": recipe.scale_gradients,
        "memory_format": recipe.memory_format,
        "compile": (compiled or {}).get("mode", "off"),
        "non_blocking": recipe.non_blocking,
        "zero_grad": "zeros" if recipe.keep_gradients else "set_to_none",
        "attention": recipe.attention,
        "checkpointing": recipe.checkpointing,
        "accumulation": recipe.accumulation,
        "batch": recipe.batch,
        "graphs": recipe.graphs,
        "prefetch": recipe.prefetch,
        "allocator": recipe.allocator or "default",
        "torch_threads": torch.get_num_threads(),
        "gc_in_timed_passes": recipe.collect_garbage,
        "loader.start_method": multiprocessing.get_start_method(),
        **{f"optimizer.{name}": value for name, value in recipe.optimizer_options.items()},
        **{f"loader.{name}": value for name, value in recipe.loader_options.items()},
    }


@contextmanager
def collector(recipe: Recipe) -> Iterator[None]:
    """Begin a pass without garbage, and collect none in it unless ``recipe`` says so."""
    gc.collect()
    if recipe.collect_garbage:
        yield
        return
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()
