"""Stores a Result, reads it back as a Series."""

from service.results.neighbours import Beside, measured_at, measured_in, neighbours_of
from service.results.read import (
    counted_results,
    failures_of_revisions,
    latest_of_each_series,
    list_results,
    list_series,
    load_environment,
    load_result,
    load_series,
    page_of_points,
    points_of_revisions,
    taken_out,
)
from service.results.values import (
    Failure,
    Origin,
    Place,
    ResultSummary,
    Series,
    SeriesPoint,
    StoredResult,
)
from service.results.write import digest_of, points_of, record, series_of, written

__all__ = [
    "Beside",
    "Failure",
    "Origin",
    "Place",
    "ResultSummary",
    "Series",
    "SeriesPoint",
    "StoredResult",
    "counted_results",
    "digest_of",
    "failures_of_revisions",
    "latest_of_each_series",
    "list_results",
    "list_series",
    "load_environment",
    "load_result",
    "load_series",
    "measured_at",
    "measured_in",
    "neighbours_of",
    "page_of_points",
    "points_of",
    "points_of_revisions",
    "record",
    "series_of",
    "taken_out",
    "written",
]
