"""How values read to a person: the one place where base units become kilo, milli and per cent.

Numbers and their units are joined by a no-break space, so that they never part at a line's end.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal

from benchmarks import contracts
from service.schemas import findings
from service.schemas.gate import MetricFinding

NBSP = "\u00a0"
MINUS = "\u2212"
DASH = "\u2013"
TIMES = "\u00d7"
NOTHING_TO_COMPARE = (
    "Nothing to compare: neither revision has a result in the history. The tier quick and the gate "
    "make none."
)

_BINARY = ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"))
_DECIMAL = (
    *((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")),
    *((1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n")),
)
_PREFIXED = {"Hz": 1e6, "W": 1.0, "J": 1.0, "FLOP/s": 1e12, "B/s": 1e12}
"""Units that take decimal prefixes, each with the largest that people use for it here."""


LEAST_COUNT = 1e4
"""A number without a unit is a share below this, and a count, such as of cycles, from here on."""


def scale(unit: str, reference: float) -> tuple[float, str]:
    """Give the factor and the label that show values near ``reference`` well.

    ``scale("s", 0.24)`` is ``(1000.0, "ms")``: multiply by the factor, then write the label.
    """
    size = abs(reference)
    if unit == "1":
        count = next((pair for pair in _DECIMAL if LEAST_COUNT <= size >= pair[0]), None)
        return (1 / count[0], count[1]) if count else (100.0, "%")
    if unit == "B":
        step, label = next((pair for pair in _BINARY if size >= pair[0]), (1.0, "B"))
        return 1 / step, label
    if unit == "s":
        return _scale_seconds(size)
    if unit in _PREFIXED and size > 0:
        usable = [pair for pair in _DECIMAL if pair[0] <= _PREFIXED[unit]]
        step, prefix = next((pair for pair in usable if size >= pair[0]), usable[-1])
        return 1 / step, prefix + unit
    return 1.0, unit


def _scale_seconds(size: float) -> tuple[float, str]:
    if size >= 120:
        return 1 / 60, "min"
    if size >= 1 or size == 0:
        return 1.0, "s"
    if size >= 1e-3:
        return 1e3, "ms"
    return (1e6, "µs") if size >= 1e-6 else (1e9, "ns")


def number(value: float) -> str:
    """Write about four significant digits, whole digits never cut: 519,634 and 242.1 and 0.0123.

    What is no finite number is ``unknown``: one such value must not cost a page or a sentence.
    """
    if not math.isfinite(value):
        return "unknown"
    size = abs(value)
    if size >= 1000 or value == int(value):
        text = f"{value:,.0f}"
    elif size >= 100:
        text = f"{value:.1f}"
    elif size >= 1:
        text = f"{value:.2f}"
    else:
        text = f"{value:.3g}"
    return text.replace("-", MINUS) if "e" not in text else text


def quantity(value: float, unit: str) -> str:
    """Write a value in base units for a person: ``1,234 img/s``, ``26.50 GiB``, ``242.1 ms``."""
    factor, label = scale(unit, value)
    return f"{number(value * factor)}{NBSP}{label}".rstrip()


def quantities(values: Sequence[float], unit: str) -> str:
    """Write values of one unit beside each other, the unit once: ``99.8, 101.2 ms``."""
    factor, label = scale(unit, max(values, key=abs, default=0.0))
    return f"{', '.join(number(value * factor) for value in values)}{NBSP}{label}".rstrip()


def half_width(value: float, low: float | None, high: float | None, unit: str) -> str:
    """Write an interval as one plus-minus: relative, or in percentage points for plain ratios."""
    if low is None or high is None:
        return ""
    half = (high - low) / 2
    if unit == "1" and abs(value) < LEAST_COUNT:
        return f"±{NBSP}{_per_cent(half)}{NBSP}pp"
    if value == 0:
        return f"±{NBSP}{quantity(half, unit)}"
    return f"±{NBSP}{_per_cent(half / abs(value))}{NBSP}%"


def _per_cent(share: float) -> str:
    size = abs(share * 100)
    if size == 0:
        return "0"
    return f"{size:.2f}" if size < 0.995 else f"{size:.1f}"


def interval(value: float, low: float | None, high: float | None, unit: str) -> str:
    """Write both ends in the value's own unit: from low to high."""
    if low is None or high is None:
        return "no interval"
    factor, label = scale(unit, value)
    between = " to " if low < 0 else DASH  # a dash beside a minus reads badly
    return f"{number(low * factor)}{between}{number(high * factor)}{NBSP}{label}".rstrip()


def counted(count: int, noun: str) -> str:
    """Write how many: ``1 pair``, ``2 pairs``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def change(ratio: float) -> str:
    """Write a relative change with its sign: ``+3.1 %``."""
    size = abs(ratio * 100)
    digits = f"{size:.2f}" if size < 0.095 else f"{size:.1f}" if size < 99.95 else f"{size:,.0f}"
    sign = "" if float(digits.replace(",", "")) == 0 else "+" if ratio > 0 else MINUS
    return f"{sign}{digits}{NBSP}%"


def as_measured(by: float, low: float, high: float, *, more_is_better: bool) -> tuple[str, str]:
    """Write what became of a value, and between what: ``+3.1 %`` and ``+2.9 % to +3.3 %``.

    It is given signed so that + is better. People read it beside the value: memory that tripled is
    +200 %, though less of it is better.
    """
    if not more_is_better:
        by, low, high = -by, -high, -low
    return change(by), f"{change(low)} to {change(high)}"


def metric_change(metric: MetricFinding) -> tuple[str, str]:
    """Write what became of a metric of a gate, and between what."""
    rising = metric.direction is contracts.Direction.HIGHER
    return as_measured(metric.change, metric.low, metric.high, more_is_better=rising)


def size(ratio: float) -> str:
    """Write how large a relative change is, without its direction: ``3.1 %``."""
    return change(abs(ratio)).removeprefix("+")


def effect(finding: findings.FindingSummary) -> str:
    """Describe the size and direction of a finding: ``3.1 % worse``."""
    if finding.share is not None:
        overtaken = finding.kind is findings.FindingKind.OVERTAKEN
        return f"{size(finding.share)} {'faster' if overtaken else 'slower'}"
    if finding.worst_effect is None:
        return ""
    return sized(finding.worst_effect, improvement=finding.kind is findings.FindingKind.IMPROVEMENT)


def sized(effect: float, *, improvement: bool) -> str:
    """Write an effect by what it means, for its sign depends on which way is better."""
    return f"{size(effect)} {'better' if improvement else 'worse'}"


def share(ratio: float) -> str:
    """Write a plain ratio as per cent without a sign: ``12.3 %``."""
    return f"{ratio * 100:z.1f}{NBSP}%".replace("-", MINUS)


def threshold(least_effect: float | Literal["never"]) -> str:
    """Write from which size on changes are reported: ``from 3 %``, or ``never``."""
    return "never" if least_effect == "never" else f"from {least_effect * 100:.3g}{NBSP}%"


def times(ratio: float) -> str:
    """Write a speed-up, such as 6.52 times."""
    return f"{ratio:.2f}{TIMES}" if ratio < 10 else f"{ratio:.1f}{TIMES}"


def duration(seconds: float) -> str:
    """Write a span in its two largest parts: ``1 h 5 min``, ``42 s``."""
    whole = round(max(seconds, 0.0))
    if whole < 1:
        return f"{max(seconds, 0.0):.1f}{NBSP}s"
    parts = ((whole // 86_400, "d"), (whole // 3600 % 24, "h"), (whole // 60 % 60, "min"))
    kept = [f"{count}{NBSP}{name}" for count, name in (*parts, (whole % 60, "s")) if count]
    return " ".join(kept[:2])


def ago(then: datetime, now: datetime) -> str:
    """Say how long ago ``then`` was: ``just now``, ``5 min ago``, ``3 d ago``, ``in 2 h``."""
    passed = (now - then).total_seconds()
    if abs(passed) < 5:
        return "just now"
    largest = duration(abs(passed)).split(" ")[0]
    return f"{largest}{NBSP}ago" if passed > 0 else f"in{NBSP}{largest}"


def moment(then: datetime) -> str:
    """Write an instant to the minute, in UTC."""
    return f"{then.astimezone(UTC):%Y-%m-%d %H:%M}{NBSP}UTC"


def revision(name: str) -> str:
    """Shorten a commit hash to ten digits and a long label in its middle."""
    if re.fullmatch(r"[0-9a-f]{20,64}", name):
        return name[:10]
    return name if len(name) <= 28 else f"{name[:16]}…{name[-10:]}"


def hardware(comparability: Mapping[str, str]) -> str:
    """Name the device that a series is about: ``NVIDIA H200``, ``AMD EPYC 7B13 · 2 cores``."""
    gpu = comparability.get("hw.gpu.name")
    if gpu:
        mig = comparability.get("hw.gpu.mig", "")
        return gpu if mig in {"", "off", "none", "disabled"} else f"{gpu} · MIG {mig}"
    elsewhere = " · ".join(dict.fromkeys(comparability.values()))[:200]  # imported
    known = comparability.get("hw.cpu.model") or comparability.get("hw.device")
    model = known or elsewhere or "unknown device"
    usable = comparability.get("hw.cpu.usable")
    return f"{model} · {usable} cores" if usable else model


def device(name: str) -> str:
    """Shorten the name of a device: ``H200``, ``H100`` for ``NVIDIA H100 80GB HBM3``."""
    return re.sub(r" \d+GB HBM\w+$", "", name.removeprefix("NVIDIA "))


def peak_memory_of(comparability: Mapping[str, str]) -> str:
    """Say what a result's peak memory is of: a GPU tells tensors apart, a CPU does not."""
    if comparability.get("hw.device") == "cpu":
        return "of the whole process, libraries included"
    return "most that tensors held at once"


def not_estimated(missing: Sequence[str], runs: int) -> str:
    """Say why a factorial design has no effects: runs without a number."""
    some = "; ".join(missing[:3]) + ("; ..." if len(missing) > 3 else "")
    return f"No effects: {len(missing)} of {runs} runs have no number ({some})."


MEMORY = {
    "parameters": "parameters and buffers",
    "optimizer": "optimizer's state",
    "kept": "kept beyond the step",
    "workspace": "cuBLAS workspace",
    "graphs": "pools of CUDA graphs",
    "inputs": "inputs",
    "gradients": "gradients",
    "activations": "activations",
    "temporaries": "temporaries of a phase",
}
"""Categories of device memory."""
PASSES = {"full": "with input", "synth": "without input"}


def mfu(efficiency: contracts.Efficiency | None) -> float | None:
    """Share of the nominal peak with the real input pipeline; None where it is not known."""
    use = efficiency.uses.get("full") if efficiency is not None else None
    return use.mfu if use is not None else None


def sample_cost(cost: contracts.Input) -> str:
    """One line on the cost of a sample, or why it is not known."""
    if not cost.samples:
        return cost.absent
    parts = [f"{quantity(cost.fetch_s, 's')}, {quantity(cost.cpu_s, 's')} of it on a processor"]
    if cost.disk_s is not None and cost.disk_b is not None:
        rate = f", {quantity(cost.disk_b_per_s, 'B/s')} at most" if cost.disk_b_per_s else ""
        read = quantity(cost.disk_b, "B")
        parts.append(f"{quantity(cost.disk_s, 's')} more if the disk is read: {read}{rate}")
        if cost.missed_b:
            parts.append(f"{quantity(cost.missed_b, 'B')} of it were not in memory")
    if cost.threads_speedup is not None:
        parts.append(f"{times(cost.threads_speedup)} the rate with {cost.threads} threads")
    return "; ".join((*parts, cost.absent) if cost.absent else parts)


def straggler(late: contracts.Straggler) -> str:
    """Say which rank is late, by how much, and what equal ranks may differ by."""
    return (
        f"rank {late.rank} arrives {quantity(late.late_s, 's')} late in a step, in {late.launches} "
        f"launches; equal ranks may differ by {quantity(late.resolution_s, 's')}"
    )


def efficiency(known: contracts.Efficiency) -> str:
    """One line for a terminal: the shares of the device's rates, or why none is known."""
    use = known.uses.get("full")
    shares = efficiency_shares(use) if use is not None else []
    if use is None or not shares:
        return known.reason or "not known"
    parts = [f"{share(value)} {name}" for name, value in shares]
    if use.mfu is not None:
        parts[0] = f"{share(use.mfu)} MFU of {known.device} in {known.dtype}"
    elif known.reason:
        parts.append(known.reason)
    return "; ".join(parts)


def efficiency_shares(use: contracts.Use) -> list[tuple[str, float]]:
    """Return the known shares of one pass, each with its name."""
    known = {
        "of the nominal peak (MFU)": use.mfu,
        "at the clock that it had": use.mfu_clock,
        "of what a matrix product reaches": use.vs_achievable,
        "of the roofline": use.roofline_fraction,
        "of the rate of a copy on it": use.vs_copy,
    }
    return [(name, value) for name, value in known.items() if value is not None]
