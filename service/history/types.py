"""Results and series as they are read back: frozen values, free of the database."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from benchmarks.contracts import Case, Purpose, Result


@dataclass(frozen=True, slots=True)
class Failure:
    """A counted result for the history that has no numbers to compare."""

    case: Case
    """As asked for."""
    revision: str
    status: str
    comparability: dict[str, str]
    project: str = ""


@dataclass(frozen=True, slots=True)
class TraceState:
    """The state of a profiler's trace that was asked for."""

    size_b: int | None = None
    """As it is kept, compressed; None if it is not there."""
    digest: str | None = None
    """SHA-256 of that."""
    absent: str = ""
    """Why it is not there."""


@dataclass(frozen=True, slots=True)
class KeptArtifact:
    """A trace or log that was delivered."""

    result_id: str
    size_b: int
    created: bool
    """False if the same one was here before."""


@dataclass(frozen=True, slots=True)
class StoredResult:
    """A result as it came, and where it came from."""

    id: str
    job_id: str
    attempt: int
    revision: str
    worker: str
    environment: str
    """Digest of the environment; `GET /environments/{digest}` gives its facts."""
    counted: bool
    """False for a late result: kept and shown, never in a series."""
    replicate: int
    """Which of its case's processes it is of, from 1."""
    received_at: datetime
    result: Result
    trace: TraceState | None = None
    """The profiler's trace, where `with_artifacts` has looked for it and somebody asked for one."""
    log_size_b: int | None = None
    """Bytes of its whole log, compressed, if it failed and `log_tail` is only the end."""
    project: str = ""
    parts: tuple[str, ...] = ()
    """The results of the replicates that are one point with it, itself among them."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The attempt that a result is of, and the case that its job is a replicate of."""

    job_id: str
    attempt: int
    worker: str
    revision: str
    purpose: Purpose
    project: str
    group_id: str
    replicate: int
    replicates: int


@dataclass(frozen=True, slots=True)
class ResultSummary:
    """A result as a list shows it."""

    id: str
    job_id: str
    attempt: int
    case_key: str
    revision: str
    worker: str
    status: str
    reason: str
    counted: bool
    replicate: int
    measured_at: datetime
    received_at: datetime
