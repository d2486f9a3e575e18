"""github-action-benchmark's ``data.js``: JavaScript that sets one object, or that object alone."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from benchmarks.contracts import Direction
from cli.formats.node import Node
from cli.formats.point import Metric, Run
from cli.formats.source import Source, parsed
from service.schemas.measured_elsewhere import ForeignPoint

_ASSIGNED: Final = re.compile(r"\s*window\.BENCHMARK_DATA\s*=\s*")
_HIGHER: Final = frozenset({"benchmarkjs", "benchmarkluau", "pytest", "customBiggerIsBetter"})
"""Tools whose figures the action takes as better when higher; of all others, when lower."""


def recognises(source: Source) -> bool:
    """True for ``window.BENCHMARK_DATA =``, or an object with ``lastUpdate`` and ``entries``."""
    return bool(_ASSIGNED.match(source.opening)) or source.has("lastUpdate", "entries")


def read(source: Source) -> Iterator[ForeignPoint]:
    """The figures of all commits. Those of one name in one run are its samples."""
    for suite, entries in _document(source)["entries"].items():
        for entry in entries.elements():
            commit = entry["commit"]
            run = Run(
                source,
                revision=commit["id"].text(),
                at=entry["date"].moment_after_1970(),
                committed_at=commit.moment_of("timestamp"),
            )
            yield from _points(run, suite, entry)


def _document(source: Source) -> Node:
    if not _ASSIGNED.match(source.opening):
        return source.require_document()
    start = _ASSIGNED.match(source.text)
    assert start
    # Blanks in place of the assignment keep lines and columns of errors as they are in the file.
    blanked = re.sub(r"[^\n]", " ", start.group()) + source.text[start.end() :]
    return parsed(blanked.rstrip().removesuffix(";"), source.path)


def _points(run: Run, suite: str, entry: Node) -> Iterator[ForeignPoint]:
    higher = entry["tool"].text() in _HIGHER
    direction = Direction.HIGHER if higher else Direction.LOWER
    figures: dict[tuple[str, str], list[Node]] = defaultdict(list)
    for bench in entry["benches"].elements():
        figures[bench["name"].text(), bench["unit"].text()].append(bench)
    for (name, unit), benches in figures.items():
        yield run.point(
            benches[0],
            f"{suite}/{name}",
            Metric("value", unit, direction),
            [bench["value"].number() for bench in benches],
        )
