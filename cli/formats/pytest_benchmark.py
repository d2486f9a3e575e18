"""pytest-benchmark's JSON: ``--benchmark-json`` and ``--benchmark-save``, 3.0 and later."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterator, Sequence
from typing import BinaryIO, Final

from benchmarks.contracts import Direction
from cli.formats.node import Node
from cli.formats.point import Metric, Run, figure
from cli.formats.problem import FormatError
from cli.formats.source import Source
from service.schemas.measured_elsewhere import ForeignPoint

_TIME: Final = Metric("time", "s", Direction.LOWER)
_UNKNOWN: Final = frozenset({"", "unknown", "unversioned"})


def recognises(source: Source) -> bool:
    """True for an object with ``benchmarks`` and ``machine_info``."""
    return source.has("benchmarks", "machine_info")


def read(source: Source) -> Iterator[ForeignPoint]:
    """One point for each benchmark: its rounds where saved, else their median, in seconds."""
    document = source.require_document()
    run = _run(source, document)
    for benchmark in document["benchmarks"].elements():
        stats, parameters = benchmark["stats"], benchmark.below("params")
        yield run.point(
            benchmark,
            _name(benchmark),
            _TIME,
            figure(stats.get("data"), stats["median"]),
            {key: value.as_text() for key, value in parameters.items()},
        )


def _run(source: Source, document: Node) -> Run:
    commit = document.below("commit_info")
    revision, dirty = commit.text_of("id"), commit.get("dirty")
    if dirty and dirty.value is True:
        source.tally["run in a checkout with uncommitted changes"] += 1
    return Run(
        source,
        revision=None if revision in _UNKNOWN else revision,
        at=document.moment_of("datetime", naive_is_utc=True),
        committed_at=commit.moment_of("time"),
        machine=_machine(document),
    )


def _machine(document: Node) -> dict[str, str]:
    """The machine without the clock rate of the moment, which differs each time."""
    facts = document["machine_info"].facts()
    return {key: fact for key, fact in facts.items() if not key.startswith("cpu.hz_actual")}


def _name(benchmark: Node) -> str:
    """The full name without the parameters that pytest puts behind it."""
    name, suffix = benchmark["fullname"].text(), benchmark.text_of("param")
    return name if suffix is None else name.removesuffix(f"[{suffix}]")


def write(points: Sequence[ForeignPoint], stream: BinaryIO) -> None:
    """Write one run of times in seconds.

    Raises:
        FormatError: a point is no time in seconds, or the points are of more than one run.
    """
    for point in points:
        if (point.unit, point.direction) != (_TIME.unit, _TIME.direction):
            raise FormatError(
                f"pytest-benchmark keeps times in seconds alone, and {point.metric!r} of "
                f"{point.benchmark!r} is in {point.unit!r}."
            )
        if _shared(point) != _shared(points[0]):
            raise FormatError(
                "pytest-benchmark keeps one run in a file: write each revision, machine and time "
                "by itself."
            )
    if len({_full_name(point) for point in points}) < len(points):
        raise FormatError("pytest-benchmark keeps one metric of a benchmark: write one of them.")
    stream.write(json.dumps(_document(points), indent=1).encode())


def _shared(point: ForeignPoint) -> object:
    return point.revision, point.at, point.committed_at, point.machine


def _document(points: Sequence[ForeignPoint]) -> dict[str, object]:
    first = points[0] if points else None
    return {
        "machine_info": first.machine if first else {},
        "commit_info": {
            "id": first.revision if first else None,
            "time": first.committed_at.isoformat() if first and first.committed_at else None,
        },
        "benchmarks": [_benchmark(point) for point in points],
        "datetime": first.at.isoformat() if first and first.at else None,
        "version": "5.2.0",
    }


def _suffix(point: ForeignPoint) -> str:
    return "-".join(point.parameters.values())


def _full_name(point: ForeignPoint) -> str:
    return f"{point.benchmark}[{_suffix(point)}]" if point.parameters else point.benchmark


def _benchmark(point: ForeignPoint) -> dict[str, object]:
    name = _full_name(point)
    return {
        "group": None,
        "name": name.rsplit("::", 1)[-1],
        "fullname": name,
        "params": point.parameters or None,
        "param": _suffix(point) if point.parameters else None,
        "extra_info": {},
        "options": {},
        "stats": _stats(point.values),
    }


def _stats(values: Sequence[float]) -> dict[str, object]:
    """The statistics that ``pytest-benchmark compare`` shows of ``values``, in seconds."""
    mean, rounds = math.fsum(values) / len(values), len(values)
    squares = math.fsum((value - mean) ** 2 for value in values)
    quartiles = statistics.quantiles(values, n=4) if rounds > 1 else [values[0]] * 3
    return {
        "min": min(values),
        "max": max(values),
        "mean": mean,
        "stddev": math.sqrt(squares / (rounds - 1)) if rounds > 1 else 0.0,
        "rounds": rounds,
        "median": statistics.median(values),
        "q1": quartiles[0],
        "q3": quartiles[2],
        "iqr": quartiles[2] - quartiles[0],
        "outliers": "0;0",
        "ops": 1 / mean if mean else 0.0,
        "total": math.fsum(values),
        "data": list(values),
        "iterations": 1,
    }
