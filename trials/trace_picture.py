"""Draws a kept trace as tracks: the loop's phases, the device, and each loader process.

``python -m trials.trace_picture TRACE.json.gz PICTURE.png`` draws the FULL steps, and prints how
long each phase took and for which share of the time the device worked.
"""

from __future__ import annotations

import gzip
import json
import shutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from service.dashboard.figures import Figure

PHASES = ("data", "copy", "forward", "backward", "optimizer")
COLOURS = {
    "data": "#d9480f",
    "copy": "#f59f00",
    "forward": "#1971c2",
    "backward": "#4dabf7",
    "optimizer": "#7048e8",
    "kernels": "#2f9e44",
    "read": "#868e96",
    "collate": "#ced4da",
}
LOOP, DEVICE = "training loop", "device"
JOINED_S = 1e-4
"""Kernels that follow each other so soon are drawn as one."""
WIDTH, HEIGHT = 1_000, 330


@dataclass(frozen=True, slots=True)
class Bar:
    """Something that takes time on a track; seconds from the first FULL step on."""

    track: str
    name: str
    start_s: float
    end_s: float


def bars(trace: Path) -> Iterator[Bar]:
    """Read the bars of the FULL steps."""
    events = json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
    timed = sorted((one for one in events if one.get("ph") == "X"), key=lambda one: one["ts"])
    steps = [one for one in timed if str(one["name"]).startswith("FULL step")]
    from_us, to_us = steps[0]["ts"], steps[-1]["ts"] + steps[-1]["dur"]
    loaders = sorted({one["pid"] for one in timed if one.get("cat") == "loader"})
    for event in timed:
        end_us = event["ts"] + event["dur"]
        if end_us < from_us or event["ts"] > to_us:
            continue
        category, name = event.get("cat"), str(event["name"])
        at = ((event["ts"] - from_us) / 1e6, (end_us - from_us) / 1e6)
        if category == "user_annotation" and name in PHASES:
            yield Bar(LOOP, name, *at)
        elif category in ("kernel", "gpu_memcpy", "gpu_memset"):
            yield Bar(DEVICE, "kernels", *at)
        elif category == "loader":
            yield Bar(f"loader process {loaders.index(event['pid'])}", name, *at)


def joined(found: Iterable[Bar]) -> list[Bar]:
    """Join what follows at once on the device, so that thousands of kernels become a few bars."""
    whole: list[Bar] = []
    for bar in found:
        last = whole[-1] if whole else None
        if last and bar.start_s - last.end_s < JOINED_S:
            whole[-1] = Bar(last.track, last.name, last.start_s, max(last.end_s, bar.end_s))
        else:
            whole.append(bar)
    return whole


def figure(drawn: Iterable[Bar]) -> Figure:
    """Draw the bars, a row for each track."""
    by_name: dict[str, list[Bar]] = {}
    for bar in drawn:
        by_name.setdefault(bar.name, []).append(bar)
    traces = [_trace(name, by_name[name]) for name in sorted(by_name, key=list(COLOURS).index)]
    tracks = {bar.track for some in by_name.values() for bar in some} - {LOOP, DEVICE}
    order = [*sorted(tracks, reverse=True), DEVICE, LOOP]
    legend = {"orientation": "h", "y": 1.15}
    layout = {"barmode": "overlay", "margin": {"t": 10, "b": 40, "r": 20}, "legend": legend}
    y = {"automargin": True, "categoryorder": "array", "categoryarray": order}
    x = {"title": {"text": "s"}, "ticks": "outside", "showgrid": False, "zeroline": False}
    return {"data": traces, "layout": layout | {"xaxis": x, "yaxis": y}, "config": {}}


def _trace(name: str, some: Iterable[Bar]) -> Figure:
    bars = list(some)
    return {
        "type": "bar",
        "name": name,
        "orientation": "h",
        "y": [bar.track for bar in bars],
        "base": [bar.start_s for bar in bars],
        "x": [bar.end_s - bar.start_s for bar in bars],
        "marker": {"color": COLOURS[name], "line": {"width": 0}},
    }


def draw(page: Page, drawn: Iterable[Bar]) -> None:
    """Show the bars in a page of ``WIDTH`` by ``HEIGHT``."""
    page.set_content(f'<body style="margin: 0"><div style="height: {HEIGHT}px"></div></body>')
    page.add_script_tag(path=str(files("service.dashboard") / "static" / "plotly-basic.min.js"))
    page.evaluate("(it) => Plotly.newPlot(document.querySelector('div'), it)", figure(drawn))


def main() -> None:
    """Draw, and print the seconds of each phase."""
    trace, target = map(Path, sys.argv[1:])
    every = list(bars(trace))
    device = joined(bar for bar in every if bar.track == DEVICE)
    others = [bar for bar in every if bar.track != DEVICE]
    loop = [bar for bar in others if bar.track == LOOP]
    whole_s = max(bar.end_s for bar in loop)
    for phase in PHASES:
        print(phase, *(f"{bar.end_s - bar.start_s:.3f}" for bar in loop if bar.name == phase))
    worked_s = sum(min(bar.end_s, whole_s) - max(bar.start_s, 0.0) for bar in device)
    print(f"the device works for {worked_s / whole_s:.1%} of {whole_s:.2f} s")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"))
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        draw(page, [*others, *device])
        page.screenshot(path=str(target))


if __name__ == "__main__":
    main()
