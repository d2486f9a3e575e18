"""Tables, a file per noun. Dimensions are data: no axis, metric or fingerprint key is a column."""

from service.models.access import AuditEvent, BrowserSession, EnrolmentRow, TokenRow
from service.models.columns import NAMING, Base, Owned, UtcDateTime
from service.models.comparisons import ComparisonRow, ComparisonState, TryRow
from service.models.confirmations import ConfirmationRow, ConfirmationState
from service.models.events import JobEvent
from service.models.findings import FindingEvent, FindingRow, FindingSeries, FindingState
from service.models.jobs import (
    Attempt,
    Eligibility,
    IdempotencyKey,
    Job,
    Requirement,
    Submission,
    WorkerRow,
)
from service.models.levels import Exclusion, JudgementRow, SettledWindow, Unjudged
from service.models.probes import WriteProbe
from service.models.results import EnvironmentRow, Point, ResultRow, Revision, SeriesRow, TraceRow
from service.models.schedules import Schedule, Slot

__all__ = [
    "NAMING",
    "Attempt",
    "AuditEvent",
    "Base",
    "BrowserSession",
    "ComparisonRow",
    "ComparisonState",
    "ConfirmationRow",
    "ConfirmationState",
    "Eligibility",
    "EnrolmentRow",
    "EnvironmentRow",
    "Exclusion",
    "FindingEvent",
    "FindingRow",
    "FindingSeries",
    "FindingState",
    "IdempotencyKey",
    "Job",
    "JobEvent",
    "JudgementRow",
    "Owned",
    "Point",
    "Requirement",
    "ResultRow",
    "Revision",
    "Schedule",
    "SeriesRow",
    "SettledWindow",
    "Slot",
    "Submission",
    "TokenRow",
    "TraceRow",
    "TryRow",
    "Unjudged",
    "UtcDateTime",
    "WorkerRow",
    "WriteProbe",
]
