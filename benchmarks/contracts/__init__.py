"""What crosses a boundary: frozen values that service, worker and child process all read.

Base units everywhere: seconds, bytes, hertz, watts, joules, and plain ratios. Units are formatted
only where a person reads them. Nothing here knows torch, a database or a clock.
"""

from benchmarks.contracts.case import Case, Protocol
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
from benchmarks.contracts.result import Bottleneck, Result, Status, Verdict
from benchmarks.contracts.values import (
    Contract,
    Count,
    Direction,
    Labels,
    Line,
    Name,
    Revision,
    Seconds,
    Text,
    Trace,
    Value,
)

__all__ = [
    "COMPARABILITY",
    "FINAL_STATES",
    "AttemptState",
    "Bottleneck",
    "Case",
    "Claim",
    "Contract",
    "Count",
    "Direction",
    "Environment",
    "Event",
    "Heartbeat",
    "JobSpec",
    "JobState",
    "Labels",
    "Lease",
    "Line",
    "Name",
    "Pass",
    "Progress",
    "Protocol",
    "Purpose",
    "Renewal",
    "Replicate",
    "Result",
    "Revision",
    "Sample",
    "Seconds",
    "Status",
    "StopReason",
    "Telemetry",
    "Text",
    "Trace",
    "Value",
    "Verdict",
    "Warmup",
    "Window",
    "Worker",
]
