"""A series as findings look at it: its name, its analysis and its newest points."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy.orm import Session

from service.history.analysis import load_analysis, load_recent_points
from service.history.placed_changes import SeriesAnalysis
from service.history.queries import name_of
from service.history.recent import RecentPoints, without_worker_offset
from service.history.types import SeriesName
from service.models import SeriesRow


@dataclass(frozen=True, slots=True)
class SeriesHistory:
    """A series with its analysis and its newest points."""

    series: SeriesName
    analysis: SeriesAnalysis
    recent: RecentPoints
    values: tuple[float, ...]
    """Of the newest points, without the offsets of their machines."""


class Histories:
    """Reads the history of each series once, for one transaction."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._read: dict[str, SeriesHistory] = {}

    def of(self, series_id: str) -> SeriesHistory:
        """Give the history of a series."""
        if series_id not in self._read:
            self._read[series_id] = load_history(self.session, series_id)
        return self._read[series_id]


def load_history(session: Session, series_id: str) -> SeriesHistory:
    """Read the analysis of a series and its newest points."""
    analysis = load_analysis(session, series_id)
    recent = load_recent_points(session, series_id)
    values = without_worker_offset(recent, analysis.machine_offsets)
    return SeriesHistory(name_of(session.get_one(SeriesRow, series_id)), analysis, recent, values)
