"""Each protection switched off, by patching what does it: nothing in the product can do this.

A mutant is a few patches, and statements for the database where it protects too. `apply` sets them
in this process, for good or, with pytest's ``monkeypatch.setattr``, for a while.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

Patch = Callable[[Any, str, Any], object]
_UNGUARDED = tuple(
    f"DROP TRIGGER guard_{table}_{action}"
    for table in ("jobs", "attempts")
    for action in ("insert", "update")
)


@dataclass(frozen=True)
class Mutant:
    """One protection that is not there."""

    betrayed_by: str
    """The part of the trial, or the words, that must notice."""
    patch: Callable[[Patch], None] = lambda patch: None
    statements: tuple[str, ...] = ()
    """For a SQLite database, after its migration."""


def _with(module: Any, **replaced: Any) -> SimpleNamespace:
    """Return what a module has, with some names replaced: for the one file that uses it."""
    return SimpleNamespace(**{**vars(module), **replaced})


def attempt_check(patch: Patch) -> None:
    """Whoever held the job once may write to whatever attempt is its latest."""
    from service.jobs import attempts, transitions
    from service.models import Attempt, Job

    def change_attempt(session: Any, holder: Any, *states: Any, **values: Any) -> bool:
        latest = session.get_one(Job, holder.job_id, populate_existing=True).attempt
        seen = {"job_id": holder.job_id, "number": latest, "state": states}
        return transitions.change(session, Attempt, seen, **values)

    def change_job(session: Any, holder: Any, *states: Any, **values: Any) -> bool:
        return transitions.change(session, Job, {"id": holder.job_id, "state": states}, **values)

    mutated = _with(transitions, change_attempt=change_attempt, change_job=change_job)
    patch(attempts, "transitions", mutated)


def secret_check(patch: Patch) -> None:
    """The number of an attempt is enough to write to it."""
    from service.jobs import attempts, transitions
    from service.models import Attempt

    def change_attempt(session: Any, holder: Any, *states: Any, **values: Any) -> bool:
        seen = {"job_id": holder.job_id, "number": holder.number, "state": states}
        return transitions.change(session, Attempt, seen, **values)

    patch(attempts, "transitions", _with(transitions, change_attempt=change_attempt))
    patch(attempts, "hmac", SimpleNamespace(compare_digest=lambda *_: True))


def answer_after_commit(patch: Patch) -> None:
    """The answer to a result leaves, and the commit comes some time later."""
    from service.database import session as sessions
    from service.history import record as history_record
    from service.jobs import attempts

    def record(connection: Any, *rest: Any, **more: Any) -> str:
        connection.info["late"] = True
        return history_record.record(connection, *rest, **more)

    def late(engine: Any, units: Any) -> None:
        connection = engine.connect()
        whole = connection.begin()
        for unit in units:
            sessions._do_within(connection, unit)
            unit.over = True

        def end() -> None:
            whole.commit()
            connection.close()

        if connection.info.pop("late", False):
            timer = threading.Timer(0.5, end)
            timer.daemon = True
            timer.start()
        else:
            end()

    patch(attempts, "record", _with(history_record, record=record))
    patch(sessions, "do_together", late)


def digest(patch: Patch) -> None:
    """Any result of an attempt that has one is taken for the same one."""
    from sqlalchemy import select

    from service.jobs import attempts
    from service.jobs.types import Completion
    from service.models import ResultRow

    def same(connection: Any, holder: Any, _: str) -> Completion | None:
        there = select(ResultRow.id, ResultRow.counted).where(
            ResultRow.job_id == holder.job_id, ResultRow.attempt == holder.number
        )
        row = connection.execute(there).first()
        return Completion(row.id, counted=row.counted, created=False) if row else None

    patch(attempts, "_result_of", same)


def claim_id(patch: Patch) -> None:
    """A claim that is repeated is a new one."""
    from service.jobs import leases

    true = leases._grant

    def afresh(session: Any, job: Any, claim: Any, *rest: Any) -> Any:
        changed = claim.model_copy(update={"claim_id": secrets.token_hex(16)})
        return true(session, job, changed, *rest)

    patch(leases, "_same_lease", lambda *_: None)
    patch(leases, "_grant", afresh)


def sweep_guard(patch: Patch) -> None:
    """The sweep ends every attempt, expired or not."""
    from service.jobs import expiry

    true = expiry.sweep
    patch(expiry, "sweep", lambda s, terms, now, **k: true(s, terms, now + timedelta(days=1), **k))


def one_live_attempt(patch: Patch) -> None:
    """A job that is held is handed out again."""
    from sqlalchemy import select

    from benchmarks.contracts import JobState
    from service.database.prepared import Prepared
    from service.jobs import candidates, eligibility, leases
    from service.models import Job, LabelSet

    every = select(LabelSet.digest)
    patch(eligibility, "waiting", lambda session, *_, **__: iter(session.scalars(every).all()))
    unfinished = select(*candidates._FIRST.selected_columns).where(Job.state != JobState.SUCCEEDED)
    patch(candidates, "_WELCOME", Prepared(unfinished.order_by(Job.rank, Job.id).limit(1)))
    patch(leases, "require", lambda done: None)
    patch(
        leases,
        "change",
        lambda session, table, seen, **values: _regardless(session, table, seen, values),
    )


def _regardless(session: Any, table: Any, seen: Any, values: Any) -> bool:
    from service.jobs import transitions
    from service.models import Job

    return transitions.change(
        session, table, {"id": seen["id"]} if table is Job else seen, **values
    )


def counted_once(patch: Patch) -> None:
    """A late result counts too."""
    from service.history import record as history_record
    from service.jobs import attempts

    def record(*args: Any, counted: bool) -> str:
        return history_record.record(*args, counted=True)

    patch(attempts, "record", _with(history_record, record=record))


def amnesty(patch: Patch) -> None:
    """A restarted service takes its own silence for the workers'."""
    from service.jobs import expiry

    patch(expiry, "extend_all_leases", lambda *_: 0)


def idempotency_key(patch: Patch) -> None:
    """A key is not looked at."""
    from service.jobs import submit

    patch(submit, "_answered", lambda *_: None)
    patch(submit, "insert_if_absent", lambda *_: True)


def synchronous(patch: Patch) -> None:
    """SQLite does not wait for the disk."""
    from sqlalchemy import event

    from service.database import session

    true = session.make_engine

    def hasty(*args: Any, **options: Any) -> Any:
        engine = true(*args, **options)
        event.listen(engine, "connect", lambda c, _: c.execute("PRAGMA synchronous=OFF"))
        return engine

    patch(session, "make_engine", hasty)


def self_fence(patch: Patch) -> None:
    """A worker goes on although its lease is over."""
    from worker.heartbeat import Heartbeat

    patch(Heartbeat, "cause", lambda self: self._cause)


def spool(patch: Patch) -> None:
    """A finished result is in memory alone."""
    from worker.outbox.spool import Entry, Spool

    patch(Spool, "put", lambda self, ticket, body: Entry(ticket, body, None))


def spool_fsync(patch: Patch) -> None:
    """What is written is left to the disk's cache."""
    import os

    from worker import state_dir

    patch(state_dir, "os", SimpleNamespace(**{**vars(os), "fsync": lambda _: None}))


def spool_rename(patch: Patch) -> None:
    """A result grows under its own name, and is promised before its folder has it."""
    from worker.outbox import spool as spooling

    patch(spooling, "write_durably", lambda path, content: Path(path).write_bytes(content))


MUTANTS: dict[str, Mutant] = {
    "attempt check": Mutant("zombie", attempt_check),
    "secret check": Mutant("impostor", secret_check),
    "answer after commit": Mutant("durable", answer_after_commit),
    "digest": Mutant("two_faced", digest),
    "claim id": Mutant("repeated_claim", claim_id),
    "sweep guard": Mutant("healthy", sweep_guard),
    "one live attempt": Mutant(
        "healthy", one_live_attempt, ("DROP INDEX uq_attempts_live", *_UNGUARDED)
    ),
    "counted once": Mutant("promise 3", counted_once, ("DROP INDEX uq_results_counted",)),
    "amnesty": Mutant("restart", amnesty),
    "idempotency key": Mutant("repeated_submission", idempotency_key),
    "database guards": Mutant("guarded", statements=_UNGUARDED),
    "self-fence": Mutant("fenced", self_fence),
    "spool": Mutant("spooled", spool),
}
"""Those that one short trial in one process catches."""
DISK_MUTANTS: dict[str, Mutant] = {
    "synchronous": Mutant("answered and is gone", synchronous),
    "spool fsync": Mutant("kept and is gone", spool_fsync),
    "spool rename": Mutant("kept and is gone", spool_rename),
}
"""Those that only a power cut shows."""


def apply(name: str, patch: Patch = setattr) -> None:
    """Switch one protection off; an empty name leaves all on."""
    if name:
        (MUTANTS | DISK_MUTANTS)[name].patch(patch)
