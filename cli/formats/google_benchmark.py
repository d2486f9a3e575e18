"""Google Benchmark's JSON: rows of repetitions, and rows that sum them up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from benchmarks.contracts import Direction
from cli.formats.node import Node
from cli.formats.point import FAILED, Metric, Run, assumed_direction
from cli.formats.problem import FormatError
from cli.formats.source import Source
from service.schemas.measured_elsewhere import ForeignPoint

_TIMES: Final = ("real_time", "cpu_time")
_ABOUT_THE_RUN: Final = frozenset(
    {"family_index", "per_family_instance_index", "repetitions", "repetition_index"}
    | {"threads", "iterations"}
)
_PASSING: Final = ("date", "load_avg")
"""Of the context: what says the time, and what differs each time on one machine."""


def recognises(source: Source) -> bool:
    """True for an object with ``context`` and ``benchmarks``."""
    return source.has("context", "benchmarks")


def read(source: Source) -> Iterator[ForeignPoint]:
    """Real time, processor time and each counter of a benchmark, repetition by repetition.

    Aggregate rows are no samples. Where a benchmark has nothing else, its median is its figure.
    """
    document = source.require_document()
    context = document["context"]
    run = Run(source, at=_date(context), machine=context.facts(without=_PASSING))
    for name, rows in _by_benchmark(source, document).items():
        for metric, origin in _metrics(rows[0]):
            values = [row[metric.name].number() for row in rows]
            yield run.point(origin, name, metric, values)


def _date(context: Node) -> datetime | None:
    try:
        return context["date"].moment()
    except FormatError:  # versions before 1.5.1 wrote local time, without its offset
        return None


def _by_benchmark(source: Source, document: Node) -> dict[str, list[Node]]:
    samples: dict[str, list[Node]] = defaultdict(list)
    medians: dict[str, list[Node]] = defaultdict(list)
    for row in document["benchmarks"].elements():
        name = (row.get("run_name") or row["name"]).text()
        if any((flag := row.get(key)) and flag.value for key in ("error_occurred", "skipped")):
            source.tally[FAILED] += 1
        elif not row.is_object("aggregate_name"):
            _refuse_again(row, samples[name])
            samples[name].append(row)
        elif row["aggregate_name"].text() == "median":
            medians[name].append(row)
    return medians | samples


def _refuse_again(row: Node, before: list[Node]) -> None:
    """Refuse a repetition that is there already: another run was appended."""
    if before and row.is_object("repetition_index"):
        index = row["repetition_index"].number()
        if index <= before[-1]["repetition_index"].number():
            raise row.refuse("is there twice: keep each run in a file of its own.")


def _metrics(row: Node) -> Iterator[tuple[Metric, Node]]:
    for key, node in row.items():
        if key in _TIMES:
            yield Metric(key, row["time_unit"].text(), Direction.LOWER), node
        elif key not in _ABOUT_THE_RUN and node.is_number():
            yield Metric(key, "", assumed_direction(key, "")), node
