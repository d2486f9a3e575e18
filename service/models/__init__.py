"""Tables, a file per noun. Dimensions are data: no axis, metric or fingerprint key is a column."""

from service.models.columns import NAMING, Base, UtcDateTime
from service.models.comparisons import ComparisonRow, ComparisonState, TryRow
from service.models.jobs import Attempt, IdempotencyKey, Job, Requirement, Submission, WorkerRow
from service.models.results import EnvironmentRow, Point, ResultRow, Revision, SeriesRow
from service.models.schedules import Schedule, Slot

__all__ = [
    "NAMING",
    "Attempt",
    "Base",
    "ComparisonRow",
    "ComparisonState",
    "EnvironmentRow",
    "IdempotencyKey",
    "Job",
    "Point",
    "Requirement",
    "ResultRow",
    "Revision",
    "Schedule",
    "SeriesRow",
    "Slot",
    "Submission",
    "TryRow",
    "UtcDateTime",
    "WorkerRow",
]
