"""Finds what differs in the environment between the last good and the first bad measurements.

A fact is a reason only if it holds still by itself. The rules name what does not, each with its
reason; whatever else comes up is kept out by varying within one side.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations

from service.analysis.attribution.types import Evidence, Measurement, Question
from service.analysis.statement import state
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


@dataclass(frozen=True, slots=True)
class FactRule:
    """Facts whose name is ``prefix``, or begins with it and a dot."""

    prefix: str
    group: FactGroup
    title: str = ""
    """How people call it; without one: the name after ``hw.``, ``sw.`` or ``flag.``."""


_RULES = (
    FactRule("hw.gpu.driver", FactGroup.DRIVER, "driver"),
    FactRule("hw.gpu.vbios", FactGroup.DRIVER, "VBIOS"),
    FactRule("hw.gpu.power_limit_w", FactGroup.DEVICE, "power limit (W)"),
    FactRule("hw.gpu.max_sm_clock_hz", FactGroup.DEVICE, "highest SM clock (Hz)"),
    FactRule("hw.gpu.max_memory_clock_hz", FactGroup.DEVICE, "highest memory clock (Hz)"),
    FactRule("hw.gpu.ecc", FactGroup.DEVICE, "ECC"),
    FactRule("hw.gpu.mig", FactGroup.DEVICE, "MIG"),
    FactRule("hw.gpu.pcie_generation", FactGroup.DEVICE, "PCIe generation"),
    FactRule("hw.gpu.pcie_width", FactGroup.DEVICE, "PCIe width"),
    FactRule("hw.cpu.governor", FactGroup.KERNEL, "CPU governor"),
    FactRule("hw", FactGroup.HARDWARE),
    FactRule("sw.torch", FactGroup.TORCH, "torch"),
    FactRule("sw.torch_git", FactGroup.TORCH, "torch's commit"),
    FactRule("sw.package.triton", FactGroup.TORCH, "triton"),
    FactRule("sw.package.pytorch-triton", FactGroup.TORCH, "pytorch-triton"),
    FactRule("sw.cuda", FactGroup.CUDA, "CUDA"),
    FactRule("sw.cudnn", FactGroup.CUDA, "cuDNN"),
    FactRule("sw.package.nvidia-nccl-cu12", FactGroup.CUDA, "NCCL"),
    FactRule("sw.package.nvidia-nccl-cu13", FactGroup.CUDA, "NCCL"),
    FactRule("sw.python", FactGroup.PYTHON, "Python"),
    FactRule("sw.kernel", FactGroup.KERNEL, "kernel"),
    FactRule("sw.os", FactGroup.KERNEL, "system"),
    FactRule("sw.libc", FactGroup.KERNEL, "libc"),
    FactRule("sw.container", FactGroup.CONTAINER),
    FactRule("sw.data", FactGroup.DATA, "input data"),
    FactRule("sw.benchmarks", FactGroup.BENCHMARKS, "the code of the benchmarks (digest)"),
    FactRule("sw.packages", FactGroup.PACKAGES, "the set of installed packages (digest)"),
    FactRule("sw.package", FactGroup.PACKAGES),
    FactRule("sw.env", FactGroup.VARIABLES),
    FactRule("flag", FactGroup.FLAGS),
)

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
DIGESTS = frozenset({"sw.packages", "sw.benchmarks", "sw.torch_git"})
"""They say that something differs and not what, and the project under test is a package too: they
change with any commit. Weak, and named only where nothing better is."""

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
    rule = _rule(fact)
    return rule.group if rule else FactGroup.OTHER


def title(fact: str) -> str:
    """Return the name that people use for ``fact``."""
    rule = _rule(fact)
    exact = rule is not None and rule.prefix == fact and rule.title
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


def alike(fact: str, values: set[str | None]) -> bool:
    """Return True if all ``values`` of ``fact`` are the same as far as it matters."""
    return all(same(fact, one, other) for one, other in combinations(values, 2))


def _rule(fact: str) -> FactRule | None:
    fitting = [r for r in _RULES if fact == r.prefix or fact.startswith(f"{r.prefix}.")]
    return max(fitting, key=lambda r: len(r.prefix), default=None)


Recorded = tuple[str, Mapping[str, str]]
"""The worker of a measurement, and the facts of its environment."""
NONE = "none"
"""How the absence of a variable or a package is written."""


def evidence(question: Question) -> tuple[Evidence, ...]:
    """The facts that differ, those that may carry a cause first; or that none does.

    Empty if the software of a side is not known.
    """
    before, after = _recorded(question.before), _recorded(question.after)
    if different := _differences(before, after):
        return tuple(sorted(different, key=_rank))
    kept, mixed = _kept([facts for _, facts in before], [facts for _, facts in after])
    if not any(fact.startswith("sw.") for fact in kept):
        return ()
    kind = "environment_mixed" if mixed else "environment_unchanged"
    says = state(kind, unchanged=len(kept))
    return (Evidence(Part.ENVIRONMENT, "environment", State.UNCHANGED, Strength.STRONG, says),)


def differences(
    before: Sequence[Measurement], after: Sequence[Measurement]
) -> tuple[Evidence, ...]:
    """List the telling facts that differ consistently, by name.

    A fact differs consistently if each worker holds one value of it on each side, and no value
    occurs on both sides, whoever measured.
    """
    return _differences(_recorded(before), _recorded(after))


def _recorded(side: Iterable[Measurement]) -> list[Recorded]:
    return [(measurement.worker, measurement.facts) for measurement in side]


def _differences(before: Sequence[Recorded], after: Sequence[Recorded]) -> tuple[Evidence, ...]:
    names = {name for _, facts in (*before, *after) for name in facts}
    rows = (_difference(fact, before, after) for fact in sorted(names) if telling(fact))
    return tuple(row for row in rows if row is not None)


def _difference(
    fact: str, before: Sequence[Recorded], after: Sequence[Recorded]
) -> Evidence | None:
    old, new = (_values(fact, side) for side in (before, after))
    if not (old and new and _holds_still(fact, before) and _holds_still(fact, after)):
        return None
    if any(same(fact, one, other) for one in old for other in new):
        return None
    says = state("fact_changed", fact=fact, before=old, after=new)
    strength = Strength.STRONG
    if fact in DIGESTS:
        says, strength = state("digest_changed", fact=fact), Strength.WEAK
    values = _written(old), _written(new)
    return Evidence(Part.ENVIRONMENT, fact, State.CHANGED, strength, says, *values)


def _holds_still(fact: str, side: Iterable[Recorded]) -> bool:
    by_worker: dict[str, set[str | None]] = {}
    for worker, facts in side:
        value = facts.get(fact)
        if comparable(fact, value):
            by_worker.setdefault(worker, set()).add(value)
    return all(alike(fact, values) for values in by_worker.values())


def _kept(
    before: Sequence[Mapping[str, str]], after: Sequence[Mapping[str, str]]
) -> tuple[list[str], list[str]]:
    """The telling facts that all measurements know: those that are alike in all, and the others."""
    all_facts = (*before, *after)
    if not before or not after:
        return [], []
    shared = set.intersection(*map(set, all_facts))
    compared = sorted(fact for fact in shared if telling(fact))
    kept = [fact for fact in compared if alike(fact, {facts[fact] for facts in all_facts})]
    return kept, [fact for fact in compared if fact not in kept]


def _values(fact: str, side: Iterable[Recorded]) -> tuple[str | None, ...]:
    values = {facts.get(fact) for _, facts in side}
    return tuple(sorted((v for v in values if comparable(fact, v)), key=str))


def _rank(difference: Evidence) -> tuple[bool, int, str]:
    place = list(FactGroup).index(group(difference.name))
    return difference.strength is Strength.WEAK, place, difference.name


def _written(values: Iterable[str | None]) -> str:
    return " or ".join(NONE if value is None else value for value in values)
