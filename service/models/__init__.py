"""Tables, a file per noun. Dimensions are data: no axis, metric or fingerprint key is a column."""

from service.models.columns import NAMING, Base, UtcDateTime
from service.models.events import JobEvent
from service.models.jobs import Attempt, IdempotencyKey, Job, Requirement, Submission, WorkerRow
from service.models.results import EnvironmentRow, Point, ResultRow, Revision, SeriesRow
from service.models.schedules import Schedule, Slot

__all__ = [
    "NAMING",
    "Attempt",
    "Base",
    "EnvironmentRow",
    "IdempotencyKey",
    "Job",
    "JobEvent",
    "Point",
    "Requirement",
    "ResultRow",
    "Revision",
    "Schedule",
    "SeriesRow",
    "Slot",
    "Submission",
    "UtcDateTime",
    "WorkerRow",
]
