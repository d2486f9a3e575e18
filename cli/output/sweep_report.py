"""The report of a sweep: a case at several values of one axis, as JSON and as a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.text import Text

from benchmarks.contracts import Result, Status
from benchmarks.diagnosis import knee
from cli.output.console import Console, table
from service.analysis.summary import summarise
from service.schemas.reports import Summary
from service.wording import formats


@dataclass(frozen=True)
class SweepPoint:
    """One value and what was measured there."""

    value: str
    result: Result
    took_s: float

    @property
    def is_measured(self) -> bool:
        """Return True if it has a throughput."""
        return self.result.status is Status.OK

    def metric(self, name: str) -> Summary | None:
        """Summarise a metric, if it was measured."""
        found = next((one for one in self.result.samples if one.metric == name), None)
        return None if found is None else summarise(found)


@dataclass
class Sweep:
    """The values measured so far, and why the others are missing."""

    axis: str
    points: list[SweepPoint] = field(default_factory=list)
    ended: str = ""
    """One sentence, where not all values were measured."""

    @property
    def measured(self) -> list[SweepPoint]:
        """The values with a throughput."""
        return [point for point in self.points if point.is_measured]

    @property
    def unit(self) -> str:
        """The unit of throughput."""
        return f"{self.measured[0].result.item}/s" if self.measured else ""

    @property
    def most(self) -> float:
        """The highest throughput."""
        return max((rate(point).value for point in self.measured), default=0.0)

    @property
    def has_sizes(self) -> bool:
        """Return True if each value is a number: then there is a curve."""
        return all(point.value.isdecimal() for point in self.points)

    def curve(self) -> knee.Curve | None:
        """The course of throughput; None where values are no sizes, or too few."""
        if not self.has_sizes:
            return None
        return knee.curve([_size_point(point) for point in self.measured])

    def document(self) -> dict[str, Any]:
        """All of it, as ``--json`` prints it."""
        curve = self.curve()
        return {
            "axis": self.axis,
            "unit": self.unit,
            "ended": self.ended,
            "points": [_written(point, self.most) for point in self.points],
            "curve": None if curve is None else asdict(curve) | {"beyond": curve.beyond},
            "summary": list(sentences(self)),
        }


def rate(point: SweepPoint) -> Summary:
    """Throughput of a value that was measured."""
    summary = point.metric("throughput")
    assert summary is not None, "a result that is ok has a throughput"
    return summary


def _size_point(point: SweepPoint) -> knee.SizePoint:
    told = rate(point)
    half = 0.0 if told.low is None or told.high is None else (told.high - told.low) / 2
    return knee.SizePoint(float(point.value), told.value, half)


def _written(point: SweepPoint, most: float) -> dict[str, Any]:
    result, told = point.result, point.metric("throughput")
    names = ("throughput_synth", "step_time", "peak_memory")
    return {
        "value": point.value,
        "case": result.case.model_dump(mode="json"),
        "status": result.status.value,
        "reason": result.reason,
        "throughput": None if told is None else asdict(told),
        "of_most": told.value / most if told is not None and most else None,
        **{name: known.value if (known := point.metric(name)) else None for name in names},
        "batch_items": result.batch_items,
        "limited_by": result.verdict.bottleneck.value if result.verdict else None,
        "flags": list(result.flags),
        "took_s": point.took_s,
    }


def show(sweep: Sweep, console: Console) -> None:
    """Print the table, why a value is missing, and where the knee is."""
    right = (sweep.axis, "throughput, 95 %", "of the most", "step time", "peak memory")
    drawn = table(*right, "limited by", right=right, whole=right)
    for point in sweep.points:
        drawn.add_row(*_cells(point, sweep))
    console.print(drawn)
    for point in sweep.points:
        if not point.is_measured:
            console.say(f"{sweep.axis}={point.value}: {point.result.reason}", "red")
        if point.result.flags:
            console.say(f"{sweep.axis}={point.value}: flags {', '.join(point.result.flags)}.")
    for line in sentences(sweep):
        console.say(line)


def _cells(point: SweepPoint, sweep: Sweep) -> tuple[str | Text, ...]:
    if not point.is_measured:
        return point.value, Text(point.result.status.value, style="red"), "", "", "", ""
    told, verdict = rate(point), point.result.verdict
    spread = formats.half_width(told.value, told.low, told.high, sweep.unit)
    return (
        point.value,
        f"{formats.quantity(told.value, sweep.unit)} {spread:>8}",
        formats.share(told.value / sweep.most),
        _shown(point, "step_time", "s"),
        _shown(point, "peak_memory", "B"),
        verdict.bottleneck.value if verdict else formats.DASH,
    )


def _shown(point: SweepPoint, metric: str, unit: str) -> str:
    known = point.metric(metric)
    return formats.DASH if known is None else formats.quantity(known.value, unit)


def sentences(sweep: Sweep) -> Iterator[str]:
    """Name the knee, what is gained beyond it, and what is not known."""
    if sweep.ended:
        yield sweep.ended
    curve = sweep.curve()
    if curve is None:
        if sweep.has_sizes:
            yield f"No knee: a curve needs {knee.FEWEST} measured values."
        elif any(point.value.isdecimal() for point in sweep.points):
            yield "No knee: not every value is a number."
        return
    most = f"{formats.quantity(curve.most.rate, sweep.unit)} at {_named(sweep, curve.most)}"
    if curve.knee is None:
        yield f"No knee: throughput still rises at the largest measured value, to {most}."
        return
    at_knee = f"{formats.quantity(curve.knee.rate, sweep.unit)} at {_named(sweep, curve.knee)}"
    if curve.knee.size == min(float(point.value) for point in sweep.measured):
        yield f"Already the smallest value, {at_knee}, is within {knee.NEAR:.0%} of the most."
    else:
        yield f"Knee: {at_knee}. {_beyond(sweep, curve, most)}"
    if curve.at_earliest and curve.at_latest and curve.at_earliest != curve.at_latest:
        allowed = [_named(sweep, point) for point in (curve.at_earliest, curve.at_latest)]
        yield f"The intervals allow {' to '.join(allowed)}: measure for longer to tell."
    if curve.falls:
        yield f"Beyond {_named(sweep, curve.most)} throughput falls, by {curve.falls:.0%} at last."


def _beyond(sweep: Sweep, curve: knee.Curve, most: str) -> str:
    assert curve.knee is not None
    if curve.knee == curve.most:
        return "That is the most."
    memory = [_memory(sweep, point) for point in (curve.knee, curve.most)]
    cost = ""
    if all(memory):
        cost = f", with {formats.times(memory[1] / memory[0])} its peak memory"
    return f"The most, {most}, is {formats.change(curve.beyond)} over that{cost}."


def _memory(sweep: Sweep, of: knee.SizePoint) -> float:
    points = (point for point in sweep.measured if float(point.value) == of.size)
    known = next(points).metric("peak_memory")
    return known.value if known else 0.0


def _named(sweep: Sweep, point: knee.SizePoint) -> str:
    return f"{sweep.axis}={point.size:.0f}"
