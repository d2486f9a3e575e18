"""The speed of a node at fixed work, just before it measured."""

from __future__ import annotations

from pydantic import Field

from benchmarks.contracts.values import Contract, Line, Moment, Name, Number

PRODUCTS = {
    "bf16": "gemm_flop_s",
    "fp16": "gemm_fp16_flop_s",
    "tf32": "gemm_tf32_flop_s",
    "fp32": "gemm_fp32_flop_s",
    "fp8": "gemm_fp8_flop_s",
}
"""Names of a GPU's readings of matrix products, by their arithmetic."""


class Canary(Contract):
    """Fixed pieces of work that no change of a model slows down: if they move, the node did."""

    measured_at: Moment
    readings: dict[Name, Number] = Field(max_length=64)
    """`PRODUCTS` (on a CPU ``gemm_flop_s``, in fp32), ``copy_b_s``, ``h2d_pinned_b_s``,
    ``h2d_pageable_b_s``, ``launch_s``, ``python_s``; of a worker with several devices
    ``all_reduce_1mib_b_s``, ``..32mib..``, ``..1gib..``, ``point_to_point_b_s``: rates in 1/s,
    times in s; what the device does not have is left out."""
    facts: dict[Name, Line] = Field(default_factory=dict, max_length=16)
    """Facts of several GPUs: ``nccl`` (version), ``nccl_nvls_enable``, ``topology``."""
    moved: dict[Name, Number] = Field(default_factory=dict, max_length=64)
    """Readings that left the node's own median, with the relative difference."""
