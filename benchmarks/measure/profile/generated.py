"""Reads what each kernel that Inductor wrote moves, from a trace that has shapes. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

_ELEMENTWISE = re.compile(r"triton_(poi|red|per)_fused_")
"""Kernels without matrix products: their traffic is what they are held against."""
_OVERWRITTEN = "in_out_ptr"
"""Prefix that Inductor gives to an argument which a kernel reads and writes."""
_SIZES_B: Mapping[str, tuple[int, str]] = {
    "double": (8, "fp64"),
    "float": (4, "fp32"),
    "c10::Half": (2, "fp16"),
    "c10::BFloat16": (2, "bf16"),
    "c10::Float8_e4m3fn": (1, "fp8"),
    "c10::Float8_e5m2": (1, "fp8"),
    "long int": (8, ""),
    "int": (4, ""),
    "short int": (2, ""),
    "signed char": (1, ""),
    "unsigned char": (1, ""),
    "bool": (1, ""),
}
"""Bytes of an element by the profiler's name of its type, and the arithmetic of floating ones."""


@dataclass(frozen=True)
class Traffic:
    """The least that one call of a kernel moves."""

    moved_b: float
    """Bytes, if each of its arguments is read or written once, or both where it is overwritten."""
    arithmetic: str
    """The floating type that moves most bytes, such as ``bf16``."""


def traffic(
    events: Iterable[Mapping[str, Any]], arguments: Mapping[str, Sequence[str]]
) -> dict[str, Traffic]:
    """Return the mean traffic of a call of each generated kernel by its name.

    ``arguments`` are the names of a kernel's arguments; one that they lack is left out, as they
    tell what it overwrites.
    """
    calls: dict[str, list[dict[str, float]]] = defaultdict(list)
    for event in events:
        name = str(event.get("name"))
        if event.get("cat") == "cpu_op" and _ELEMENTWISE.match(name) and name in arguments:
            moved: dict[str, float] = defaultdict(float)
            for arithmetic, size_b in _sizes(event.get("args", {}), arguments[name]):
                moved[arithmetic] += size_b
            calls[name].append(moved)
    return {name: _mean(of_calls) for name, of_calls in calls.items() if any(of_calls)}


def _mean(calls: list[dict[str, float]]) -> Traffic:
    total: dict[str, float] = defaultdict(float)
    for moved in calls:
        for arithmetic, size_b in moved.items():
            total[arithmetic] += size_b
    floating = {name: size_b for name, size_b in total.items() if name}
    most = max(floating, key=floating.__getitem__, default="fp32")
    return Traffic(sum(total.values()) / len(calls), most)


def _sizes(args: Mapping[str, Any], names: Sequence[str]) -> Iterator[tuple[str, float]]:
    """Arithmetic and bytes of each tensor; numbers have a type and no strides."""
    types, dims = args.get("Input type", ()), args.get("Input Dims", ())
    strides = args.get("Input Strides", dims)
    for name, type_, sizes, steps in zip(names, types, dims, strides, strict=False):
        if type_ in _SIZES_B and sizes:
            size_b, arithmetic = _SIZES_B[type_]
            own = (n for n, step in zip(sizes, steps, strict=False) if step)  # not the repeated
            ways = 2 if name.startswith(_OVERWRITTEN) else 1
            yield arithmetic, float(prod(own) * size_b * ways)
