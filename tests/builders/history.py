"""A history as a team would have it: three workloads, forty revisions, two kinds of hardware.

Every result is submitted, leased, started and completed by the real queue, at its own time in the
past, so jobs, attempts, series and intervals are the service's own.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import numpy as np
from builders.history_plans import (
    CPU_FACTS,
    GPU_FACTS,
    HOSTILE,
    PLANS,
    REVISIONS,
    gpu_case,
    measured,
    noisy,
)
from sqlalchemy.orm import Session

from benchmarks.contracts import (
    Case,
    Claim,
    Environment,
    Heartbeat,
    JobSpec,
    Progress,
    Protocol,
    Result,
    Status,
)
from service.database.session import new_id
from service.history import revisions
from service.jobs import attempts, expiry, leases, schedules
from service.jobs.types import Holder, Terms
from service.models import Submission, WorkerRow

TERMS = Terms(timedelta(seconds=60), timedelta(seconds=10), max_lost_attempts=3)


def revision_name(number: int) -> str:
    """Give the commit hash of the revision with this number, the oldest being 0."""
    return hashlib.sha1(f"revision {number}".encode()).hexdigest()


@dataclass
class Seeding:
    """A session and the moment that the history ends at."""

    session: Session
    now: datetime
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(7))
    claims: int = 0

    def submission(self, revision: str, at: datetime) -> str:
        """Open a submission of the nightly suite."""
        revisions.register(self.session, revision, at, at)
        made = Submission(
            id=new_id(at),
            suite="nightly",
            revision=revision,
            source="schedule:nightly",
            created_at=at,
        )
        self.session.add(made)
        self.session.flush()
        return made.id

    def submit(self, submission: str, revision: str, case: Case, at: datetime) -> str:
        """Queue one job for the machine that has its preset."""
        device = "cuda" if case.preset == "full" else "cpu"
        spec = JobSpec(
            case=case,
            revision=revision,
            suite="nightly",
            requires={"device": device},
        )
        return leases.submit(self.session, [spec], submission, at)[0]

    def lease(self, case: Case, at: datetime) -> Holder:
        """Let the right machine take and start the oldest job that it can."""
        self.claims += 1
        worker = "h200-a" if case.preset == "full" else "ci-cpu"
        claim = Claim(worker=worker, claim_id=f"{self.claims:032x}")
        lease = leases.lease(self.session, claim, TERMS, at)
        assert lease is not None
        assert lease.spec.case == case
        holder = Holder(lease.job_id, lease.attempt, lease.secret)
        attempts.start(self.session, holder, TERMS, at + timedelta(seconds=1))
        return holder

    def measured(self, submission: str, revision: str, result: Result) -> str:
        """Take a result all the way through the queue; give its id."""
        begun = result.measured_at - timedelta(seconds=50)
        self.submit(submission, revision, result.case, begun - timedelta(seconds=30))
        holder = self.lease(result.case, begun)
        return attempts.complete(self.session, holder, result, result.measured_at).result_id


def fill(session: Session, now: datetime, *, count: int = REVISIONS) -> dict[str, str]:
    """Store the newest ``count`` revisions of the history; give the ids that tests ask for."""
    seeding = Seeding(session, now)
    introduce(session, now - timedelta(days=REVISIONS + 1))
    nightly = schedules.ScheduleRequest(
        cron="0 2 * * *",
        timezone="Europe/Berlin",
        suite="nightly",
        revision_rule="latest",
        requires={"device": "cuda"},
    )
    schedules.put(session, "nightly", nightly, now)
    ids: dict[str, str] = {}
    for number in range(REVISIONS - count, REVISIONS):
        at = now - timedelta(days=REVISIONS - 1 - number, hours=4)
        submission = seeding.submission(revision_name(number), at - timedelta(minutes=5))
        for position, plan in enumerate(PLANS):
            result = measured(plan, number, at + timedelta(minutes=4 * position), seeding.random)
            result_id = seeding.measured(submission, revision_name(number), result)
            ids[f"before:{plan.case.key}"] = ids.get(f"latest:{plan.case.key}", result_id)
            ids[f"latest:{plan.case.key}"] = result_id
    newest = revision_name(REVISIONS - 1)
    ids["noisy"] = _quick_look(seeding, submission, newest)
    ids |= _failures(seeding, submission, newest)
    ids["running"] = _queue(seeding, submission, newest)
    session.flush()
    return ids


def introduce(session: Session, at: datetime) -> None:
    """Make the two machines known."""
    for name, labels in (
        ("h200-a", {"device": "cuda", "gpu": "NVIDIA H200", "host": "h200-a", "os": "linux"}),
        ("ci-cpu", {"device": "cpu", "host": "ci-cpu", "os": "linux"}),
    ):
        session.add(
            WorkerRow(name=name, labels=labels, version="0.1.0", first_seen_at=at, last_seen_at=at)
        )
    session.flush()


def _quick_look(seeding: Seeding, submission: str, revision: str) -> str:
    """Measure a case again in one process, on a machine that was busy; its preset was left open."""
    at = seeding.now - timedelta(hours=2, minutes=30)
    result = noisy(PLANS[-1], REVISIONS - 1, at, seeding.random)
    asked = result.case.model_copy(update={"preset": "auto"})
    seeding.submit(submission, revision, asked, at - timedelta(minutes=2))
    holder = seeding.lease(asked, at - timedelta(minutes=1))
    return attempts.complete(seeding.session, holder, result, at).result_id


def _failures(seeding: Seeding, submission: str, revision: str) -> dict[str, str]:
    at = seeding.now - timedelta(hours=2)
    oom = Result(
        case=gpu_case("unet", "16", batch="8192"),
        status=Status.OOM,
        reason="The batch of 8,192 needs more than the device's 139.8 GiB; try a smaller batch.",
        log_tail="Traceback (most recent call last):\n  ...\n"
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 24.00 GiB.",
        measured_at=at,
        protocol=Protocol(replicates=3),
        environment=Environment(facts=GPU_FACTS),
        repro="python -m benchmarks unet batch=8192 pinning=on workers=16 --preset full",
    )
    hostile = oom.model_copy(
        update={
            "case": Case(workload="unet", preset="tiny"),
            "status": Status.CRASHED,
            "reason": HOSTILE,
            "log_tail": f"</script>{HOSTILE}",
            "repro": f"echo '{HOSTILE}'",
            "environment": Environment(facts=CPU_FACTS | {"sw.hostile": HOSTILE}),
        }
    )
    unsupported = oom.model_copy(
        update={
            "case": gpu_case("unet", "16", precision="fp8"),
            "status": Status.UNSUPPORTED,
            "reason": "This device has no float8 arithmetic.",
            "log_tail": "Traceback (most recent call last):\n  ...\nUnsupported: no float8",
        }
    )
    ids = {
        "unsupported": seeding.measured(submission, revision, unsupported),
        "oom": seeding.measured(submission, revision, oom),
        "hostile": seeding.measured(submission, revision, hostile),
    }
    late = oom.model_copy(
        update={"status": Status.TIMEOUT, "reason": "It hung.", "measured_at": at}
    )
    seeding.submit(submission, revision, late.case, at)
    holder = seeding.lease(late.case, at)
    expiry.sweep(seeding.session, TERMS, at + timedelta(minutes=3))
    stored = attempts.complete(seeding.session, holder, late, at + timedelta(minutes=4))
    assert not stored.counted
    second = seeding.lease(late.case, at + timedelta(minutes=5))
    attempts.complete(seeding.session, second, oom, at + timedelta(minutes=6))
    return ids | {"late": stored.result_id}


def _queue(seeding: Seeding, submission: str, revision: str) -> str:
    """Leave one job running, at its second attempt, and some waiting."""
    running, now = PLANS[5].case, seeding.now
    job_id = seeding.submit(submission, revision, running, now - timedelta(minutes=12))
    seeding.lease(running, now - timedelta(minutes=9))
    expiry.sweep(seeding.session, TERMS, now - timedelta(minutes=6))
    holder = seeding.lease(running, now - timedelta(minutes=2))
    progress = Progress(
        replicate=2,
        replicates=3,
        phase="full",
        step=118,
        fraction=0.62,
        throughput=4052.0,
        unit="img/s",
    )
    beat = Heartbeat(progress=progress, log_tail="Compiling 3 graphs.\nMeasuring.")
    attempts.heartbeat(seeding.session, holder, beat, TERMS, now - timedelta(seconds=4))
    for plan in PLANS[:5]:
        seeding.submit(submission, revision, plan.case, now - timedelta(minutes=1))
    return job_id
