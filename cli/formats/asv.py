"""asv's results: a folder with ``benchmarks.json``, or one result file in it (version 2)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Final

from benchmarks.contracts import Direction
from cli.formats.node import Node
from cli.formats.point import FAILED, SKIPPED, Metric, Run, assumed_direction, bound
from cli.formats.problem import FormatError
from cli.formats.source import Source
from service.schemas.measured_elsewhere import ForeignPoint

VERSION: Final = "asv version"
"""The parameter that holds a benchmark's version: a changed one begins another history."""
_DECLARED: Final = "benchmarks.json"
_UNITS: Final = {"seconds": "s", "bytes": "B"}
_LOWER_KINDS: Final = frozenset({"time", "timeraw", "memory", "peakmemory"})


def recognises(source: Source) -> bool:
    """True for a folder with ``benchmarks.json``, or an object with ``result_columns``."""
    if source.is_folder:
        return (source.path / _DECLARED).is_file()
    return source.has("result_columns")


def read(source: Source) -> Iterator[ForeignPoint]:
    """One point for each benchmark and combination of its parameters that gave a number."""
    folder = source.path if source.is_folder else source.path.parent.parent
    declared = source.other(folder / _DECLARED)
    before: dict[object, Path] = {}
    for path in _files(source):
        document = source.other(path) if source.is_folder else source.require_document()
        run = (document["commit_hash"].value, document["env_name"].value, path.parent)
        if run in before:
            raise FormatError(f"is of the same run as {before[run]}: remove one.", path)
        before[run] = path
        yield from _results(source, document, declared)


def _files(source: Source) -> list[Path]:
    if not source.is_folder:
        return [source.path]
    return sorted(p for p in source.path.glob("*/*.json") if p.name != "machine.json")


@dataclass(frozen=True)
class _Benchmark:
    """One row of results: what was measured, and its columns by name."""

    name: str
    metric: Metric
    parameters: list[dict[str, str]]
    columns: dict[str, Node]

    def cell(self, column: str, index: int) -> Node | None:
        """The content of a column for one combination of parameters."""
        node = self.columns.get(column)
        if node is None or node.value is None:
            return None
        cells = node.value
        if not isinstance(cells, list) or len(cells) != len(self.parameters):
            raise node.refuse(f"must be a list of {len(self.parameters)}, one a combination.")
        return None if cells[index] is None else Node(cells[index], node.path, node, index)


def _results(source: Source, document: Node, declared: Node) -> Iterator[ForeignPoint]:
    if document["version"].value != 2:
        raise document["version"].refuse("must be 2: let `asv update` convert older results.")
    columns = [column.text() for column in document["result_columns"].elements()]
    shared = Run(
        source,
        revision=document["commit_hash"].text(),
        committed_at=document["date"].moment_after_1970(),
        machine={
            **document["params"].facts(),
            **{k: document[k].as_text() for k in ("env_name", "python")},
        },
    )
    for name, row in document["results"].items():
        if not declared.is_object(name):  # the benchmark was removed, its results stayed
            source.tally[f"in {_DECLARED} no more"] += 1
            continue
        benchmark = _benchmark(name, dict(zip(columns, row.elements(), strict=False)), declared)
        started = benchmark.columns.get("started_at")
        at = started.moment_after_1970() if started and started.value is not None else None
        yield from _points(replace(shared, at=at), benchmark)


def _benchmark(name: str, columns: dict[str, Node], declared: Node) -> _Benchmark:
    said = declared[name]
    unit = said["unit"].text()
    unit = _UNITS.get(unit, unit)
    lower = said["type"].text() in _LOWER_KINDS
    metric = Metric(
        said["type"].text(), unit, Direction.LOWER if lower else assumed_direction(name, unit)
    )
    names = [node.text() for node in said["param_names"].elements()]
    values = [[v.text() for v in axis.elements()] for axis in columns["params"].elements()]
    version = columns.get("version")
    fixed = {VERSION: version.as_text()} if version else {}
    combinations = [
        {**dict(zip(names, chosen, strict=False)), **fixed} for chosen in product(*values)
    ]
    return _Benchmark(name, metric, combinations, columns)


def _points(run: Run, benchmark: _Benchmark) -> Iterator[ForeignPoint]:
    result = benchmark.columns["result"]
    if result.value is None:
        run.source.tally[FAILED] += len(benchmark.parameters)
        return
    for index, parameters in enumerate(benchmark.parameters):
        value = benchmark.cell("result", index)
        if value is None or value.value != value.value:  # NaN alone
            run.source.tally[FAILED if value is None else SKIPPED] += 1
            continue
        samples = benchmark.cell("samples", index)
        ends = [benchmark.cell(f"stats_ci_99_{end}", index) for end in "ab"]
        yield run.point(
            value,
            benchmark.name,
            benchmark.metric,
            samples.numbers() if samples and samples.value else [value.number()],
            parameters,
            (bound(ends[0]), bound(ends[1])),
        )
