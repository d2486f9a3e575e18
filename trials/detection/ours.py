"""Our detector as the bench calls it."""

from __future__ import annotations

from service.analysis.detection.alarms import replay
from service.analysis.detection.history import History
from service.analysis.detection.windows import detect
from trials.detection.synthetic import Planted


def history(series: Planted) -> History:
    """The series as it is analysed."""
    return History.of(series.values, series.direction, series.groups)


def ours(series: Planted) -> list[int]:
    """Change points of the whole history, at the default threshold."""
    return [change.index for change in detect(history(series)).change_points]


def announced(series: Planted) -> list[tuple[int, int]]:
    """Newest point seen and first point of the new level, of every alarm of a replay."""
    return [(alarm.at, alarm.change.index) for alarm in replay(history(series))]
