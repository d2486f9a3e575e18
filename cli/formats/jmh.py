"""JMH's ``-rf json``: a list of benchmarks, each with a mode and a unit."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.contracts import Direction
from cli.formats.node import Node
from cli.formats.point import Metric, Run, bound
from cli.formats.source import Source
from service.schemas.measured_elsewhere import ForeignPoint


def recognises(source: Source) -> bool:
    """True for a list whose first object has a ``primaryMetric``."""
    document = source.document
    if document is None or not isinstance(document.value, list):
        return False
    return bool(document.value) and next(document.elements()).is_object("primaryMetric")


def read(source: Source) -> Iterator[ForeignPoint]:
    """The iterations of all forks, named for the mode; then the profilers' figures."""
    for result in source.require_document().elements():
        facts = {
            key: result.get(key) for key in ("jmhVersion", "jdkVersion", "vmName", "vmVersion")
        }
        run = Run(source, machine={k: node.as_text() for k, node in facts.items() if node})
        mode, given = result["mode"].text(), result.below("params")
        parameters = {key: value.as_text() for key, value in given.items()}
        if threads := result.get("threads"):
            parameters["threads"] = threads.as_text()
        yield _point(run, result, result["primaryMetric"], mode, parameters)
        for name, measured in result.below("secondaryMetrics").items():
            yield _point(run, result, measured, name, parameters)


def _point(
    run: Run, result: Node, measured: Node, name: str, parameters: dict[str, str]
) -> ForeignPoint:
    unit = measured["scoreUnit"].text()
    rate = unit.startswith("ops/")
    raw, interval = measured.get("rawData"), measured.get("scoreConfidence")
    ends = [bound(end) for end in interval.elements()] if interval else []
    return run.point(
        measured,
        result["benchmark"].text(),
        Metric(name, unit, Direction.HIGHER if rate else Direction.LOWER),
        [value for fork in raw.elements() for value in fork.numbers()]
        if raw
        else [measured["score"].number()],
        parameters,
        (ends[0], ends[1]) if len(ends) == 2 else (None, None),
    )
