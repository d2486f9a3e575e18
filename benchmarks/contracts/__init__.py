"""What crosses a boundary: frozen values that service, worker and child process all read.

Base units everywhere: seconds, bytes, hertz, watts, joules, and plain ratios. Units are formatted
only where a person reads them. Nothing here knows torch, a database or a clock.
"""

from benchmarks.contracts.canary import Canary
from benchmarks.contracts.case import Case, Protocol
from benchmarks.contracts.case import Case, Protocol, workload_of
from benchmarks.contracts.compilation import Compilation
from benchmarks.contracts.efficiency import Efficiency, Use, Work
from benchmarks.contracts.job import (
    FINAL_STATES,
    AttemptState,
    Claim,
    Event,
    Heartbeat,
    JobSpec,
    JobState,
    Lease,
    Progress,
    Purpose,
    Renewal,
    Worker,
)
from benchmarks.contracts.measurement import (
    COMPARABILITY,
    Environment,
    Pass,
    Replicate,
    Sample,
    StopReason,
    Telemetry,
    Warmup,
    Window,
)
from benchmarks.contracts.parity import Agreement, Parity, ParityStatus
from benchmarks.contracts.result import Bottleneck, Rejected, Result, Status, Verdict
from benchmarks.contracts.result import Bottleneck, Result, Status, Verdict
from benchmarks.contracts.values import (
    Contract,
    Count,
    Direction,
    Flag,
    Labels,
    Line,
    Moment,
    Name,
    Number,
    Revision,
    Seconds,
    Share,
    Text,
    Trace,
    Value,
    Workload,
)

__all__ = [
    "COMPARABILITY",
    "FINAL_STATES",
    "Agreement",
    "AttemptState",
    "Bottleneck",
    "Canary",
    "Case",
    "Claim",
    "Compilation",
    "Contract",
    "Count",
    "Direction",
    "Efficiency",
    "Environment",
    "Event",
    "Flag",
    "Heartbeat",
    "JobSpec",
    "JobState",
    "Labels",
    "Lease",
    "Line",
    "Moment",
    "Name",
    "Number",
    "Parity",
    "ParityStatus",
    "Pass",
    "Progress",
    "Protocol",
    "Purpose",
    "Rejected",
    "Renewal",
    "Replicate",
    "Result",
    "Revision",
    "Sample",
    "Seconds",
    "Share",
    "Status",
    "StopReason",
    "Telemetry",
    "Text",
    "Trace",
    "Use",
    "Value",
    "Verdict",
    "Warmup",
    "Window",
    "Work",
    "Worker",
    "Workload",
    "workload_of",
]
