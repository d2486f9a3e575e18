"""Makes the points of a run: every reader's values pass here and become the internal record."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from pydantic import ValidationError

from benchmarks.contracts import Direction
from cli.formats.node import Node
from cli.formats.source import Source
from cli.formats.text import printable
from service.schemas.measured_elsewhere import ForeignPoint

MOST_VALUES: Final = 10_000
"""Samples of a point; of more, evenly spread ones are kept."""
THINNED: Final = f"with more than {MOST_VALUES:,} samples, of which evenly spread ones were kept"
FAILED: Final = "failed"
SKIPPED: Final = "skipped by the tool"
NO_NUMBER: Final = "without a number"

_HIGHER_UNIT = re.compile(r"(?i)(/ ?(s|sec|seconds?|min|h|hour)|per[ _]sec(ond)?|flop/?s|[bi]ps)$")
_HIGHER_NAME = re.compile(
    r"(?i)throughput|speed_?up|accuracy|bandwidth|per_sec(ond)?|flops|hit_rate|"
    r"(?<![a-z])(qps|tps|ips|fps|ops|mfu)(?![a-z])"
)


def assumed_direction(metric: str, unit: str) -> Direction:
    """Guess from words: rates and accuracies are better when higher, all else when lower."""
    rate = _HIGHER_UNIT.search(unit) or _HIGHER_NAME.search(metric)
    return Direction.HIGHER if rate else Direction.LOWER


@dataclass(frozen=True)
class Metric:
    """A measured benchmark. Without a direction, `assumed_direction` gives it."""

    name: str
    unit: str = ""
    direction: Direction | None = None


@dataclass(frozen=True)
class Run:
    """The common facts of all points of one run."""

    source: Source
    revision: str | None = None
    at: datetime | None = None
    committed_at: datetime | None = None
    machine: Mapping[str, str] = field(default_factory=dict)

    def point(
        self,
        origin: Node,
        benchmark: str,
        metric: Metric,
        values: Sequence[float],
        parameters: Mapping[str, str] | None = None,
        bounds: tuple[float | None, float | None] = (None, None),
    ) -> ForeignPoint:
        """One point of this run.

        Raises:
            FormatError: a value is not one that the record can hold; names ``origin``.
        """
        if len(values) > MOST_VALUES:
            self.source.tally[THINNED] += 1
            values = values[:: math.ceil(len(values) / MOST_VALUES)]
        try:
            return ForeignPoint(
                benchmark=printable(benchmark),
                parameters={k: printable(v) for k, v in (parameters or {}).items()},
                metric=printable(metric.name),
                unit=printable(metric.unit),
                direction=metric.direction or assumed_direction(metric.name, metric.unit),
                values=tuple(values),
                low=bounds[0],
                high=bounds[1],
                revision=self.revision,
                at=self.at,
                committed_at=self.committed_at,
                machine={k: printable(v)[:500] for k, v in self.machine.items()},
            )
        except ValidationError as problem:
            raise origin.refuse(fault(problem)) from None


def fault(problem: ValidationError) -> str:
    """The first fault of a record in words, without its value."""
    first = problem.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(str(part) for part in first["loc"] if part != "[key]")
    said = first["msg"].removeprefix("Value error, ")
    return f"{where}: {said}." if where else f"{said}."


def figure(samples: Node | None, summary: Node) -> list[float]:
    """The samples where the tool kept them, else its one figure."""
    values = samples.numbers() if samples is not None else []
    return values or [summary.number()]


def bound(node: Node | None) -> float | None:
    """A bound as the tool gave it; None where it is no finite number."""
    return node.finite() if node else None
