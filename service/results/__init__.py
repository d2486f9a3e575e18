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
from service.results.traces import keep_trace, load_trace, with_trace
from service.results.values import (
    Failure,
    KeptTrace,
    Origin,
    Place,
    ResultSummary,
    Series,
    SeriesPoint,
    StoredResult,
    TraceState,
)
from service.results.write import digest_of, points_of, record, series_of, written

__all__ = [
    "Beside",
    "Failure",
    "KeptTrace",
    "Origin",
    "Place",
    "ResultSummary",
    "Series",
    "SeriesPoint",
    "StoredResult",
    "TraceState",
    "counted_results",
    "digest_of",
    "failures_of_revisions",
    "keep_trace",
    "latest_of_each_series",
    "list_results",
    "list_series",
    "load_environment",
    "load_result",
    "load_series",
    "load_trace",
    "measured_at",
    "measured_in",
    "neighbours_of",
    "page_of_points",
    "points_of",
    "points_of_revisions",
    "record",
    "series_of",
    "taken_out",
    "with_trace",
    "written",
]
