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
    """One table by kind of replay, one by the recording of the first kind, one of two culprits."""
    several = [row for row in rows if "others" in row]
    rows = [row for row in rows if "others" not in row]
    first = [row for row in rows if row["kind"] == rows[0]["kind"]]
    by_pool = sorted(first, key=lambda row: row["pool"])
    return "\n\n".join(
        (
            "\n".join(_table("replay", rows, lambda row: row["kind"])),
            f"By recording, {first[0]['kind']}:",
            "\n".join(_table("recording", by_pool, lambda row: row["pool"])),
            "Two culprits:",
            "\n".join(_of_several(several)),
        )
    )


def _of_several(rows: Sequence[Row]) -> Iterator[str]:
    counts = "both named | one | none | another named"
    yield f"| replay | bisections | {counts} | processes, mean (p90) |"
    yield f"|{' --- |' * 7}"
    for kind, group in groupby(rows, lambda row: row["kind"]):
        some = list(group)
        right = [len(_culprits(row) & _named(row)) for row in some]
        wrong = [bool(_named(row) - _culprits(row)) for row in some]
        shares = (*(right.count(count) for count in (2, 1, 0)), wrong.count(True))
        costs = [row["processes"] for row in some]
        cells = " | ".join(f"{count / len(some):.1%}" for count in shares)
        yield (
            f"| {kind} | {len(some)} | {cells} | {fmean(costs):.1f} "
            f"({quantiles(costs, n=10)[-1]:.0f}) |"
        )


def _culprits(row: Row) -> set[int]:
    return {row["culprit"], *row.get("others", ())} - {None}


def _named(row: Row) -> set[int]:
    return {row["named"], *row.get("named_others", ())} - {None}


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
    wrong = sum(bool(_named(row) - _culprits(row)) for row in planted)
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
