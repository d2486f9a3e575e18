"""Finds what differs in the environment between the last good and the first bad measurements.

A fact is a reason only if it holds still by itself. The rules name what does not, each with its
reason; whatever else comes up is kept out by varying within one side.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from enum import StrEnum
from itertools import combinations

from service.analysis.attribution.types import Evidence, Surrounded
from service.analysis.statement import Statement
from service.schemas.findings import Part, State, Strength


class FactGroup(StrEnum):
    """The kind of thing that a fact is about, as people name it."""

    DRIVER = "driver"
    DEVICE = "device settings"
    HARDWARE = "hardware"
    KERNEL = "kernel and system"
    CONTAINER = "container"
    PYTHON = "python"
    TORCH = "torch"
    CUDA = "cuda"
    PACKAGES = "packages"
    VARIABLES = "environment variables"
    DATA = "data"
    FLAGS = "settings in force"
    BENCHMARKS = "benchmark code"
    OTHER = "other"


_KNOWN = {
    "hw.gpu.driver": (FactGroup.DRIVER, "driver"),
    "hw.gpu.vbios": (FactGroup.DRIVER, "VBIOS"),
    "hw.gpu.power_limit_w": (FactGroup.DEVICE, "power limit (W)"),
    "hw.gpu.max_sm_clock_hz": (FactGroup.DEVICE, "highest SM clock (Hz)"),
    "hw.gpu.max_memory_clock_hz": (FactGroup.DEVICE, "highest memory clock (Hz)"),
    "hw.gpu.ecc": (FactGroup.DEVICE, "ECC"),
    "hw.gpu.mig": (FactGroup.DEVICE, "MIG"),
    "hw.gpu.pcie_generation": (FactGroup.DEVICE, "PCIe generation"),
    "hw.gpu.pcie_width": (FactGroup.DEVICE, "PCIe width"),
    "hw.cpu.governor": (FactGroup.KERNEL, "CPU governor"),
    "hw": (FactGroup.HARDWARE, ""),
    "sw.torch": (FactGroup.TORCH, "torch"),
    "sw.torch_git": (FactGroup.TORCH, "torch's commit"),
    "sw.package.triton": (FactGroup.TORCH, "triton"),
    "sw.package.pytorch-triton": (FactGroup.TORCH, "pytorch-triton"),
    "sw.cuda": (FactGroup.CUDA, "CUDA"),
    "sw.cudnn": (FactGroup.CUDA, "cuDNN"),
    "sw.package.nvidia-nccl-cu12": (FactGroup.CUDA, "NCCL"),
    "sw.package.nvidia-nccl-cu13": (FactGroup.CUDA, "NCCL"),
    "sw.python": (FactGroup.PYTHON, "Python"),
    "sw.kernel": (FactGroup.KERNEL, "kernel"),
    "sw.os": (FactGroup.KERNEL, "system"),
    "sw.libc": (FactGroup.KERNEL, "libc"),
    "sw.container": (FactGroup.CONTAINER, ""),
    "sw.data": (FactGroup.DATA, "input data"),
    "sw.benchmarks": (FactGroup.BENCHMARKS, "the code of the benchmarks (digest)"),
    "sw.model": (FactGroup.BENCHMARKS, "the code of the model (digest)"),
    "sw.packages": (FactGroup.PACKAGES, "the set of installed packages (digest)"),
    "sw.package": (FactGroup.PACKAGES, ""),
    "sw.env": (FactGroup.VARIABLES, ""),
    "flag": (FactGroup.FLAGS, ""),
}
"""By name, or by a beginning of it up to a dot: the group, and how people call the fact of that
very name. Without one they use what follows ``hw.``, ``sw.`` or ``flag.``."""

IDENTITIES = frozenset(
    {"hw.host", "hw.gpu.uuid", "flag.cpu_affinity"}
    | {"sw.env.CUDA_VISIBLE_DEVICES", "sw.env.NVIDIA_VISIBLE_DEVICES"}
)
"""These name *which* machine or device (or the CPUs beside it), not what kind: in a container the
host's name is drawn anew at each start. Whether the machine matters is asked of results
(`attribution.node`), not of names."""
UNSTABLE = frozenset(
    {"temperature", "temp", "free", "available", "used", "usage", "load", "uptime", "time", "date"}
    | {"pid", "id", "port", "addr", "address", "directory", "dir", "path", "session"}
)
"""Words in a fact's name that tell a momentary reading, or an address of one run: both differ from
one measurement to the next without anything having been changed."""
SIZE_TOLERANCE = 0.05
"""Kernel and driver keep back some megabytes of a memory at each boot; a size is another from here
on."""
_SAID_BY_ABSENCE = ("sw.env.", "sw.package.", "flag.optimizer.", "flag.loader.")
"""Names under which absence is a value: not set, not installed. Elsewhere a fact that is missing
was not recorded, as with a fingerprint that learnt it later."""
DIGESTS = frozenset({"sw.packages", "sw.benchmarks", "sw.model", "sw.torch_git"})
"""They say that something differs and not what, and the project under test is a package and a model
too: they change with any commit. Weak, and named only where nothing better is."""

_ACTS_ON = {
    FactGroup.DRIVER: {Part.CLOCKS},
    FactGroup.DEVICE: {Part.CLOCKS, Part.INPUT},
    FactGroup.HARDWARE: {Part.CLOCKS, Part.INPUT},
    FactGroup.KERNEL: {Part.INPUT},
    FactGroup.CONTAINER: {Part.INPUT},
    FactGroup.PYTHON: {Part.INPUT},
    FactGroup.TORCH: {Part.INPUT},
    FactGroup.CUDA: set[Part](),
    FactGroup.PACKAGES: {Part.INPUT},
    FactGroup.VARIABLES: {Part.CLOCKS, Part.INPUT},
    FactGroup.DATA: {Part.INPUT},
    FactGroup.FLAGS: {Part.CLOCKS, Part.INPUT},
    FactGroup.BENCHMARKS: {Part.CLOCKS, Part.INPUT},
    FactGroup.OTHER: {Part.CLOCKS, Part.INPUT},
}
"""Through which measured mechanism a group can slow a step. Where the mechanism is known, a change
of anything that cannot act through it is a coincidence: a Python library lowers no clock, and CUDA
delays no loader."""


def group(fact: str) -> FactGroup:
    """Return the kind of thing that ``fact`` is about."""
    while fact and fact not in _KNOWN:
        fact = fact.rpartition(".")[0]
    return _KNOWN[fact][0] if fact else FactGroup.OTHER


def title(fact: str) -> str:
    """Return the name that people use for ``fact``."""
    _, exact = _KNOWN.get(fact, (FactGroup.OTHER, ""))
    return exact or fact.partition(".")[2] or fact


def acts_on(fact: str, mechanism: Part) -> bool:
    """Return True if a change of ``fact`` can slow a step through ``mechanism``."""
    return mechanism in _ACTS_ON[group(fact)]


def telling(fact: str) -> bool:
    """Return True if a difference of ``fact`` means that the environments differ."""
    words = set(fact.lower().replace(".", "_").replace("-", "_").split("_"))
    return fact not in IDENTITIES and not words & UNSTABLE


def comparable(fact: str, value: str | None) -> bool:
    """Return True if ``value``, or its absence, can be compared with another."""
    return value is not None or fact.startswith(_SAID_BY_ABSENCE)


def same(fact: str, one: str | None, other: str | None) -> bool:
    """Return True if two values of ``fact`` are the same as far as it matters."""
    if one == other:
        return True
    if one is None or other is None or not fact.endswith("_b"):
        return False
    try:
        a, b = float(one), float(other)
    except ValueError:
        return False
    return math.isfinite(a) and math.isfinite(b) and abs(a - b) <= SIZE_TOLERANCE * max(a, b)


def changed(fact: str, before: str | None, after: str | None) -> bool:
    """Return True if a machine's environment is another one, for ``fact`` was and now is so."""
    known = comparable(fact, before) and comparable(fact, after)
    return telling(fact) and known and not same(fact, before, after)


def alike(fact: str, values: set[str | None]) -> bool:
    """Return True if all ``values`` of ``fact`` are the same as far as it matters."""
    return all(same(fact, one, other) for one, other in combinations(values, 2))


def evidence(before: Sequence[Surrounded], after: Sequence[Surrounded]) -> tuple[Evidence, ...]:
    """The facts that differ, those that may carry a cause first; or that none does.

    Empty if the software of a side is not known.
    """
    if different := differences(before, after):
        return tuple(sorted(different, key=_rank))
    kept, mixed = _kept(before, after)
    if not any(fact.startswith("sw.") for fact in kept):
        return ()
    kind = "environment_mixed" if mixed else "environment_unchanged"
    says = Statement.of(kind, unchanged=len(kept))
    return (Evidence(Part.ENVIRONMENT, "environment", State.UNCHANGED, Strength.STRONG, says),)


def differences(before: Sequence[Surrounded], after: Sequence[Surrounded]) -> tuple[Evidence, ...]:
    """List the telling facts that differ consistently, by name.

    A fact differs consistently if each worker holds one value of it on each side, and no value
    occurs on both sides, whoever measured. It changed if a worker measured both sides; otherwise it
    may differ between the workers for ever, and is unclear.
    """
    names = {name for run in (*before, *after) for name in run.facts}
    rows = (_difference(fact, before, after) for fact in sorted(names) if telling(fact))
    return tuple(row for row in rows if row is not None)


def _difference(
    fact: str, before: Sequence[Surrounded], after: Sequence[Surrounded]
) -> Evidence | None:
    old, new = (_values(fact, side) for side in (before, after))
    if not (old and new and _holds_still(fact, before) and _holds_still(fact, after)):
        return None
    if any(same(fact, one, other) for one in old for other in new):
        return None
    witnesses = _knowing(fact, before) & _knowing(fact, after)
    says = Statement.of("fact_changed", fact=fact, before=old, after=new)
    strength = Strength.STRONG
    if fact in DIGESTS:
        says, strength = Statement.of("digest_changed", fact=fact), Strength.WEAK
    values = _written(old), _written(new)
    known = State.CHANGED if witnesses else State.UNCLEAR
    return Evidence(Part.ENVIRONMENT, fact, known, strength, says, *values)


def _holds_still(fact: str, side: Iterable[Surrounded]) -> bool:
    by_worker: dict[str, set[str | None]] = {}
    for run in side:
        value = run.facts.get(fact)
        if comparable(fact, value):
            by_worker.setdefault(run.worker, set()).add(value)
    return all(alike(fact, values) for values in by_worker.values())


def _knowing(fact: str, side: Iterable[Surrounded]) -> set[str]:
    """The workers that a fact is known of."""
    return {run.worker for run in side if comparable(fact, run.facts.get(fact))}


def _kept(before: Sequence[Surrounded], after: Sequence[Surrounded]) -> tuple[list[str], list[str]]:
    """The telling facts that all measurements know: those that each worker kept, and the others.

    If no worker measured both sides, a fact was kept if it is alike in all measurements.
    """
    runs = (*before, *after)
    if not before or not after:
        return [], []
    shared = set.intersection(*(set(run.facts) for run in runs))
    compared = sorted(fact for fact in shared if telling(fact))
    kept = [
        fact
        for fact in compared
        if alike(fact, {run.facts[fact] for run in runs})
        or (_knowing(fact, before) & _knowing(fact, after) and _holds_still(fact, runs))
    ]
    return kept, [fact for fact in compared if fact not in kept]


def _values(fact: str, side: Iterable[Surrounded]) -> tuple[str | None, ...]:
    values = {run.facts.get(fact) for run in side}
    return tuple(sorted((v for v in values if comparable(fact, v)), key=str))


def _rank(difference: Evidence) -> tuple[bool, int, str]:
    place = list(FactGroup).index(group(difference.name))
    return difference.strength is Strength.WEAK, place, difference.name


def _written(values: Iterable[str | None]) -> str:
    return " or ".join("none" if value is None else value for value in values)
