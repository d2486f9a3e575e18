"""Tables, a file per noun. Dimensions are data: no axis, metric or fingerprint key is a column."""

from service.models.access import AuditEvent, BrowserSession, EnrolmentRow, TokenRow
from service.models.annotations import AnnotationRow
from service.models.bisections import PROBES, BisectionRow
from service.models.changes import AnalysisRow, ChangeRow, Exclusion, PendingAnalysis, SettledWindow
from service.models.columns import Base, ProjectOwned, UtcDateTime
from service.models.comparisons import ComparisonJob, ComparisonRow
from service.models.confirmations import CONFIRMATIONS, ConfirmationRow, ConfirmationState
from service.models.events import JobEvent
from service.models.findings import FindingEvent, FindingRow, FindingSeries
from service.models.jobs import (
    Attempt,
    Eligibility,
    IdempotencyKey,
    Job,
    LabelSet,
    Submission,
    WorkerRow,
)
from service.models.outbox import DeliveryRow, ForgeComment, OutboxEvent
from service.models.probes import WriteProbe
from service.models.results import (
    ArtifactRow,
    CommitRangeRow,
    EnvironmentRow,
    ImportedPoint,
    Point,
    ResultRow,
    Revision,
    SeriesRow,
)
from service.models.schedules import Schedule, ScheduleRun
from service.models.thresholds import ThresholdRow
from service.schemas.bisections import BisectionState
from service.schemas.comparisons import ComparisonState
from service.schemas.findings import FindingState
from service.schemas.outbox import DeliveryState, EventKind

__all__ = [
    "CONFIRMATIONS",
    "PROBES",
    "AnalysisRow",
    "AnnotationRow",
    "ArtifactRow",
    "Attempt",
    "AuditEvent",
    "Base",
    "BisectionRow",
    "BisectionState",
    "BrowserSession",
    "ChangeRow",
    "CommitRangeRow",
    "ComparisonJob",
    "ComparisonRow",
    "ComparisonState",
    "ConfirmationRow",
    "ConfirmationState",
    "DeliveryRow",
    "DeliveryState",
    "Eligibility",
    "EnrolmentRow",
    "EnvironmentRow",
    "EventKind",
    "Exclusion",
    "FindingEvent",
    "FindingRow",
    "FindingSeries",
    "FindingState",
    "ForgeComment",
    "IdempotencyKey",
    "ImportedPoint",
    "Job",
    "JobEvent",
    "LabelSet",
    "OutboxEvent",
    "PendingAnalysis",
    "Point",
    "ProjectOwned",
    "ResultRow",
    "Revision",
    "Schedule",
    "ScheduleRun",
    "SeriesRow",
    "SettledWindow",
    "Submission",
    "ThresholdRow",
    "TokenRow",
    "UtcDateTime",
    "WorkerRow",
    "WriteProbe",
]
