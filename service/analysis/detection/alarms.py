"""Point by point: what would have been announced, and when, using nothing of the future.

A change is announced when it has stood for ``PATIENCE`` points in a row: what one more point takes
back was never worth a message. It is announced once, wherever later points move it to.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from service.analysis.detection.change import ChangePoint
from service.analysis.detection.history import History
from service.analysis.detection.segment_model import THRESHOLD
from service.analysis.detection.windows import SAME, Detection, extend

PATIENCE = 4
"""Points in a row. Two more than two of them take a third of the false alarms away."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """A change as it was announced."""

    at: int
    """Index of the newest point that had been seen."""
    change: ChangePoint


def replay(history: History, threshold: float = THRESHOLD) -> Iterator[Alarm]:
    """Every alarm of a history that came in point by point."""
    analysed = Detection((), None)
    announced: list[ChangePoint] = []
    stood: list[tuple[ChangePoint, int]] = []
    for count in range(1, len(history.values) + 1):
        analysed = extend(analysed, history.first(count), threshold)
        fresh = [change for change in analysed.change_points if not _known(change, announced)]
        stood = [(change, 1 + _stood(change, stood)) for change in fresh]
        for change, points in stood:
            if points >= PATIENCE:
                announced.append(change)
                yield Alarm(count - 1, change)


def _stood(change: ChangePoint, before: list[tuple[ChangePoint, int]]) -> int:
    return max((points for other, points in before if _known(change, [other])), default=0)


def _known(change: ChangePoint, others: list[ChangePoint]) -> bool:
    return any(
        abs(change.index - other.index) <= SAME and (change.effect > 0) == (other.effect > 0)
        for other in others
    )
