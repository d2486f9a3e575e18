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
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy as np
from builders import nested
from builders.marked import replaced
from scipy.special import stdtrit

from benchmarks.contracts import Result
from service.analysis.detection.history import History
from service.analysis.detection.windows import detect
from service.analysis.summary import NORMAL_95, half_width_factor
from service.analysis.variance import MeasuredPoint, spread_of
from trials.detection import labelled
from trials.detection.synthetic import Planted

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "benchmarks" / "results" / "h200"
ROWS = ROOT / "benchmarks" / "results" / "intervals" / "coverage.jsonl"
PAGE = ROWS.parent / "README.md"
PROCESSES = 3
"""Of a point, as the tier `standard` has them."""
LEAST_SESSIONS, LEAST_NIGHTS = 2, 5
"""Before a night is predicted."""
EVERY = 5
"""Of the nights of a labelled history, so many are passed over between two that are predicted."""
TRUTHS = (
    ((1.0, 1.0, 0.0), (3, 10, 1)),
    ((1.0, 0.5, 0.5), (3, 10, 3)),
    ((1.0, 1.0, 1.0), (3, 10, 3)),
    ((1.0, 1.0, 1.0), (3, 5, 5)),
    ((1.0, 1.0, 0.0), (1, 10, 1)),
    ((1.0, 0.5, 0.5), (1, 10, 3)),
    ((1.0, 1.0, 1.0), (1, 10, 5)),
    ((1.0, 1.0, 2.0), (3, 3, 8)),
)
"""What processes, nights and nodes differ by; processes of a night, nights of a node, nodes."""
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
    then: float | None = None
    """How far the night after it lies from that level, where that is known."""


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
    """Nights for which the model says that it does not know."""
    stayed: float | None = None
    """Of the nights that fell out of ``after``, how often the night after did so too: then the
    level had changed, whatever the labels say."""


def main() -> None:
    """Measure all coverage and write it down."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--labelled", type=Path, help="histories with labels, JSON lines")
    arguments = parser.parse_args()
    rows = [*simulated(), *recorded(), *ladders()]
    if arguments.labelled:
        rows += by_suite(labelled.read(arguments.labelled))
    else:
        stored = (Row(**json.loads(line)) for line in ROWS.read_text().splitlines())
        rows += [one for one in stored if one.source.startswith("labelled")]
    ROWS.write_text("".join(json.dumps(asdict(row)) + "\n" for row in rows))
    PAGE.write_text(replaced(PAGE.read_text(), "trials.intervals", table(rows)))
    print(table(rows))


def simulated() -> Iterator[Row]:
    """Yield the coverage where the truth is known."""
    random = np.random.default_rng(SEED)
    for shares, sizes in TRUTHS:
        process, night, node = (UNIT * share for share in shares)
        drawn = (nested.points(random, (process, night, node), sizes) for _ in range(DRAWS))
        told = [
            predicted(points, nested.measured([following] * sizes[0]))
            for points, following in drawn
        ]
        counts = f"{sizes[2]} nodes, {sizes[1]} nights, {sizes[0]} processes"
        parts = f"{process:.2%}, {night:.2%}, {node:.2%} between processes, nights, nodes"
        yield row(f"simulated: {counts}; {parts}", told)


def predicted(points: Sequence[MeasuredPoint], next_one: MeasuredPoint) -> Prediction:
    """Predict a night from all points before it."""
    last = points[-1]
    spread = spread_of(points)
    own = None if last.within is None else NORMAL_95 * last.within
    if last.between is not None:
        own = half_width_factor(last.processes) * last.between
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
    for by, of_points in ((_by_session, ""), (_by_process, ", one process a session")):
        every: list[Prediction] = []
        for name, of_case in sorted(sessions.items()):
            told = [one for metric in ("full", "synth") for one in by(of_case, metric)]
            if told:
                yield row(f"H200: {name}{of_points}", told)
                every += told
        yield row(f"H200: all of these{of_points}", every)


Session = Sequence[dict[str, object]]


def _by_session(of_case: dict[str, list[dict[str, object]]], metric: str) -> Iterator[Prediction]:
    """Predict every point of three processes of a session from the sessions before it."""
    before: list[MeasuredPoint] = []
    for number, session in enumerate(_in_order(of_case)):
        points = [
            _point(session[first : first + PROCESSES], metric)
            for first in range(0, len(session) - PROCESSES + 1, PROCESSES)
        ]
        if number >= LEAST_SESSIONS:
            yield from (predicted(before, one) for one in points)
        before += points


def _by_process(of_case: dict[str, list[dict[str, object]]], metric: str) -> Iterator[Prediction]:
    """Predict one process of each session from one of each session before it, as `nightly` has
    them; in turn every process stands for its session."""
    sessions = _in_order(of_case)
    for turn in range(max(map(len, sessions))):
        points = [_point([session[turn % len(session)]], metric) for session in sessions]
        for number in range(LEAST_SESSIONS, len(points)):
            yield predicted(points[:number], points[number])


def _in_order(of_case: dict[str, list[dict[str, object]]]) -> list[Session]:
    sessions = [sorted(session, key=_moment) for session in of_case.values()]
    return sorted(sessions, key=lambda rows: _moment(rows[0]))


def _point(processes: Session, metric: str) -> MeasuredPoint:
    logs = [math.log(float(str(one[metric]))) for one in processes]
    at = datetime.fromisoformat(_moment(processes[0]))
    return replace(nested.measured(logs, str(processes[0]["gpu"])), at=at)


def _moment(one: dict[str, object]) -> str:
    return str(one["measured_at"])


def ladders() -> Iterator[Row]:
    """Yield what the interval of a single process held of another day's, and what the model did."""
    days: dict[str, list[MeasuredPoint]] = defaultdict(list)
    for name in ("ladder-resnet50", "ladder-nanogpt-unet", "ladder-beside"):
        for line in (RECORDED / f"{name}.jsonl").read_text().splitlines():
            stored = json.loads(line)
            result = Result.model_validate(stored["result"])
            for sample in result.samples:
                if sample.metric in ("throughput", "throughput_synth") and sample.half_widths:
                    days[f"{result.case.key} {sample.metric}"].append(
                        MeasuredPoint(
                            value=sample.values[0],
                            processes=1,
                            between=None,
                            within=sample.half_widths[0] / NORMAL_95 / sample.values[0],
                            node=stored["worker"],
                            at=result.measured_at,
                        )
                    )
    told = [
        predicted(points[:at], points[at])
        for points in days.values()
        for at in range(1, len(points))
    ]
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
    """Predict nights of a stretch without a labelled change, with the levels seen until then."""
    if min(values, default=0.0) <= 0:
        return
    points = [nested.measured([math.log(value)], night=at) for at, value in enumerate(values)]
    for at in range(LEAST_NIGHTS, len(values), EVERY):
        seen = detect(History.of(values[:at]))
        places = [change.index for change in seen.change_points]
        before = [
            replace(one, level=bisect_right(places, number))
            for number, one in enumerate(points[:at])
        ]
        around = seen.noise and float(stdtrit(min(at, 30) - 1, 0.975)) * seen.noise.scale
        told = replace(predicted(before, points[at]), before=around)
        if at + 1 < len(points):
            then = told.off_level + math.log(points[at + 1].value / points[at].value)
            told = replace(told, then=then)
        yield told


def row(source: str, told: Sequence[Prediction]) -> Row:
    """Sum up predictions."""
    before = [(abs(one.off_number), one.before) for one in told if one.before is not None]
    after = [(abs(one.off_level), one.after) for one in told if one.after is not None]
    out = [
        abs(one.then) > one.after
        for one in told
        if one.then is not None and one.after is not None and abs(one.off_level) > one.after
    ]
    stayed = round(sum(out) / len(out), 4) if out else None
    return Row(source, len(told), *_held(before), *_held(after), len(told) - len(after), stayed)


def _held(pairs: Sequence[tuple[float, float]]) -> tuple[float | None, float | None]:
    if not pairs:
        return None, None
    held = sum(off <= width for off, width in pairs) / len(pairs)
    return round(held, 4), round(median(width for _, width in pairs), 6)


def table(rows: Sequence[Row]) -> str:
    """Write the rows as a table."""
    head = ("nights", "predicted", "before", "after", "unknown", "out again")
    lines = ["| " + " | ".join(head) + " |", "| --- " * len(head) + "|"]
    for one in rows:
        sides = [
            "none" if held is None or width is None else f"{held:.1%} (± {width:.2%})"
            for held, width in ((one.before, one.before_width), (one.after, one.after_width))
        ]
        again = "" if one.stayed is None else f"{one.stayed:.0%}"
        cells = (one.source, str(one.predictions), *sides, str(one.unknown), again)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
