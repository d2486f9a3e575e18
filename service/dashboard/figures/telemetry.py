"""Charts of the device's readings during a pass: clock, power, temperature, load."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks import contracts
from service.dashboard.figures import frame
from service.dashboard.figures.steps import PassName
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
    """Draw the device's clock, power, temperature and load over a pass; None if none was taken."""
    taken = [
        (number, replicate.telemetry[name])
        for number, replicate in enumerate(result.replicates, start=1)
        if name in replicate.telemetry and replicate.telemetry[name].t_s.n
    ]
    present = [c for c in _SHOWN if any(c in readings.channels for _, readings in taken)]
    if not present:
        return None
    last = "y" if len(present) == 1 else f"y{len(present)}"
    layout = frame.frame(
        frame.value_axis("Seconds since the pass began", anchor=last),
        {},
        showlegend=len(taken) > 1,
        hovermode="x unified",
    )
    data: list[frame.Figure] = []
    for row, channel in enumerate(present):
        data += _channel(channel, row, len(present), taken, layout)
    return {"data": data, "layout": layout, "config": frame.CONFIG}


def _channel(
    channel: str,
    row: int,
    rows: int,
    taken: Sequence[tuple[int, contracts.Telemetry]],
    layout: frame.Figure,
) -> list[frame.Figure]:
    """Add one channel's axis to the layout and give its lines, one for each process."""
    title, unit = _CHANNELS[channel]
    limit = frame.points_of_each(len(taken))
    curves = [(n, *_curve(readings, channel, limit)) for n, readings in taken]
    curves = [curve for curve in curves if len(curve[2])]
    most = max((float(values.max()) for _, _, values in curves), default=0.0)
    factor, label = formats.scale(unit, most)
    own_axis = "y" if row == 0 else f"y{row + 1}"
    top = 1 - row / rows
    layout[f"yaxis{'' if row == 0 else row + 1}"] = frame.value_axis(
        "",
        domain=[top - 1 / rows + 0.02, top - 0.07],
        rangemode="tozero" if channel in {"power_w", "utilization"} else "normal",
        autorangeoptions={"include": [most * factor * 0.98, most * factor * 1.02]},
        nticks=4,
    )
    notes = layout.setdefault("annotations", [])
    assert isinstance(notes, list)
    notes.append(frame.heading(f"{title}, {label}", top - 0.065))
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "name": f"process {number}",
            "legendgroup": f"process {number}",
            "showlegend": row == 0,
            "x": times,
            "y": values * factor,
            "yaxis": own_axis,
            "line": {"color": f"var(--c{(number - 1) % 4 + 1})", "width": 1.5},
            "hovertemplate": f"%{{y:,.4~g}} {label}<extra>{title}, process {number}</extra>",
        }
        for number, times, values in curves
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
