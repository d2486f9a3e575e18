"""The best rates of GPUs: one table of dense peaks by dtype, and of memory bandwidth.

A row is matched on the name, the number of SMs and, where the driver tells it, the width of the
memory bus, so that a MIG slice, a cut-down board or a namesake finds no row: no utilisation is
better than a wrong one. Nominal rates are the makers', without sparsity; achievable ones were
measured by us on such a device and are left out where we had none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Peak:
    """One kind of board."""

    device: str
    names: tuple[str, ...]
    """As the driver tells it, word for word."""
    sm_count: int
    bus_bits: int
    """Width of the memory bus."""
    flop_per_s: Mapping[str, float]
    """Nominal dense peak by dtype, with fp32 accumulation."""
    flop_per_clock: Mapping[str, int]
    """The same of one SM and one clock."""
    bandwidth: float
    """Nominal, in B/s."""
    source: str
    achievable: Mapping[str, float] = field(default_factory=dict)
    """FLOP/s that a large matrix product was measured to reach."""
    achievable_bandwidth: float | None = None
    """B/s, read and written, that a device-to-device copy was measured to reach."""


def _tera(**rates: float) -> dict[str, float]:
    return {dtype: rate * 1e12 for dtype, rate in rates.items()}


_HOPPER = {"fp32": 256, "tf32": 2048, "bf16": 4096, "fp16": 4096, "fp8": 8192}
_AMPERE = {"fp32": 128, "tf32": 1024, "bf16": 2048, "fp16": 2048}
_A100 = _tera(fp32=19.5, tf32=156.0, bf16=312.0, fp16=312.0)
_A100_SHEET = "NVIDIA A100 Tensor Core GPU data sheet (nvidia-us-2188504), 2022"

PEAKS = (
    Peak(
        "NVIDIA H200 SXM",
        ("NVIDIA H200",),
        132,
        6016,  # of the 6,144 of six stacks; with 6.4 Gbit/s a pin these are the 4.8 TB/s
        _tera(fp32=67.0, tf32=494.7, bf16=989.5, fp16=989.5, fp8=1979.0),
        _HOPPER,
        4.8e12,
        "NVIDIA H200 Tensor Core GPU data sheet, 2024; its sparse rates halved",
        achievable=_tera(fp32=51.0, tf32=381.0, bf16=802.0, fp16=768.0),
        achievable_bandwidth=4.28e12,
    ),
    Peak(
        "NVIDIA H100 SXM",
        ("NVIDIA H100 80GB HBM3",),
        132,
        5120,
        _tera(fp32=67.0, tf32=494.7, bf16=989.5, fp16=989.5, fp8=1979.0),
        _HOPPER,
        3.35e12,
        "NVIDIA H100 Tensor Core GPU data sheet, 2023; its sparse rates halved",
    ),
    Peak(
        "NVIDIA H100 PCIe",
        ("NVIDIA H100 PCIe",),
        114,
        5120,
        _tera(fp32=51.0, tf32=378.0, bf16=756.0, fp16=756.0, fp8=1513.0),
        _HOPPER,
        2.0e12,
        "NVIDIA H100 Tensor Core GPU data sheet, 2022; its sparse rates halved",
    ),
    *(
        Peak(f"NVIDIA A100 {board}", (name,), 108, 5120, _A100, _AMPERE, bandwidth, _A100_SHEET)
        for board, name, bandwidth in (
            ("SXM 80 GB", "NVIDIA A100-SXM4-80GB", 2.039e12),
            ("SXM 40 GB", "NVIDIA A100-SXM4-40GB", 1.555e12),
            ("PCIe 80 GB", "NVIDIA A100 80GB PCIe", 1.935e12),
            ("PCIe 40 GB", "NVIDIA A100-PCIE-40GB", 1.555e12),
        )
    ),
)


def match(facts: Mapping[str, str]) -> Peak | None:
    """The row of the GPU that an environment's facts describe; None if none matches surely."""
    bus = facts.get("hw.gpu.memory_bus_bits", "")
    for row in PEAKS:
        named = facts.get("hw.gpu.name") in row.names
        if named and facts.get("hw.gpu.sm_count") == str(row.sm_count) and _same(bus, row.bus_bits):
            return row
    return None


def _same(fact: str, bits: int) -> bool:
    return not fact or fact == str(bits)


def why_none(facts: Mapping[str, str]) -> str:
    """One sentence about a device without a row."""
    if facts.get("hw.device") != "cuda":
        return "Measured on a CPU, which has no peak in the table."
    return f"{_not_in_table(facts)}, so its utilisation is not known."


def held_to_canary(facts: Mapping[str, str]) -> str:
    """One sentence about a GPU without a row whose canary was taken."""
    return (
        f"{_not_in_table(facts)}, so its speed is held to the matrix product and the copy that its "
        "own canary measured."
    )


def _not_in_table(facts: Mapping[str, str]) -> str:
    name, count = facts.get("hw.gpu.name", "an unnamed GPU"), facts.get("hw.gpu.sm_count", "?")
    where = "benchmarks/diagnosis/peaks.py"
    return f"{name} with {count} SMs is not in the table of peaks ({where})"


def dtype(facts: Mapping[str, str]) -> str:
    """Arithmetic of the matrix products, from the flags that the measurement put in force."""
    if facts.get("flag.float8") == "true":
        return "fp8"
    autocast = facts.get("flag.autocast", "off")
    if autocast == "torch.bfloat16":
        return "bf16"
    if autocast == "torch.float16":
        return "fp16"
    return "tf32" if facts.get("flag.tf32_matmul") == "true" else "fp32"
