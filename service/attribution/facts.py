"""Facts of a fingerprint: which of them say what the environment is, and to whom each belongs.

A fact is a reason only if it holds still by itself. The rules name what does not, each with its
reason; whatever else comes up is kept out by varying within one side (`environment.py`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations


class Group(StrEnum):
    """What kind of thing a fact is about, as people name it."""

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


class Mechanism(StrEnum):
    """A way to become slower that is measured by itself."""

    INPUT = "input"
    CLOCKS = "clocks"


@dataclass(frozen=True, slots=True)
class Rule:
    """Facts whose name is ``prefix``, or begins with it and a dot."""

    prefix: str
    group: Group
    title: str = ""
    """How people call it; without one: the name after ``hw.``, ``sw.`` or ``flag.``."""


_RULES = (
    Rule("hw.gpu.driver", Group.DRIVER, "driver"),
    Rule("hw.gpu.vbios", Group.DRIVER, "VBIOS"),
    Rule("hw.gpu.power_limit_w", Group.DEVICE, "power limit (W)"),
    Rule("hw.gpu.max_sm_clock_hz", Group.DEVICE, "highest SM clock (Hz)"),
    Rule("hw.gpu.max_memory_clock_hz", Group.DEVICE, "highest memory clock (Hz)"),
    Rule("hw.gpu.ecc", Group.DEVICE, "ECC"),
    Rule("hw.gpu.mig", Group.DEVICE, "MIG"),
    Rule("hw.gpu.pcie_generation", Group.DEVICE, "PCIe generation"),
    Rule("hw.gpu.pcie_width", Group.DEVICE, "PCIe width"),
    Rule("hw.cpu.governor", Group.KERNEL, "CPU governor"),
    Rule("hw", Group.HARDWARE),
    Rule("sw.torch", Group.TORCH, "torch"),
    Rule("sw.torch_git", Group.TORCH, "torch's commit"),
    Rule("sw.package.triton", Group.TORCH, "triton"),
    Rule("sw.package.pytorch-triton", Group.TORCH, "pytorch-triton"),
    Rule("sw.cuda", Group.CUDA, "CUDA"),
    Rule("sw.cudnn", Group.CUDA, "cuDNN"),
    Rule("sw.package.nvidia-nccl-cu12", Group.CUDA, "NCCL"),
    Rule("sw.package.nvidia-nccl-cu13", Group.CUDA, "NCCL"),
    Rule("sw.python", Group.PYTHON, "Python"),
    Rule("sw.kernel", Group.KERNEL, "kernel"),
    Rule("sw.os", Group.KERNEL, "system"),
    Rule("sw.libc", Group.KERNEL, "libc"),
    Rule("sw.container", Group.CONTAINER),
    Rule("sw.data", Group.DATA, "input data"),
    Rule("sw.benchmarks", Group.BENCHMARKS, "the code of the benchmarks (digest)"),
    Rule("sw.packages", Group.PACKAGES, "the set of installed packages (digest)"),
    Rule("sw.package", Group.PACKAGES),
    Rule("sw.env", Group.VARIABLES),
    Rule("flag", Group.FLAGS),
)

IDENTITIES = frozenset(
    {"hw.host", "hw.gpu.uuid", "flag.cpu_affinity"}
    | {"sw.env.CUDA_VISIBLE_DEVICES", "sw.env.NVIDIA_VISIBLE_DEVICES"}
)
"""These name *which* machine or device (or the CPUs beside it), not what kind: in a container the
host's name is drawn anew at each start. Whether the machine matters is asked of results
(`node.py`), not of names."""
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
    Group.DRIVER: {Mechanism.CLOCKS},
    Group.DEVICE: {Mechanism.CLOCKS, Mechanism.INPUT},
    Group.HARDWARE: {Mechanism.CLOCKS, Mechanism.INPUT},
    Group.KERNEL: {Mechanism.INPUT},
    Group.CONTAINER: {Mechanism.INPUT},
    Group.PYTHON: {Mechanism.INPUT},
    Group.TORCH: {Mechanism.INPUT},
    Group.CUDA: set[Mechanism](),
    Group.PACKAGES: {Mechanism.INPUT},
    Group.VARIABLES: {Mechanism.CLOCKS, Mechanism.INPUT},
    Group.DATA: {Mechanism.INPUT},
    Group.FLAGS: {Mechanism.CLOCKS, Mechanism.INPUT},
    Group.BENCHMARKS: {Mechanism.CLOCKS, Mechanism.INPUT},
    Group.OTHER: {Mechanism.CLOCKS, Mechanism.INPUT},
}
"""Through which measured mechanism a group can slow a step. Where the mechanism is known, a change
of anything that cannot act through it is a coincidence: a Python library lowers no clock, and CUDA
delays no loader."""


def group(fact: str) -> Group:
    """What kind of thing ``fact`` is about."""
    rule = _rule(fact)
    return rule.group if rule else Group.OTHER


def title(fact: str) -> str:
    """What people call ``fact``."""
    rule = _rule(fact)
    exact = rule is not None and rule.prefix == fact and rule.title
    return exact or fact.partition(".")[2] or fact


def acts_on(fact: str, mechanism: Mechanism) -> bool:
    """Whether a change of ``fact`` can slow a step through ``mechanism``."""
    return mechanism in _ACTS_ON[group(fact)]


def telling(fact: str) -> bool:
    """Whether a difference of ``fact`` says that the environment differs."""
    words = set(fact.lower().replace(".", "_").replace("-", "_").split("_"))
    return fact not in IDENTITIES and not words & UNSTABLE


def comparable(fact: str, value: str | None) -> bool:
    """Whether ``value``, or its absence, can be held against another."""
    return value is not None or fact.startswith(_SAID_BY_ABSENCE)


def same(fact: str, one: str | None, other: str | None) -> bool:
    """Whether two values of ``fact`` are the same as far as it matters."""
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
    """Whether all ``values`` of ``fact`` are the same as far as it matters."""
    return all(same(fact, one, other) for one, other in combinations(values, 2))


def _rule(fact: str) -> Rule | None:
    """The longest rule that fits."""
    fitting = [r for r in _RULES if fact == r.prefix or fact.startswith(f"{r.prefix}.")]
    return max(fitting, key=lambda r: len(r.prefix), default=None)
