"""``python -m trials.intervals``: how often the next night falls where a number's interval says.

The future is left out: each night is predicted from those before it alone. ``before`` is the
interval that stood beside a number without this model, ``after`` that of `variance.Spread`. Writes
rows to ``benchmarks/results/intervals/coverage.jsonl`` and the table into the README.md beside it.
``--labelled FILE`` adds recorded nights with labelled changes (``trials.detection.labelled``), of
which the counts alone are kept.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy as np
from builders.marked import replaced
from scipy.special import stdtrit

from service.analysis.detection.history import History
from service.analysis.detection.windows import detect
from service.analysis.summary import half_width_factor
from service.analysis.variance import Measured, spread_of
from trials.detection import labelled
from trials.detection.synthetic import Planted

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "benchmarks" / "results" / "h200"
ROWS = ROOT / "benchmarks" / "results" / "intervals" / "coverage.jsonl"
PAGE = ROWS.parent / "README.md"
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
PROCESSES = 3
"""Of a point, as the tier `standard` has them."""
LEAST_NIGHTS = 5
EVERY = 5
"""Of the nights of a labelled history, so many are passed over between two that are predicted."""
TRUTHS = (
    (1, 10, 3, (0.0, 1.0, 1.0)),
    (3, 10, 3, (0.5, 0.5, 1.0)),
    (3, 10, 3, (1.0, 1.0, 1.0)),
    (5, 5, 3, (1.0, 1.0, 1.0)),
    (5, 10, 1, (1.0, 1.0, 1.0)),
    (8, 3, 3, (2.0, 1.0, 1.0)),
)
"""Nodes, nights of each, processes of a night; deviations of node, night and process."""
UNIT, DRAWS, SEED = 0.003, 4_000, 20


@dataclass(frozen=True)
class Prediction:
    """One night, and what both intervals said of it, as shares of the value."""

    off_number: float
    """How far it lies from the newest number before it."""
    before: float | None
    """Half-width beside that number; None where there was none."""
    off_level: float
    after: float | None
    """Half-width around the level; None where the model says that it does not know."""


@dataclass(frozen=True)
class Row:
    """The predictions of one source."""

    source: str
    predictions: int
    before: float | None
    """Share of next nights in the interval; None where there was none."""
    before_width: float | None
    """Median half-width."""
    after: float | None
    after_width: float | None
    unknown: int
    """Predictions that the model refused."""


def main() -> None:
    """Measure all coverage and write it down."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--labelled", type=Path, help="histories with labels, JSON lines")
    arguments = parser.parse_args()
    rows = [*simulated(), *recorded(), *ladders()]
    if arguments.labelled:
        rows += by_suite(labelled.read(arguments.labelled))
    ROWS.write_text("".join(json.dumps(asdict(row)) + "\n" for row in rows))
    PAGE.write_text(replaced(PAGE.read_text(), "trials.intervals", table(rows)))
    print(table(rows))


def simulated() -> Iterator[Row]:
    """Yield the coverage where the truth is known."""
    random = np.random.default_rng(SEED)
    for nodes, nights, processes, shares in TRUTHS:
        node, night, process = (UNIT * share for share in shares)
        told = []
        for _ in range(DRAWS):
            offsets = random.normal(0, node, nodes + 1)
            drawn = [
                point(offsets[at % nodes] + random.normal(0, night)
                      + random.normal(0, process, processes), f"n{at % nodes}", at // nodes)
                for at in range(nodes * nights)
            ]  # fmt: skip
            new = offsets[-1] + random.normal(0, night) + random.normal(0, process, processes)
            told.append(predicted(drawn, point(new, "new", nights)))
        named = f"simulated: {nodes} nodes, {nights} nights, {processes} processes; node, night, process "
        yield row(named + ", ".join(f"{share * UNIT:.2%}" for share in shares), told)


def point(logs: Sequence[float], node: str, night: int) -> Measured:
    """Make a point of processes with these logarithms."""
    values = np.exp(logs)
    between = float(np.std(values, ddof=1) / np.mean(values)) if len(values) > 1 else None
    at = BEGAN + timedelta(days=night)
    return Measured(float(np.mean(values)), len(values), between, None, node, at)


def predicted(points: Sequence[Measured], next_one: Measured) -> Prediction:
    """Predict a night from all points before it."""
    last = points[-1]
    spread = spread_of(points)
    own = None if last.between is None else half_width_factor(last.processes) * last.between
    return Prediction(
        off_number=math.log(next_one.value / last.value),
        before=own,
        off_level=math.log(next_one.value / spread.level) if spread else math.nan,
        after=spread.next_night(next_one.processes) if spread else None,
    )


def recorded() -> Iterator[Row]:
    """Yield the coverage on an H200's nights: each session was a device of its own."""
    sessions: dict[str, dict[str, list[dict[str, object]]]] = defaultdict(lambda: defaultdict(list))
    for name in ("agreement", "equal"):
        for line in (RECORDED / f"{name}.jsonl").read_text().splitlines():
            one = json.loads(line)
            if one["status"] == "ok" and not (one.get("planted") and one["side"] == "B"):
                place = f"{one['measured_at'][:10]} {one['gpu']}"
                sessions[f"{one['name']}, {one['tier']}"][place].append(one)
    for name, of_case in sorted(sessions.items()):
        told = [one for metric in ("full", "synth") for one in _by_session(of_case, metric)]
        if told:
            yield row(f"H200: {name}", told)


def _by_session(of_case: dict[str, list[dict[str, object]]], metric: str) -> Iterator[Prediction]:
    """Predict every point of three processes of a session from the sessions before it."""
    before: list[Measured] = []
    known = 0
    for session in sorted(
        of_case.values(), key=lambda rows: min(str(one["measured_at"]) for one in rows)
    ):
        logs = [math.log(float(str(one[metric]))) for one in sorted(session, key=_moment)]
        began = datetime.fromisoformat(_moment(session[0]))
        chunks = [
            logs[at : at + PROCESSES] for at in range(0, len(logs) - PROCESSES + 1, PROCESSES)
        ]
        points = [_placed(point(chunk, str(session[0]["gpu"]), 0), began) for chunk in chunks]
        if known >= 2:
            yield from (predicted(before, one) for one in points)
        before += points
        known += bool(points)


def _placed(one: Measured, at: datetime) -> Measured:
    return Measured(one.value, one.processes, one.between, one.within, one.node, at)


def _moment(one: dict[str, object]) -> str:
    return str(one["measured_at"])


def ladders() -> Iterator[Row]:
    """Yield what the interval of a single process held of another day's, and what the model says."""
    days: dict[str, list[Measured]] = defaultdict(list)
    widths: dict[str, list[float]] = defaultdict(list)
    for name in ("ladder-resnet50", "ladder-nanogpt-unet", "ladder-beside"):
        for line in (RECORDED / f"{name}.jsonl").read_text().splitlines():
            stored = json.loads(line)
            result = stored["result"]
            key = json.dumps(result["case"], sort_keys=True)
            for sample in result["samples"]:
                if sample["metric"] in ("throughput", "throughput_synth") and sample["half_widths"]:
                    series = f"{key} {sample['metric']}"
                    at = datetime.fromisoformat(result["measured_at"])
                    value, half = sample["values"][0], sample["half_widths"][0]
                    within = half / value / 1.96
                    days[series].append(Measured(value, 1, None, within, stored["worker"], at))
                    widths[series].append(half / value)
    told = []
    for series, points in days.items():
        for at in range(1, len(points)):
            one = predicted(points[:at], points[at])
            told.append(
                Prediction(one.off_number, widths[series][at - 1], one.off_level, one.after)
            )
    yield row("H200: one process a case, two days", told)


def by_suite(histories: Iterable[Planted]) -> Iterator[Row]:
    """Yield the coverage on recorded nights between labelled changes, by suite."""
    told: dict[str, list[Prediction]] = defaultdict(list)
    for history in histories:
        ignored = {at for start, end in history.ignore for at in range(start, end)}
        borders = [0, *history.change_points, len(history.values)]
        for start, end in pairwise(borders):
            values = [history.values[at] for at in range(start, end) if at not in ignored]
            told[history.suite] += _of_stretch(values)
    for suite, predictions in told.items():
        yield row(f"labelled: {suite}", predictions)


def _of_stretch(values: Sequence[float]) -> Iterator[Prediction]:
    if min(values, default=0.0) <= 0:
        return
    points = [point([math.log(value)], "n", at) for at, value in enumerate(values)]
    for at in range(LEAST_NIGHTS, len(values), EVERY):
        one = predicted(points[:at], points[at])
        noise = detect(History.of(values[:at])).noise
        before = noise and float(stdtrit(min(at, 30) - 1, 0.975)) * noise.scale
        yield Prediction(one.off_number, before, one.off_level, one.after)


def row(source: str, told: Sequence[Prediction]) -> Row:
    """Sum up predictions."""
    before = [(abs(one.off_number), one.before) for one in told if one.before is not None]
    after = [(abs(one.off_level), one.after) for one in told if one.after is not None]
    return Row(source, len(told), *_held(before), *_held(after), len(told) - len(after))


def _held(pairs: Sequence[tuple[float, float]]) -> tuple[float | None, float | None]:
    if not pairs:
        return None, None
    held = sum(off <= width for off, width in pairs) / len(pairs)
    return round(held, 4), round(median(width for _, width in pairs), 6)


def table(rows: Sequence[Row]) -> str:
    """Write the rows as a table."""
    lines = ["| nights | predicted | before | after | refused |", "| --- | --- | --- | --- | --- |"]
    for one in rows:
        sides = [
            "none" if held is None or width is None else f"{held:.1%} (± {width:.2%})"
            for held, width in ((one.before, one.before_width), (one.after, one.after_width))
        ]
        lines.append(f"| {one.source} | {one.predictions} | {' | '.join(sides)} | {one.unknown} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
