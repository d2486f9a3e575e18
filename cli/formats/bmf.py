"""Bencher Metric Format: an object of benchmarks, each with measures that have a value."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from cli.formats.point import Metric, Run
from cli.formats.problem import FormatError
from cli.formats.source import Source
from service.schemas.measured_elsewhere import ForeignPoint


def recognises(source: Source) -> bool:
    """True for an object of objects of objects with ``value``."""
    document = source.document
    if document is None or not isinstance(document.value, dict) or not document.value:
        return False
    return all(
        isinstance(measures, dict)
        and measures
        and all(isinstance(measure, dict) and "value" in measure for measure in measures.values())
        for measures in document.value.values()
    )


def read(source: Source) -> Iterator[ForeignPoint]:
    """One point for each measure, with its lower and upper value as bounds."""
    run = Run(source)
    for benchmark, measures in source.require_document().items():
        for name, measure in measures.items():
            low, high = measure.get("lower_value"), measure.get("upper_value")
            yield run.point(
                measure,
                benchmark,
                Metric(name),
                [measure["value"].number()],
                bounds=(low.number() if low else None, high.number() if high else None),
            )


def full_name(point: ForeignPoint) -> str:
    """The benchmark with its parameters, which the format has no place for."""
    if not point.parameters:
        return point.benchmark
    return f"{point.benchmark}[{','.join(f'{k}={v}' for k, v in point.parameters.items())}]"


def write(points: Sequence[ForeignPoint], stream: BinaryIO) -> None:
    """Write the median of each point's samples.

    Raises:
        FormatError: a measure would be there twice, as with points of two revisions.
    """
    document: dict[str, dict[str, dict[str, float]]] = {}
    for point in points:
        measures = document.setdefault(full_name(point), {})
        if point.metric in measures:
            raise FormatError(
                f"BMF keeps one value of {point.metric!r} of {full_name(point)!r}: write each "
                "revision, machine and time by itself."
            )
        measures[point.metric] = _measure(point)
    stream.write(json.dumps(document, indent=1).encode())


def _measure(point: ForeignPoint) -> dict[str, float]:
    measure = {"value": statistics.median(point.values)}
    ends = {"lower_value": point.low, "upper_value": point.high}
    return measure | {key: end for key, end in ends.items() if end is not None}
