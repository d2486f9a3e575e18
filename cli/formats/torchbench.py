"""TorchBench's userbenchmark: ``metrics-*.json`` with the environment and one number a metric."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cli.formats.node import Node
from cli.formats.point import NO_NUMBER, Metric, Run
from cli.formats.source import Source
from service.schemas.measured_elsewhere import ForeignPoint

_PAIR = re.compile(r"(\w+)=(.*?)(?:, (?=\w+=)|$)")
_COMMIT = "pytorch_git_version"


def recognises(source: Source) -> bool:
    """True for an object with ``name``, ``environ`` and ``metrics``."""
    return source.has("name", "environ", "metrics")


def read(source: Source) -> Iterator[ForeignPoint]:
    """One point for each metric; its name gives the parameters where it is a list of ``k=v``."""
    document = source.require_document()
    environment = document["environ"]
    run = Run(
        source,
        revision=environment[_COMMIT].text(),
        machine=environment.facts(without=(_COMMIT,)),
    )
    benchmark = document["name"].text()
    for key, value in document["metrics"].items():
        if value.is_number():
            yield _point(run, benchmark, key, value)
        else:
            source.tally[NO_NUMBER] += 1


def _point(run: Run, benchmark: str, key: str, value: Node) -> ForeignPoint:
    parameters = dict(_PAIR.findall(key))
    metric = Metric(parameters.pop("metric", key))
    given = {name: text for name, text in parameters.items() if text != "None"}
    return run.point(value, benchmark, metric, [value.number()], given)
