"""Rows to Markdown tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from trials.detection.score import TOLERANCE, Row, tally
from trials.detection.synthetic import KINDS, STEPS

OURS = "Throughline, one default"
ONLINE = ", online"
SOON = 10


def page(rows: Sequence[Row]) -> str:
    """Everything that the page shows."""
    offline = [row for row in rows if not row.detector.endswith(ONLINE)]
    return "\n".join([overall(offline), kinds(offline), online(rows)])


def overall(rows: Sequence[Row]) -> str:
    """F1, precision, recall by size, false alarms and time of each detector."""
    head = ["detector", "F1", "precision", "recall"]
    head += [f"at {100 * step:g} %" for step in STEPS if step]
    lines = []
    for name in _names(rows):
        mine = [row for row in rows if row.detector == name]
        count = tally(mine)
        shown = [name, f"{count.f1:.2f}", f"{count.precision:.2f}", f"{count.recall:.2f}"]
        shown += [_share(*count.by_size[step]) for step in sorted(count.by_size)]
        shown += [f"{count.per_thousand:.2f}", f"{median(1000 * row.took_s for row in mine):.1f}"]
        lines.append(shown)
    return _markdown([*head, "false / 1,000 stable points", "ms / series of 200"], lines)


def kinds(rows: Sequence[Row]) -> str:
    """F1 of each detector by kind of noise."""
    lines = []
    for name in _names(rows):
        mine = [row for row in rows if row.detector == name]
        by_kind = (tally(row for row in mine if row.series.kind == kind) for kind in KINDS)
        lines.append([name, *(f"{count.f1:.2f}" for count in by_kind)])
    return _markdown(["F1 by kind of noise", *KINDS], lines)


def by_suite(rows: Sequence[Row]) -> str:
    """F1 and false alarms of each detector on each suite."""
    suites = list(dict.fromkeys(row.series.suite for row in rows))
    lines = []
    for name in _names(rows):
        parts = [
            tally(row for row in rows if row.detector == name and row.series.suite == suite)
            for suite in suites
        ]
        mean = sum(part.f1 for part in parts) / len(parts)
        shown = [f"{part.f1:.3f} ({part.per_thousand:.1f})" for part in parts]
        lines.append([name, *shown, f"{mean:.3f}"])
    return _markdown(["detector", *suites, "mean F1"], lines)


def online(rows: Iterable[Row]) -> str:
    """Delay and false alarms where each detector is asked after every point."""
    online_rows = [row for row in rows if row.detector.endswith(ONLINE)]
    same = {row.series.id for row in online_rows if not row.detector.startswith(OURS)}
    lines = []
    for name in _names(online_rows):
        mine = [row for row in online_rows if row.detector == name]
        lines += [_online(f"{name}, every noise", mine)] if name.startswith(OURS) else []
        some = [row for row in mine if row.series.id in same]
        lines += [_online(name, some)] if some else []
    head = ["asked after every point", "named", "within 10 points", "median delay (points)"]
    return _markdown([*head, "90 %", "false / 1,000 stable points"], lines)


def _online(name: str, mine: Sequence[Row]) -> list[str]:
    delays = sorted(delay for row in mine for delay in _delays(row))
    planted = sum(len(row.series.change_points) for row in mine)
    stable = [row for row in mine if not row.series.change_points]
    false = sum(len(row.alarms) for row in stable)
    points = sum(len(row.series.values) for row in stable)
    return [
        name.replace(ONLINE, ""),
        _share(len(delays), planted),
        _share(sum(delay <= SOON for delay in delays), planted),
        f"{median(delays):.0f}" if delays else "",
        f"{delays[int(0.9 * len(delays))]}" if delays else "",
        f"{1000 * false / max(1, points):.2f}",
    ]


def _delays(row: Row) -> list[int]:
    """Points from each change to the alarm that names it."""
    delays = []
    for change in row.series.change_points:
        near = [at for at, index in row.alarms if abs(index - change) <= TOLERANCE]
        alarms = [at for at in near if at >= change]
        delays += [min(alarms) - change] if alarms else []
    return delays


def _names(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row.detector for row in rows))


def _share(part: int, whole: int) -> str:
    return f"{100 * part / max(1, whole):.0f} %"


def _markdown(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in rows)
