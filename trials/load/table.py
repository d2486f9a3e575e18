"""The rows of `make load` as the table of their README.md: every run, the bad ones too.

Runs of one plan, code and day stand in one line, in the order in which they were made. Nothing is
averaged and nothing left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from service.wording import formats

Row = dict[str, Any]
BEGIN = "<!-- The table below is made from the rows: python -m trials.load table --write -->"
END = "<!-- The end of that table -->"
_DAY = len("2026-11-23")
SENT_LATE_S = 1.0
"""A run that ends so much later than its last request was due did not keep up."""
_WARM_UP_S = 2.0
_SHAPES = {
    "real": "real results, {kib:.0f} KiB on average",
    "metrics": "200 metrics",
    "steps": "one made body, {kib:.0f} KiB",
}


def rows_of(path: Path) -> list[Row]:
    """The rows of one file, as they were appended."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def whole(folder: Path) -> str:
    """Both tables, between the marks."""
    traffic = [row for name in ("traffic", "traffic-16-cores") for row in _named(folder, name)]
    parts = (BEGIN, of_traffic(traffic), of_claims(_named(folder, "claims")), END)
    return "\n\n".join(parts)


def replaced(document: str, table: str) -> str:
    """``document`` with this table in place of the one that it has.

    Raises:
        ValueError: the marks are not there, once each and in their order.
    """
    before, begun, rest = document.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not (begun and ended) or BEGIN in after or END in after:
        raise ValueError("the document has lost the marks of its table; put them back")
    return before + table + after


def of_traffic(rows: Iterable[Row]) -> str:
    """One line for each plan, code and day."""
    lines = [
        "| day, code | processors | load | runs | results, p50 | results, p99 | of the worst 10 s "
        "| heartbeats, p99 | claims, p99 | answered |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for group in _groups(rows, _plan):
        first = group[0]
        lines.append(
            f"| {_day(first)} | {_processors(first)} | {_load(first)} | {len(group)} "
            f"| {_times(group, 'result', 'p50_s')} | {_times(group, 'result', 'p99_s')} "
            f"| {_worst(group)} | {_times(group, 'heartbeat', 'p99_s')} "
            f"| {_times(group, 'claim', 'p99_s')} | {_answered(group)} |"
        )
    return "\n".join(lines)


def of_claims(rows: Iterable[Row]) -> str:
    """One line for each database, code and day."""
    lines = [
        "| day, code | database | jobs queued | runs | claim, p50 | claim, p99 | slowest |",
        "|---|---|---|---|---|---|---|",
    ]
    for group in _groups(rows, lambda row: (_day(row), row["database"], row["jobs"])):
        times = " | ".join(_spread(group, name) for name in ("p50_s", "p99_s", "max_s"))
        first = group[0]
        lines.append(
            f"| {_day(first)} | {first['database']} | {first['jobs']:,} | {len(group)} | {times} |"
        )
    return "\n".join(lines)


def _named(folder: Path, name: str) -> list[Row]:
    return rows_of(folder / f"{name}.jsonl")


def _groups(rows: Iterable[Row], key: Callable[[Row], object]) -> list[list[Row]]:
    """Rows of one key, in the order of the first of each."""
    groups: dict[object, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return list(groups.values())


def _plan(row: Row) -> tuple[object, ...]:
    names = ("database", "shape", "results_per_s", "seconds", "replicas", "workers", "claims_per_s")
    return (_day(row), _processors(row), *(row.get(name) for name in names))


def _day(row: Row) -> str:
    code = row.get("commit") or row.get("revision")
    return (row["at"][:_DAY] if "at" in row else "not noted") + (f", {code}" if code else "")


def _processors(row: Row) -> str:
    return str(row["cores"] if "cores" in row else row["machine"]["cpus"])


def _load(row: Row) -> str:
    shape = _SHAPES[row["shape"]].format(kib=row["body_b"] / 1024)
    replicas = "" if row["replicas"] == 1 else f", {row['replicas']} processes"
    claims = f", {row['claims_per_s']:g} claims/s" if row.get("claims_per_s") else ""
    return (
        f"{row['database']}{replicas}: {row['results_per_s']:g} results/s ({shape}), heartbeats of "
        f"{row['workers']:,} workers{claims}, {row['seconds']:g} s"
    )


def _times(rows: Sequence[Row], kind: str, name: str) -> str:
    return _spread([row[kind] for row in rows if row.get(kind)], name)


def _worst(rows: Sequence[Row]) -> str:
    """The highest p99 of ten seconds in each run."""
    parts = (row.get("result_p99_s_by_10_s") for row in rows)
    return ", ".join(_written(max(part)) for part in parts if part) or formats.DASH


def _spread(rows: Sequence[Row], name: str) -> str:
    return ", ".join(_written(row[name]) for row in rows) or formats.DASH


def _written(value_s: float) -> str:
    return f"{value_s:.1f} s" if value_s >= 1 else f"{value_s * 1e3:.0f} ms"


def _answered(rows: Sequence[Row]) -> str:
    """Whether all was answered as fast as it was sent, and well."""
    return "; ".join(dict.fromkeys(map(_outcome, rows)))


def _outcome(row: Row) -> str:
    late_s = row["wall_s"] - row["seconds"] - _WARM_UP_S
    bad = sum(
        count for answer, count in row["answers"].items() if answer.split()[1] not in ("200", "201")
    )
    if bad:
        return f"{bad:,} not"
    if late_s < SENT_LATE_S:
        return "all, as sent"
    return f"all, at {sum(row['answers'].values()) / row['wall_s']:.0f} requests/s"
