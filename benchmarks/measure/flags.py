"""Puts every setting that changes speed in force, and names each one."""

from __future__ import annotations

import gc
import multiprocessing

import torch

from benchmarks.workload import Recipe


def put_in_force(recipe: Recipe) -> dict[str, str]:
    """Set torch's global flags for ``recipe`` and say what was set, as ``flag.`` facts.

    Nothing is left to a default that a library upgrade could change in silence.
    """
    torch.backends.cuda.matmul.allow_tf32 = recipe.tf32
    torch.backends.cudnn.allow_tf32 = recipe.tf32
    torch.backends.cudnn.benchmark = recipe.cudnn_benchmark
    torch.backends.cudnn.deterministic = False
    torch.use_deterministic_algorithms(mode=False)
    return {f"flag.{name}": str(value).lower() for name, value in _flags(recipe).items()}


def _flags(recipe: Recipe) -> dict[str, object]:
    compiled = recipe.compile_options
    return {
        "tf32_matmul": recipe.tf32,
        "tf32_cudnn": recipe.tf32,
        "cudnn_benchmark": recipe.cudnn_benchmark,
        "cudnn_deterministic": False,
        "deterministic_algorithms": False,
        "autocast": recipe.autocast or "off",
        "grad_scaler": recipe.scale_gradients,
        "memory_format": recipe.memory_format,
        "compile": (compiled or {}).get("mode", "off"),
        "non_blocking": recipe.non_blocking,
        "zero_grad": "set_to_none",
        "torch_threads": torch.get_num_threads(),
        "gc_in_timed_passes": False,
        "loader.start_method": multiprocessing.get_start_method(),
        **{f"optimizer.{name}": value for name, value in recipe.optimizer_options.items()},
        **{f"loader.{name}": value for name, value in recipe.loader_options.items()},
    }


class QuietCollector:
    """Keeps Python's garbage collector out of a timed pass."""

    def __enter__(self) -> None:
        gc.collect()
        gc.freeze()
        gc.disable()

    def __exit__(self, *exc: object) -> None:
        gc.enable()
        gc.unfreeze()
