"""Writes the tables of replayed bisections."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from statistics import fmean, quantiles
from typing import Any

Row = Mapping[str, Any]
_HEAD = (
    "{} | bisections | right | wrong | processes, mean (p90) | builds | without a culprit: "
    "environment | blamed | processes, mean"
)


def page(rows: Sequence[Row]) -> str:
    """One table by kind of replay, one by the pool of recorded pairs of the first kind."""
    first = [row for row in rows if row["kind"] == rows[0]["kind"]]
    by_pool = sorted(first, key=lambda row: row["pool"])
    return "\n\n".join(
        (
            "\n".join(_table("replay", rows, lambda row: row["kind"])),
            f"By recording, {first[0]['kind']}:",
            "\n".join(_table("recording", by_pool, lambda row: row["pool"])),
        )
    )


def _table(name: str, rows: Sequence[Row], key: Callable[[Row], str]) -> Iterator[str]:
    head = _HEAD.format(name)
    yield f"| {head} |"
    yield f"|{' --- |' * (head.count('|') + 1)}"
    for value, group in groupby(rows, key):
        yield f"| {value} | {_cells(list(group))} |"


def _cells(rows: Sequence[Row]) -> str:
    planted = [row for row in rows if row["culprit"] is not None]
    without = [row for row in rows if row["culprit"] is None]
    right = sum(row["named"] == row["culprit"] for row in planted)
    wrong = sum(row["named"] not in (None, row["culprit"]) for row in planted)
    environment = sum(row["outcome"] == "environment" for row in without)
    blamed = sum(row["named"] is not None for row in without)
    costs = [row["processes"] for row in planted]
    return " | ".join(
        (
            f"{len(planted)} + {len(without)}",
            f"{right / len(planted):.1%}",
            f"{wrong / len(planted):.1%}",
            f"{fmean(costs):.1f} ({quantiles(costs, n=10)[-1]:.0f})",
            f"{fmean(row['builds'] for row in planted):.1f}",
            f"{environment / len(without):.1%}",
            f"{blamed / len(without):.1%}",
            f"{fmean(row['processes'] for row in without):.1f}",
        )
    )
