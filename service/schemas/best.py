"""The fastest case of each workload, and whether it overtook another, as the API answers."""

from __future__ import annotations

from datetime import datetime

from benchmarks.contracts import Case
from service.schemas.document import Document
from service.schemas.series import Ratio


class RankedCase(Document):
    """One case by its newest point; ``low`` and ``high`` bound the point's own 95 % interval."""

    case: Case
    series_id: str
    result_id: str
    revision: str
    measured_at: datetime
    value: float
    """Throughput, in the ranking's ``unit``."""
    low: float | None
    high: float | None


class Overtaken(Document):
    """The case that was best before, and by how much today's best is faster."""

    before: RankedCase
    """By its newest point, not by that of the time when it was best."""
    since_revision: str
    """From which on each newest point of today's best was above the newest one of ``before``."""
    since: datetime
    """When that was measured."""
    faster: Ratio
    """Today's best over ``before``; its 95 % interval holds other nights, and other nodes where the
    two were measured on two."""
    gained: float | None
    """Change of today's best since ``before`` led, as a share; null: it was not measured then."""
    lost: float
    """Change of ``before`` since then, likewise."""


class BestCase(Document):
    """The fastest case of a workload and preset on one kind of hardware."""

    workload: str
    preset: str
    sizes: dict[str, str]
    """Axes that make it another training, such as ``batch``; empty: as the preset says."""
    project: str
    """Empty: it belongs to none."""
    comparability: dict[str, str]
    """The hardware, and the kind of data."""
    unit: str
    best: RankedCase
    baseline: RankedCase | None
    """The case with the input of ``best`` and no other axis, else the one with its sizes only; null
    where neither was measured lately."""
    over_baseline: Ratio | None
    """Null where ``best`` is the baseline itself."""
    cases: int
    """Number of cases that were ranked."""
    median: float
    """Throughput of the middle case."""
    worst: float
    as_good: list[RankedCase]
    """Cases that cannot be told from ``best``, the fastest first."""
    overtaken: Overtaken | None
    """Null where the best is what it was or is not surely faster, or the former best failed parity
    or was not measured lately."""
