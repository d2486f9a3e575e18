"""Quantities in words: their names, and how one differs between two sides."""

from __future__ import annotations

from benchmarks.catalog.metrics import METRICS
from service.analysis.attribution.quantities_of import QuantityKind
from service.wording import formats

_TITLES = {
    "full.stall_s": "data wait",
    "full.copy_s": "copy to the device",
    "full.work_s": "time on the device",
    "full.enqueue_s": "queuing by the host",
    "synth.work_s": "time on the device without input",
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


def moved(
    name: str, kind: str, unit: str, before: float, after: float, change: float | None
) -> str:
    """Half a sentence: ``data wait +41.0 %`` or, where a share says little, with both values."""
    relative = kind in (QuantityKind.AMOUNT, QuantityKind.PART)
    if relative and change is not None and -0.5 <= change <= 1.0:
        return f"{title(name)} {formats.change(change)}"
    return f"{title(name)} {_value(before, kind, unit)} -> {_value(after, kind, unit)}"


def _value(value: float, kind: str, unit: str) -> str:
    if kind == QuantityKind.SHARE:
        return formats.share(value)
    return formats.quantity(value, "" if unit == "1" else unit)
