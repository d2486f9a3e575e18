"""Charts of a pass: the times of its steps over clock, power, temperature and load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks import contracts
from service.dashboard.figures import frame
from service.dashboard.figures.steps import PassName, timed
from service.wording import formats

_CHANNELS = {
    "sm_clock_hz": ("SM clock", "Hz"),
    "memory_clock_hz": ("Memory clock", "Hz"),
    "power_w": ("Power", "W"),
    "temperature_c": ("Temperature", "°C"),
    "utilization": ("Utilization", "1"),
    "memory_used_b": ("Memory used", "B"),
}
_SHOWN = ("sm_clock_hz", "power_w", "temperature_c", "utilization")


def telemetry(result: contracts.Result, name: PassName = "full") -> frame.Figure | None:
    """Draw the device's clock, power, temperature and load over a pass; None if none was taken.

    Above them stand the times of the steps, over the same seconds.
    """
    taken = [
        (number, replicate.telemetry[name])
        for number, replicate in enumerate(result.replicates, start=1)
        if name in replicate.telemetry and replicate.telemetry[name].t_s.n
    ]
    present = [c for c in _SHOWN if any(c in readings.channels for _, readings in taken)]
    if not present:
        return None
    rows = [_row(channel, taken) for channel in present]
    if steps := _steps(result, name):
        rows.insert(0, steps)
    last = "y" if len(rows) == 1 else f"y{len(rows)}"
    layout = frame.frame(
        frame.value_axis("Seconds since the pass began", anchor=last),
        {},
        showlegend=len(taken) > 1,
        hovermode="x unified",
    )
    data: list[frame.Figure] = []
    for place, row in enumerate(rows):
        data += _lines(row, place, len(rows), layout)
    return {"data": data, "layout": layout, "config": frame.CONFIG}


@dataclass(frozen=True, slots=True)
class _Row:
    """One of the small charts that stand one below another."""

    title: str
    unit: str
    from_zero: bool
    curves: tuple[tuple[int, frame.Floats, frame.Floats], ...]
    """Number of a process, seconds since the pass began, values."""


def _row(channel: str, taken: Sequence[tuple[int, contracts.Telemetry]]) -> _Row:
    limit = frame.points_of_each(len(taken))
    curves = ((number, *_curve(readings, channel, limit)) for number, readings in taken)
    read = tuple(curve for curve in curves if len(curve[2]))
    return _Row(*_CHANNELS[channel], channel in {"power_w", "utilization"}, read)


def _steps(result: contracts.Result, name: PassName) -> _Row | None:
    limit = frame.points_of_each(len(result.replicates))
    curves = []
    for number, replicate in enumerate(result.replicates, start=1):
        steps = frame.values_of(timed(replicate, name).step_trace)
        if len(steps):
            kept = frame.decimate(steps, limit)
            curves.append((number, np.cumsum(steps)[kept], steps[kept]))
    return _Row("Step time", "s", from_zero=False, curves=tuple(curves)) if curves else None


def _lines(row: _Row, place: int, rows: int, layout: frame.Figure) -> list[frame.Figure]:
    """Add one row's axis to the layout and give its lines, one for each process."""
    most = max((float(values.max()) for _, _, values in row.curves), default=0.0)
    factor, label = formats.scale(row.unit, most)
    own_axis = "y" if place == 0 else f"y{place + 1}"
    top = 1 - place / rows
    layout[f"yaxis{'' if place == 0 else place + 1}"] = frame.value_axis(
        "",
        domain=[top - 1 / rows + 0.02, top - 0.07],
        rangemode="tozero" if row.from_zero else "normal",
        autorangeoptions={"include": [most * factor * 0.98, most * factor * 1.02]},
        nticks=4,
    )
    notes = layout.setdefault("annotations", [])
    assert isinstance(notes, list)
    notes.append(frame.heading(f"{row.title}, {label}", top - 0.065))
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "name": f"process {number}",
            "legendgroup": f"process {number}",
            "showlegend": place == 0,
            "x": times,
            "y": values * factor,
            "yaxis": own_axis,
            "line": {"color": f"var(--c{(number - 1) % 4 + 1})", "width": 1.5},
            "hovertemplate": f"%{{y:,.4~g}} {label}<extra>{row.title}, process {number}</extra>",
        }
        for number, times, values in row.curves
    ]


def _curve(
    readings: contracts.Telemetry, channel: str, limit: int
) -> tuple[frame.Floats, frame.Floats]:
    if channel not in readings.channels:
        return np.empty(0), np.empty(0)
    times, values = frame.values_of(readings.t_s), frame.values_of(readings.channels[channel])
    if len(times) != len(values):
        return np.empty(0), np.empty(0)
    kept = frame.decimate(values, limit)
    return times[kept], values[kept]
