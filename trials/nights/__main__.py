"""Simulated nights through the real queue: how soon a small regression is found, and how often
something is found that never happened. ``make bench-nights`` writes the rows and the table.
"""

from __future__ import annotations

import argparse
import json
import logging
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from statistics import median

from builders.marked import replaced
from builders.nights import Team, name_of
from sqlalchemy import select

from benchmarks.contracts import Case
from service.database.migrate import upgrade
from service.database.session import Database
from service.models import FindingRow, FindingSeries, SeriesRow
from service.wording.statements import say_stored

ROWS = Path("benchmarks/results/nights/simulated.jsonl")
PAGE = ROWS.parent / "README.md"
NODES = {"a": 1.0, "b": 1.004, "c": 0.997, "d": 1.001}
NOISE = 0.003
"""Standard deviation between processes; a night has three."""
CASES = tuple(
    Case(
        workload=workload,
        preset="full",
        axes={"workers": workers, **precision, **optimizer},
    )
    for workload, workers, precision, optimizer in product(
        ("resnet50", "nanogpt", "unet"),
        ("2", "4", "8"),
        ({}, {"precision": "bf16"}),
        ({}, {"optimizer": "fused"}),
    )
)
PLANTED_AT, EFFECT = 20, 0.01
NIGHTS = 30
SLOWER = "unet"
"""The workload that becomes slower."""


@dataclass(frozen=True)
class Row:
    """One simulated history."""

    kind: str
    """``quiet`` or ``planted``."""
    seed: int
    series_nights: int
    measured: int
    """Jobs, those that measured again included."""
    false: tuple[str, ...]
    """Findings about something that never happened."""
    waited: tuple[int | None, ...] = ()
    """For each series that became slower: nights until a finding named it; null if none did."""


def main() -> None:
    arguments = _arguments()
    logging.disable(logging.CRITICAL)
    runs = [("quiet", seed) for seed in range(arguments.quiet)]
    runs += [("planted", seed) for seed in range(arguments.planted)]
    with ProcessPoolExecutor(arguments.processes) as pool:
        rows = list(pool.map(simulate, *zip(*runs, strict=True)))
    ROWS.parent.mkdir(parents=True, exist_ok=True)
    ROWS.write_text("".join(json.dumps(asdict(row)) + "\n" for row in rows))
    lines = "\n".join(table(rows))
    PAGE.write_text(replaced(PAGE.read_text(), "bench-nights", lines))
    print(lines)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quiet", type=int, default=10, help="histories in which nothing happens")
    parser.add_argument("--planted", type=int, default=12, help="those with a regression of 1 %%")
    parser.add_argument("--processes", type=int, default=2)
    return parser.parse_args()


def simulate(kind: str, seed: int) -> Row:
    """Thirty nights of thirty-six cases over four nodes."""

    def speed(case: Case, code: int, worker: str, _night: int) -> float:
        slower = kind == "planted" and case.workload == SLOWER and code >= PLANTED_AT
        return 1_000.0 * NODES[worker] * (1.0 - EFFECT if slower else 1.0)

    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/nights.sqlite3"
        upgrade(url)
        database = Database(url)
        team = Team(database, speed, seed=1_000 + seed, noise=NOISE, cases=CASES)
        named: dict[str, int] = {}
        for night in range(NIGHTS):
            team.night(night)
            for case_key in _named(database):
                named.setdefault(case_key, night)
        row = Row(
            kind=kind,
            seed=seed,
            series_nights=NIGHTS * len(CASES),
            measured=team.measured,
            false=tuple(_false(database, kind)),
            waited=tuple(_waited(named)) if kind == "planted" else (),
        )
        database.close()
    if row.measured < row.series_nights:
        raise RuntimeError(f"only {row.measured} of {row.series_nights} results came in")
    return row


def _named(database: Database) -> list[str]:
    """The cases that some finding about this regression names by now."""
    with database.reading() as session:
        case_keys = (
            select(SeriesRow.case_key)
            .join(FindingSeries, FindingSeries.series_id == SeriesRow.id)
            .join(FindingRow, FindingRow.id == FindingSeries.finding_id)
            .where(FindingRow.kind == "regression", FindingRow.first_bad_at.is_not(None))
            .where(SeriesRow.case_key.startswith(f"{SLOWER}:"))
            .where(FindingRow.first_bad >= name_of(PLANTED_AT - 1))
        )
        return list(session.scalars(case_keys.distinct()))


def _waited(named: dict[str, int]) -> Iterator[int | None]:
    for case in CASES:
        if case.workload == SLOWER:
            night = named.get(case.key)
            yield None if night is None else night - PLANTED_AT + 1


def _false(database: Database, kind: str) -> Iterator[str]:
    """Findings about what never happened: any in quiet nights, and any but the planted one."""
    with database.reading() as session:
        for row in session.scalars(select(FindingRow)):
            near = abs(int(row.first_bad[1:]) - PLANTED_AT) <= 1
            if not (kind == "planted" and row.kind == "regression" and near):
                yield say_stored(row.says)


def table(rows: Iterable[Row]) -> list[str]:
    """The figures that the documentation shows."""
    known = list(rows)
    nights = sum(row.series_nights for row in known)
    waited = [nights_waited for row in known for nights_waited in row.waited]
    named_after = sorted(nights_waited for nights_waited in waited if nights_waited is not None)
    again = sum(row.measured - row.series_nights for row in known)
    return [
        "| figure | value |",
        "| --- | --- |",
        f"| series-nights | {nights:,} |",
        f"| false findings per 1,000 series-nights | "
        f"{1_000 * sum(len(row.false) for row in known) / nights:.2f} |",
        f"| nights until a series that became 1 % slower is named, median | "
        f"{f'{median(named_after):g}' if named_after else '-'} |",
        f"| the same, share within two nights | "
        f"{sum(nights_waited <= 2 for nights_waited in named_after) / max(1, len(waited)):.0%} |",
        f"| series never named in ten nights | {waited.count(None)} of {len(waited)} |",
        f"| processes measured again per series-night | {again / nights:.2f} |",
    ]


if __name__ == "__main__":
    main()
