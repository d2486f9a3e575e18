"""The messages between the service and a worker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import Field

from benchmarks.contracts import values
from benchmarks.contracts.case import BESIDE, Case, Protocol
from benchmarks.contracts.commits import Commit, ListedRange
from benchmarks.contracts.duet import Duet, DuetSide
from benchmarks.contracts.gang import GangRank


class Purpose(StrEnum):
    """The use of a result: history or comparison."""

    HISTORY = "history"
    """A point in its series, analysed with the others."""
    COMPARISON = "comparison"
    """Two revisions beside each other; kept and shown, and no point in any series."""


class JobSpec(values.Contract):
    """One case to be measured at one revision."""

    case: Case
    revision: values.Revision
    revision_at: values.Moment | None = None
    """When the revision was made; it orders the history. Without it: when it was first seen."""
    protocol: Protocol = Protocol()
    suite: values.Name | None = None
    purpose: Purpose = Purpose.HISTORY
    requires: values.Labels = Field(default_factory=dict)
    """Labels that the worker must have, word for word."""
    priority: Annotated[int, Field(strict=True, ge=-100, le=100)] = 0
    timeout_s: Annotated[float, Field(strict=True, gt=0, le=86_400)] = 1_800.0
    """Wall-clock limit of one attempt."""
    replicate: Annotated[int, Field(strict=True, ge=1, le=50)] = 1
    """Number of this process among those of the protocol, from 1. Each is a job of its own."""
    rerun_of: values.Id | None = None
    duet: Duet | None = None
    """The baseline that is measured beside the revision in the same job: a pair of a gate."""

    @property
    def needs(self) -> dict[str, str]:
        """Labels that the worker must have: those required, and as many GPUs as the case has."""
        return needed_gpus(self.case) | self.requires


GPUS = "gpus"
"""The label with the number of GPUs that a worker offers to one job; a job may need fewer."""


def needed_gpus(case: Case) -> dict[str, str]:
    """The label that a worker needs for ``case`` because of its GPUs; none for a single one."""
    return {GPUS: str(case.gpus)} if case.gpus > 1 else {}


def meets(has: Mapping[str, str], required: Mapping[str, str]) -> bool:
    """Return True if a worker's labels include all that jobs require; of GPUs more will do."""
    rest = dict(required)
    asked = rest.pop(GPUS, "1")
    offered = has.get(GPUS, "1")
    numbers = asked.isdecimal() and offered.isdecimal()
    enough = int(offered) >= int(asked) if numbers else offered == asked
    return enough and rest.items() <= has.items()


Device = Annotated[
    str, Field(pattern=r"^(cpu|cuda(:\d+)?)$"), values.Worded("must be cpu, cuda or cuda:N")
]


class ProcessSpec(values.Contract):
    """One process of a job, as a supervisor writes it to the standard input of that process."""

    case: Case
    protocol: Protocol = Protocol()
    seed: values.Count = 0
    """Seed of the weights and of the input order."""
    device: Device | None = None
    """Without it the first GPU, or the CPU."""
    data_root: Path | None = None
    """The user's own images or tokens."""
    trace: Path | None = None
    """The file for the profiler's Chrome trace; naming one asks for the profile."""
    beat: tuple[values.Number, values.Number] | None = None
    """Rates of FULL and SYNTH: a case that beats neither is timed and no more."""
    events_fd: values.Count | None = None
    """The descriptor to write an `Event` a line to."""
    duet: DuetSide | None = None
    """Its part, if it is measured in turn with another process."""
    devices: Annotated[tuple[Device, ...], Field(max_length=64)] | None = None
    """One for each rank of a gang; without them those that follow ``device``."""
    gang: GangRank | None = None
    """Its place, if it is a rank; `benchmarks.lead` gives it."""

    def document(self, events_fd: int) -> bytes:
        """JSON with ``events_fd``, and without what is switched off.

        A revision of long ago may not know a switch. ``protocol.trace`` is the worker's: the
        process is told a file instead.
        """
        off = {name for name in (*BESIDE, "account") if not getattr(self.protocol, name)}
        whole = self.model_copy(update={"events_fd": events_fd})
        return whole.model_dump_json(
            exclude={"protocol": off | {"trace"}}, exclude_none=True
        ).encode()


class JobState(StrEnum):
    """The state of a job; the last four are final."""

    QUEUED = "queued"
    LEASED = "leased"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    QUARANTINED = "quarantined"


FINAL_STATES = frozenset(
    {JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED, JobState.QUARANTINED}
)


_OF_A_CASE = (
    JobState.FAILED,
    JobState.QUARANTINED,
    JobState.CANCELLED,
    JobState.RUNNING,
    JobState.LEASED,
    JobState.QUEUED,
    JobState.SUCCEEDED,
)


def leading(states: Iterable[JobState]) -> JobState:
    """The state of a case, by those of its jobs: the worst end, else the furthest on its way."""
    return min(states, key=_OF_A_CASE.index)


class AttemptState(StrEnum):
    """The state of one attempt at a job. ``lost`` ends an attempt, never a job."""

    GRANTED = "granted"
    STARTED = "started"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    LOST = "lost"
    REJECTED = "rejected"


FOLDER = "folder"
"""The label by which a worker's folder is told from that of another worker of the same name."""


MOST_HEADS = 100


class Head(values.Contract):
    """The newest commit of a ref in a repository that a worker builds, or the newest release of a
    package of the target ``upstream``, which stands for its ref."""

    target: values.Name
    ref: Annotated[
        str,
        Field(max_length=200, pattern=r"^refs/[A-Za-z0-9_./+@-]{1,195}$"),
        values.Worded("must be the whole name of a ref, such as refs/heads/main"),
    ]
    commit: Commit
    at: values.Moment
    """When it was committed; when a worker first saw the release."""
    author: values.Line = ""
    title: values.Line = ""
    """The first line of its message."""


class Worker(values.Contract):
    """A worker's description of itself for the service."""

    name: values.Name
    labels: values.Labels = Field(default_factory=dict)
    version: values.Line = ""
    revisions: Annotated[tuple[values.Revision, ...], Field(max_length=1_000)] | None = None
    """Revisions whose own code it can run. Empty: it runs what is installed, whatever a job names.
    None: it does not say, as a worker of an earlier version."""
    warnings: Annotated[tuple[values.Line, ...], Field(max_length=50)] = ()
    """Whatever was wrong with its machine when it started, a line each."""
    targets: Annotated[dict[values.Name, values.Line], Field(max_length=100)] = Field(
        default_factory=dict
    )
    """The repositories that it builds, each with what keeps it from knowing its refs; or empty."""
    heads: Annotated[tuple[Head, ...], Field(max_length=MOST_HEADS)] = ()
    """Their refs as they were fetched lately: branches first, those that changed last first."""
    listed: ListedRange | None = None
    """The range of commits that the answer to its last introduction asked for."""


class Claim(values.Contract):
    """A request for work. The same ``claim_id`` always gets the same lease back."""

    worker: values.Name
    claim_id: values.Id
    wait_s: Annotated[float, Field(strict=True, ge=0, le=30)] = 0.0
    """How long the service may hold the request open when there is no work."""


class Lease(values.Contract):
    """A job handed to a worker for a limited time.

    Durations, not instants: the worker measures them with its own monotonic clock, from the
    moment it *sent* the request, so that it always stops before the service hands the job on.
    """

    job_id: values.Id
    attempt: Annotated[int, Field(strict=True, ge=1, le=2**31 - 1)]
    secret: values.Secret
    spec: JobSpec
    lease_s: Annotated[float, Field(strict=True, gt=0, le=1e9)]
    heartbeat_s: Annotated[float, Field(strict=True, gt=0, le=1e9)]
    group: values.Id
    """The case's first job: compiled code is kept under its name for the other replicates."""


class DeviceReading(values.Contract):
    """Newest readings of a device; null where it tells none."""

    temperature_c: values.Number | None = None
    sm_clock_hz: values.Number | None = None
    power_w: values.Number | None = None


class Progress(values.Contract):
    """The progress of a running measurement, for people who watch."""

    replicate: Annotated[int, Field(strict=True, ge=1, le=2**31 - 1)] = 1
    replicates: Annotated[int, Field(strict=True, ge=1, le=2**31 - 1)] = 1
    phase: values.Name
    """build, first_step, warmup, full, synth ..."""
    step: values.Count = 0
    fraction: values.Share = 0.0
    """Share of this replicate that is done, as far as it can be foreseen."""
    throughput: values.Number | None = None
    unit: values.Line | None = None
    device: DeviceReading | None = None
    """The worker's newest reading; null on a CPU. Of a gang's GPUs it is the first's."""


class Heartbeat(values.Contract):
    """A worker's sign of life for one attempt."""

    progress: Progress | None = None
    log_tail: values.FewLines | None = None
    """The end of the child's standard error so far; null if it is as before."""


class Renewal(values.Contract):
    """The answer to a heartbeat."""

    lease_s: Annotated[float, Field(strict=True, gt=0, le=1e9)]
    cancel: values.Flag = False
    """The job was cancelled: stop the child and report an attempt that was cancelled."""


class Event(values.Contract):
    """One line on the child's event pipe: where it is, and that it is alive."""

    at_s: values.Number
    """CLOCK_MONOTONIC when it was written."""
    progress: Progress


class RankEvent(Event):
    """The same from a rank, to the lead of its gang."""

    position: values.Count
    """Grows at each place that all ranks pass: the rank behind the others holds them up."""
