"""The speed of a node at fixed work, just before it measured."""

from __future__ import annotations

from pydantic import Field

from benchmarks.contracts.values import Contract, Moment, Name, Number


class Canary(Contract):
    """Fixed pieces of work that no change of a model slows down: if they move, the node did."""

    measured_at: Moment
    readings: dict[Name, Number] = Field(max_length=64)
    """``gemm_flop_s`` (in bf16; fp32 on a CPU), ``gemm_fp16_flop_s``, ``gemm_tf32_flop_s``,
    ``gemm_fp32_flop_s``, ``gemm_fp8_flop_s``, ``copy_b_s``, ``h2d_pinned_b_s``,
    ``h2d_pageable_b_s``, ``launch_s``, ``python_s``: rates in 1/s, times in s; what the device does
    not have is left out."""
    moved: dict[Name, Number] = Field(default_factory=dict, max_length=64)
    """Readings that left the node's own median, with the relative difference."""
