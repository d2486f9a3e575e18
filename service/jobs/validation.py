"""Checks that a result can be true of its job: what the types alone cannot say."""

from __future__ import annotations

from datetime import UTC, datetime

from benchmarks.contracts import JobSpec, Result, Status, excess
from service.errors import Invalid

_EARLIEST = datetime(1990, 1, 1, tzinfo=UTC)
_LATEST = datetime(2200, 1, 1, tzinfo=UTC)


def check_result(spec: JobSpec, result: Result) -> None:
    """Refuse a result that is not of this job's case or contradicts itself.

    Raises:
        Invalid: it says in one sentence which.
    """
    case, asked = result.case, spec.case
    if (case.workload, case.axes) != (asked.workload, asked.axes):
        raise Invalid("The result is of another case than the job's; post it to its own job.")
    if asked.preset not in ("auto", case.preset):
        raise Invalid("The result is of another preset than the job's; post it to its own job.")
    if result.status is Status.OK and case.preset == "auto":
        raise Invalid("The result does not name the preset that was measured, `full` or `tiny`.")
    if len(result.replicates) > 1 and spec.protocol.replicates > 1:
        raise Invalid("The result is of several replicates; each is a job and has its own result.")
    metrics = [sample.metric for sample in result.samples]
    if len(set(metrics)) != len(metrics):
        raise Invalid("The result has two samples of the same metric; give their values in one.")
    check_time("measured_at", result.measured_at)


def check_size(spec: JobSpec, result: Result, document: bytes) -> None:
    """Refuse a result that is larger than whoever reads it later should pay for.

    Args:
        spec: of the job.
        result: of its process.
        document: the result as JSON.

    Raises:
        Invalid: it says in one sentence how large it is, and what is allowed.
    """
    if too_large := excess(result, document, spec.protocol.replicates):
        raise Invalid(f"The result is too large. {too_large}")


def check_time(name: str, value: datetime) -> None:
    """Refuse a time that no database and no chart can hold.

    Raises:
        Invalid: it lies before 1990 or after 2199.
    """
    if not _EARLIEST <= value < _LATEST:
        raise Invalid(f"{name} must lie between the years 1990 and 2200.")
