"""hyperfine's ``--export-json``: the times of commands, in seconds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from benchmarks.contracts import Direction
from cli.formats.point import Metric, Run, figure
from cli.formats.source import Source
from service.schemas.measured_elsewhere import ForeignPoint

_PROCESSOR: Final = {"user": "user time", "system": "system time"}


def recognises(source: Source) -> bool:
    """True for an object with ``results`` that have a ``command``."""
    results = source.require_document()["results"].value if source.has("results") else None
    return isinstance(results, list) and all(
        isinstance(result, dict) and "command" in result for result in results
    )


def read(source: Source) -> Iterator[ForeignPoint]:
    """The wall time of each command, run by run, and its mean time on the processor."""
    run = Run(source)
    for result in source.require_document()["results"].elements():
        command, parameters = result["command"].text(), result.below("parameters")
        arguments = {key: value.as_text() for key, value in parameters.items()}
        codes = result.get("exit_codes")
        if codes and any(code.value != 0 for code in codes.elements()):
            source.tally["with exit codes other than 0"] += 1
        times = figure(result.get("times"), result["mean"])
        yield run.point(result, command, Metric("time", "s", Direction.LOWER), times, arguments)
        for key, name in _PROCESSOR.items():
            if mean := result.get(key):
                metric = Metric(name, "s", Direction.LOWER)
                yield run.point(result, command, metric, [mean.number()], arguments)
