"""``make bench-detection``: our detector beside what others do, on the synthetic suite.

Writes one row per detector and series to ``benchmarks/results/detection/synthetic.jsonl`` and the
table into the README.md beside it; ``--ours`` keeps the others' rows, which do not change with our
code. Each is asked once about a whole series, and once after every point; the others this only in
noise of one size, as it takes long. ``--seeds`` prints our figures for other seeds of the suite.
``--labelled FILE`` prints, and keeps nowhere, the same for histories with labels (``labelled.py``)
and for steps planted into their residuals (``injected.py``).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from builders.marked import replaced

from trials.detection import injected, labelled, table
from trials.detection.ours import announced, ours
from trials.detection.rivals import RIVALS
from trials.detection.score import TOLERANCE, Row, large_enough
from trials.detection.synthetic import TESTING, TUNING, Planted, suite
from trials.detection.table import OURS

ROOT = Path(__file__).parents[2]
ROWS = ROOT / "benchmarks" / "results" / "detection" / "synthetic.jsonl"
PAGE = ROWS.parent / "README.md"
ONLINE_NOISE = 0.01
LEAST_SEEN = 20
"""Points from which on the others are asked: changes come later than that."""
DETECTORS: dict[str, Callable[[Planted], list[int]]] = {OURS: ours, **RIVALS}


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--labelled", type=Path, help="histories with labels, JSON lines")
    parser.add_argument("--tuning", action="store_true", help="the tuning half; writes nothing")
    parser.add_argument("--only", default="", help="detectors whose name holds this")
    parser.add_argument("--ours", action="store_true", help="analyse anew with our detector alone")
    parser.add_argument("--seeds", type=int, nargs="+", help="other seeds of the suite, ours alone")
    arguments = parser.parse_args()
    chosen = {name: run for name, run in DETECTORS.items() if arguments.only in name}
    if arguments.labelled:
        print(table.by_suite(list(labelled_rows(arguments.labelled, chosen))))
        return
    if arguments.seeds:
        print(table.overall([row for seed in arguments.seeds for row in seed_rows(seed)]))
        return
    histories = list(suite(TUNING if arguments.tuning else TESTING))
    chosen = {OURS: ours} if arguments.ours else chosen
    rows = [row for name, run in chosen.items() for row in analysed(name, run, histories)]
    if arguments.tuning or arguments.only:
        print(table.overall(rows))
        return
    online = [series for series in histories if series.id.endswith(" 0")]
    rows += kept_rows(histories) if arguments.ours else []
    rows += [_online(OURS, series, announced(series)) for series in online]
    rows += [] if arguments.ours else others_online(online)
    keep(rows)


def seed_rows(seed: int) -> Iterator[Row]:
    """Our rows of the suite with another seed."""
    return analysed(f"{OURS}, seed {seed}", ours, suite(seed))


def kept_rows(histories: Sequence[Planted]) -> list[Row]:
    """The others' rows as they were written before."""
    by_id = {series.id: series for series in histories}
    lines = [json.loads(text) for text in ROWS.read_text(encoding="utf-8").splitlines()]
    return [
        Row.of(
            line["detector"],
            by_id[line["series"]],
            line["found"],
            line["took_ms"] / 1000,
            [(at, index) for at, index in line.get("alarms", ())],
        )
        for line in lines
        if not line["detector"].startswith(OURS)
    ]


def analysed(
    name: str,
    run: Callable[[Planted], list[int]],
    histories: Iterable[Planted],
    *,
    labelled: bool = False,
) -> Iterator[Row]:
    """One row per history: what was places, and the processor time that it took."""
    print(f"{name} ...", file=sys.stderr)
    for series in histories:
        started = time.process_time()
        places = run(series)
        took_s = time.process_time() - started
        places = large_enough(series, places) if labelled else places
        yield Row.of(name, series, places, took_s)


def others_online(histories: Iterable[Planted]) -> Iterator[Row]:
    """The others' replays point by point."""
    middle = [series for series in histories if series.noise == ONLINE_NOISE]
    for name, run in RIVALS.items():
        print(f"{name}, point by point ...", file=sys.stderr)
        yield from (_online(name, series, asked_at_every_point(run, series)) for series in middle)


def asked_at_every_point(
    run: Callable[[Planted], list[int]], series: Planted
) -> list[tuple[int, int]]:
    """Newest point seen and first point of the new level, whenever a detector names another one."""
    alarms: list[tuple[int, int]] = []
    for count in range(LEAST_SEEN, len(series.values) + 1):
        for index in run(series.first(count)):
            if all(abs(index - known) > TOLERANCE for _, known in alarms):
                alarms.append((count - 1, index))
    return alarms


def _online(name: str, series: Planted, alarms: Sequence[tuple[int, int]]) -> Row:
    return Row.of(f"{name}{table.ONLINE}", series, [index for _, index in alarms], 0.0, alarms)


def labelled_rows(path: Path, chosen: dict[str, Callable[[Planted], list[int]]]) -> Iterator[Row]:
    """Rows of labelled histories, and of steps planted into their residuals with three seeds."""
    histories = labelled.read(path)
    histories += [series for seed in (1, 2, 3) for series in injected.suite(histories, seed)]
    for name, run in chosen.items():
        yield from analysed(name, run, histories, labelled=True)


def keep(rows: list[Row]) -> None:
    """Write the rows, and the table between its marks on the page."""
    ROWS.parent.mkdir(parents=True, exist_ok=True)
    ROWS.write_text("".join(row.line() for row in rows), encoding="utf-8")
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(replaced(text, "bench-detection", table.page(rows)), encoding="utf-8")


if __name__ == "__main__":
    main()
