"""MLPerf training logs: ``:::MLLOG`` and a JSON object, in lines among any others."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from benchmarks.contracts import Direction
from cli.formats.node import Node
from cli.formats.point import FAILED, Metric, Run
from cli.formats.problem import FormatError
from cli.formats.source import Source, parsed
from service.schemas.measured_elsewhere import ForeignPoint

_MARK: Final = re.compile(r"[^{\n]*:::MLLOG (?=\{)")
_SETTINGS: Final = re.compile(
    r"global_batch_size|gradient_accumulation_steps|max_sequence_length|opt_"
)
"""Keys that say what was run. A seed does not: it would make each run a history of its own."""

Events = dict[str, list[Node]]


def recognises(source: Source) -> bool:
    """True for text with a line of ``:::MLLOG``."""
    return any(map(_MARK.match, source.lines()))


def read(source: Source) -> Iterator[ForeignPoint]:
    """Time to train, the last accuracy, and the tracked statistics in their order."""
    events = _events(source)
    benchmark, start, stop = (
        _only(source, events, key) for key in ("submission_benchmark", "run_start", "run_stop")
    )
    if stop["metadata"]["status"].value != "success":
        source.tally[FAILED] += 1
        return
    name = benchmark["value"].text()
    parameters = {k: e[0]["value"].as_text() for k, e in events.items() if _SETTINGS.match(k)}
    run = Run(source, at=start["time_ms"].moment_after_1970(), machine=_machine(events))
    took = stop["time_ms"].number() - start["time_ms"].number()
    time = Metric("time to train", "ms", Direction.LOWER)
    yield run.point(stop, name, time, [took], parameters)
    if accuracies := events.get("eval_accuracy"):
        accuracy = Metric("eval_accuracy", "", Direction.HIGHER)
        last = accuracies[-1]["value"]
        yield run.point(last, name, accuracy, [last.number()], parameters)
    for metric, values in _tracked(events).items():
        numbers = [value.number() for value in values]
        yield run.point(values[0], name, Metric(metric), numbers, parameters)


def _events(source: Source) -> Events:
    found: Events = defaultdict(list)
    for number, line in enumerate(source.lines(), start=1):
        if mark := _MARK.match(line):
            event = parsed(
                " " * mark.end() + line[mark.end() :].removesuffix("\n"), source.path, number
            )
            found[event["key"].text()].append(event)
    return found


def _only(source: Source, events: Events, key: str) -> Node:
    found = events.get(key, [])
    if not found:
        raise FormatError(f"has no {key}: the log was cut off.", source.path)
    if len(found) > 1:
        raise found[1].refuse(f"is a second {key}: keep each run in a file of its own.")
    return found[0]


def _machine(events: Events) -> dict[str, str]:
    keys = ("submission_platform", "submission_org", "submission_division", "submission_status")
    return {key: events[key][0]["value"].as_text() for key in keys if key in events}


def _tracked(events: Events) -> dict[str, list[Node]]:
    found: dict[str, list[Node]] = defaultdict(list)
    for event in events.get("tracked_stats", []):
        for name, value in event["value"].items():
            if value.is_number():
                found[name].append(value)
    return found
