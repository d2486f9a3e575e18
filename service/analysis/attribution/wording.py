"""Puts evidence into words: names of quantities, and differences in half a sentence."""

from __future__ import annotations

from benchmarks.catalog.metrics import METRICS
from service import formats
from service.analysis.attribution.difference import Difference
from service.analysis.attribution.quantities_of import QuantityKind
from service.analysis.attribution.types import Part, State

_TITLES = {
    "full.stall_s": "data wait",
    "full.copy_s": "copy to the device",
    "full.work_s": "work on the device",
    "full.enqueue_s": "queuing by the host",
    "synth.work_s": "work on the device without input",
    "synth.enqueue_s": "queuing by the host without input",
    "full.cpu_pressure": "waiting for a CPU",
    "synth.cpu_pressure": "waiting for a CPU without input",
    "full.drained": "steps that found the device idle",
    "synth.drained": "steps without input that found the device idle",
    "synth.sm_clock_hz": "SM clock without input",
    "full.memory_clock_hz": "memory clock",
    "synth.memory_clock_hz": "memory clock without input",
    "full.temperature_c": "temperature",
    "synth.temperature_c": "temperature without input",
}
"""Other quantities: a metric has its own title, and the rest their name as words."""
_REASONS = {
    "sw_power_cap": "software power cap",
    "hw_slowdown": "hardware slowdown",
    "sw_thermal": "software thermal slowdown",
    "hw_thermal": "hardware thermal slowdown",
}
"""Clock event reasons; of each the share of readings in which it was active."""
_PASSES = {"full": "", "synth": " without input"}
_UNIT_WORDS = ("_s", "_b", "_hz", "_w", "_j", "_c")

_PARTS = (
    (Part.COMPILE, ("compile", "graph", "recompil", "first_step", "dynamo", "inductor")),
    (Part.PARITY, ("parity", "loss")),
    (Part.CLOCKS, ("clock", "power", "temperature", "thermal", "throttled", "slowdown", "reason.")),
    (Part.INPUT, ("input", "stall", "copy", "loader", "data")),
)
"""Words in a name that say what it is about, first match first; a metric that comes later is sorted
by its name."""


def part(name: str) -> Part:
    """Return the part that a quantity or a flag belongs to."""
    for found, words in _PARTS:
        if any(word in name for word in words):
            return found
    return Part.NODE if name.endswith("other_processes") else Part.PHASES


def title(name: str) -> str:
    """A quantity in plain words."""
    if name in METRICS:
        return METRICS[name].in_sentence
    if name in _TITLES:
        return _TITLES[name]
    where, _, what = name.partition(".")
    if where not in _PASSES:
        where, what = "full", name
    if what.startswith("reason."):
        reason = what.removeprefix("reason.")
        return "readings with " + _REASONS.get(reason, reason.replace("_", " ")) + _PASSES[where]
    for ending in _UNIT_WORDS:
        what = what.removesuffix(ending)
    return what.replace("_", " ").replace(".", " ") + _PASSES[where]


def says(name: str, found: Difference) -> str:
    """Half a sentence: ``data wait +41.0 %``, ``graph breaks 0 -> 3``, ``SM clock unchanged``."""
    if found.state is State.UNCHANGED:
        return f"{title(name)} unchanged"
    change = f"{title(name)} {amount(found)}"
    return change if found.state is State.CHANGED else f"{change}, which is not clear"


def amount(found: Difference) -> str:
    """Write a difference as a change in per cent or, where that says little, as both values."""
    near = found.change is not None and -0.5 <= found.change <= 1.0
    if found.kind in (QuantityKind.AMOUNT, QuantityKind.PART) and near and found.change is not None:
        return formats.change(found.change)
    return f"{_written(found.before, found)} -> {_written(found.after, found)}"


def _written(value: float, found: Difference) -> str:
    if found.kind is QuantityKind.SHARE:
        return formats.share(value)
    return formats.quantity(value, "" if found.unit == "1" else found.unit)


def whole(share: float) -> str:
    """A share in whole per cent: ``92 %``."""
    return f"{share * 100:.0f}{formats.NBSP}%"
