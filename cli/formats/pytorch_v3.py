"""PyTorch's OSS benchmark format, version 3: one record a metric, as a list or as JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import BinaryIO, Final

from benchmarks.contracts import Direction
from cli.formats.node import Node
from cli.formats.point import NO_NUMBER, Metric, Run, bound
from cli.formats.source import Source
from service.schemas.measured_elsewhere import ForeignPoint

_ABOUT_BENCHMARK: Final = ("mode", "dtype")
_ABOUT_MODEL: Final = {"model": "name", "model.type": "type", "model.backend": "backend"}
_DIRECTIONS: Final = {direction.value: direction for direction in Direction}


def recognises(source: Source) -> bool:
    """True for records with ``benchmark`` and ``metric`` that has ``benchmark_values``."""
    document = source.first_line or source.document
    if document is None:
        return False
    records = document.value if isinstance(document.value, list) else [document.value]
    first = Node(records[0] if records else None, source.path)
    return first.is_object("benchmark", "metric") and first["metric"].is_object("benchmark_values")


def read(source: Source) -> Iterator[ForeignPoint]:
    """One point for each record that has values."""
    for record in _records(source):
        metric = record["metric"]
        values = metric["benchmark_values"].numbers()
        if not values:
            source.tally[NO_NUMBER] += 1
            continue
        said = metric.below("extra_info")
        yield _run(source, record, said).point(
            record,
            record["benchmark"]["name"].text(),
            _metric(metric["name"].text(), said),
            values,
            _parameters(record),
            (bound(said.get("low")), bound(said.get("high"))),
        )


def _records(source: Source) -> Iterator[Node]:
    if source.first_line is not None and source.first_line is not source.document:
        return source.rows()
    document = source.require_document()
    return document.elements() if isinstance(document.value, list) else iter([document])


def _metric(name: str, said: Node) -> Metric:
    unit, direction = said.get("unit"), said.get("direction")
    return Metric(
        name,
        unit.as_text() if unit else "",
        _DIRECTIONS.get(direction.as_text()) if direction else None,
    )


def _run(source: Source, record: Node, said: Node) -> Run:
    timestamp = record.get("timestamp")
    started = timestamp.moment_after_1970(per_second=1) if timestamp else None
    return Run(
        source,
        revision=record.text_of("head_sha"),
        at=said.moment_of("at") or started,
        committed_at=said.moment_of("committed_at"),
        machine=_machine(record),
    )


def _machine(record: Node) -> dict[str, str]:
    runners, used = record.get("runners"), record.below("dependencies").facts()
    facts = {f"dependencies.{name}": fact for name, fact in used.items()}
    for runner in list(runners.elements())[:1] if runners else []:
        facts |= runner.facts(without=("extra_info",)) | runner.below("extra_info").facts()
    return facts


def _parameters(record: Node) -> dict[str, str]:
    benchmark, model = record["benchmark"], record.below("model")
    said = {key: benchmark.get(key) for key in _ABOUT_BENCHMARK}
    said |= {name: model.get(key) for name, key in _ABOUT_MODEL.items()}
    found = {key: node.as_text() for key, node in said.items() if node is not None}
    return found | benchmark.below("extra_info").facts()


def write(points: Sequence[ForeignPoint], stream: BinaryIO) -> None:
    """Write a list of records. Unit, direction, bounds and times go into ``extra_info``."""
    stream.write(json.dumps([_record(point) for point in points], indent=1).encode())


def _record(point: ForeignPoint) -> dict[str, object]:
    record: dict[str, object] = {
        "schema_version": "v3",
        "benchmark": {"name": point.benchmark, "extra_info": point.parameters},
        "metric": {
            "name": point.metric,
            "benchmark_values": list(point.values),
            "extra_info": _said(point),
        },
        "runners": [{"extra_info": point.machine}] if point.machine else [],
        "dependencies": {},
    }
    if point.revision:
        record["head_sha"] = point.revision
    if point.at:
        record["timestamp"] = int(point.at.timestamp())
    if model := point.parameters.get("model"):
        record["model"] = {"name": model}
    return record


def _said(point: ForeignPoint) -> dict[str, object]:
    said = {
        "unit": point.unit,
        "direction": point.direction.value,
        "low": point.low,
        "high": point.high,
        "at": point.at.isoformat() if point.at else None,
        "committed_at": point.committed_at.isoformat() if point.committed_at else None,
    }
    return {key: value for key, value in said.items() if value is not None}
