"""A log of every transition, and triggers that write it and refuse illegal ones."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

JOB_STEPS = (
    *("queued>leased", "queued>cancelled", "queued>expired"),
    *("leased>running", "leased>queued", "leased>cancelled", "leased>quarantined"),
    *("running>succeeded", "running>failed", "running>cancelled"),
    *("running>queued", "running>quarantined"),
)
ATTEMPT_STEPS = (
    *("granted>started", "granted>lost", "granted>rejected"),
    *("started>succeeded", "started>failed", "started>timed_out", "started>cancelled"),
    *("started>lost", "started>rejected"),
)
HELD_FIELDS = ("job_id", "number", "worker", "claim_id", "secret")
RESULT_FIELDS = ("id", "job_id", "attempt", "digest", "counted", "status", "document")


def upgrade() -> None:
    op.create_table(
        "job_events",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("job_id", sa.String(32), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=True),
        sa.Column("from_state", sa.String(16), nullable=True),
        sa.Column("to_state", sa.String(16), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("worker", sa.String(64), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_job_events"),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_job_events_job_id"),
    )
    op.create_index("ix_job_events_job_id_id", "job_events", ["job_id", "id"])
    _tell_what_was_before()
    for statement in guards(op.get_bind().dialect.name):
        op.get_bind().exec_driver_sql(statement)


def downgrade() -> None:
    bind = op.get_bind()
    if bind.dialect.name == "sqlite":
        found = bind.exec_driver_sql(
            "SELECT name FROM sqlite_master WHERE type = 'trigger' AND name LIKE 'guard_%'"
        )
        for (name,) in found.fetchall():
            bind.exec_driver_sql(f"DROP TRIGGER {name}")
    else:
        for name in (*GUARDS_POSTGRESQL, "refuse"):
            bind.exec_driver_sql(f"DROP FUNCTION guard_{name} CASCADE")
    op.drop_table("job_events")


def guards(kind: str) -> Iterator[str]:
    """The statements that make the guards on ``sqlite`` or ``postgresql``."""
    return _guards_sqlite() if kind == "sqlite" else _guards_postgresql()


# What a change must be, as SQL over the rows OLD and NEW. Each is said once, for both databases.


def _listed(steps: tuple[str, ...]) -> str:
    return ", ".join(f"'{step}'" for step in steps)


def _differs(fields: tuple[str, ...]) -> str:
    return " OR ".join(f"NEW.{field} <> OLD.{field}" for field in fields)


JOB_FIRST = "NEW.state <> 'queued' OR NEW.attempt <> 0"
JOB_STEP = f"""
    (NEW.state <> OLD.state AND OLD.state || '>' || NEW.state NOT IN ({_listed(JOB_STEPS)}))
    OR NEW.attempt <> OLD.attempt
        + CASE WHEN OLD.state = 'queued' AND NEW.state = 'leased' THEN 1 ELSE 0 END
"""
ATTEMPT_FIRST = """
    NEW.state <> 'granted' OR NOT EXISTS (
        SELECT 1 FROM jobs
        WHERE id = NEW.job_id AND state = 'queued' AND attempt = NEW.number - 1)
"""
ATTEMPT_STEP = f"""
    (NEW.state <> OLD.state AND OLD.state || '>' || NEW.state NOT IN ({_listed(ATTEMPT_STEPS)}))
    OR {_differs(HELD_FIELDS)}
"""
RESULT_STEP = _differs(RESULT_FIELDS)

COLUMNS = "(job_id, attempt, from_state, to_state, at, worker, reason)"
# The attempt changes before its job does, so a job's event finds its holder and its time there.
JOB_EVENT = """
    SELECT NEW.id, NULL, {before}, NEW.state,
        CASE NEW.state
            WHEN 'queued' THEN NEW.queued_at
            WHEN 'leased' THEN coalesce(holder.granted_at, NEW.queued_at)
            WHEN 'running' THEN coalesce(holder.started_at, NEW.queued_at)
            ELSE coalesce(NEW.finished_at, NEW.queued_at) END,
        CASE WHEN {before} = 'queued' AND NEW.state <> 'leased' THEN NULL ELSE holder.worker END,
        CASE WHEN NEW.state IN ('queued', 'leased', 'running') THEN '' ELSE NEW.reason END
    FROM (SELECT 1 AS one) AS single
    LEFT JOIN attempts AS holder ON holder.job_id = NEW.id AND holder.number = NEW.attempt
"""
ATTEMPT_EVENT = """
    SELECT NEW.job_id, NEW.number, {before}, NEW.state,
        CASE NEW.state
            WHEN 'granted' THEN NEW.granted_at
            WHEN 'started' THEN coalesce(NEW.started_at, NEW.granted_at)
            ELSE coalesce(NEW.ended_at, NEW.granted_at) END,
        NEW.worker, NEW.reason
"""

REFUSALS = {
    "jobs": "a job cannot go this way",
    "attempts": "an attempt cannot go this way",
    "results": "a stored result stays as it is",
    "job_events": "the log only grows",
}


def _guards_sqlite() -> Iterator[str]:
    yield _refuse_sqlite("jobs", "INSERT", JOB_FIRST)
    yield _refuse_sqlite("jobs", "UPDATE", JOB_STEP)
    yield _refuse_sqlite("attempts", "INSERT", ATTEMPT_FIRST)
    yield _refuse_sqlite("attempts", "UPDATE", ATTEMPT_STEP)
    yield _refuse_sqlite("results", "UPDATE", RESULT_STEP)
    yield _refuse_sqlite("job_events", "UPDATE", "1")
    for table in REFUSALS:
        yield _refuse_sqlite(table, "DELETE", "1")
    for table, event in (("jobs", JOB_EVENT), ("attempts", ATTEMPT_EVENT)):
        yield (
            f"CREATE TRIGGER guard_{table}_first_log AFTER INSERT ON {table} BEGIN "
            f"INSERT INTO job_events {COLUMNS} {event.format(before='NULL')}; END"
        )
        yield (
            f"CREATE TRIGGER guard_{table}_log AFTER UPDATE OF state ON {table} "
            f"WHEN NEW.state <> OLD.state BEGIN "
            f"INSERT INTO job_events {COLUMNS} {event.format(before='OLD.state')}; END"
        )


def _refuse_sqlite(table: str, action: str, wrong: str) -> str:
    return (
        f"CREATE TRIGGER guard_{table}_{action.lower()} BEFORE {action} ON {table} "
        f"WHEN {wrong} BEGIN SELECT RAISE(ABORT, '{REFUSALS[table]}'); END"
    )


GUARDS_POSTGRESQL = {
    "jobs_insert": ("jobs", JOB_FIRST, JOB_EVENT.format(before="NULL::varchar")),
    "jobs_update": ("jobs", JOB_STEP, JOB_EVENT.format(before="OLD.state")),
    "attempts_insert": ("attempts", ATTEMPT_FIRST, ATTEMPT_EVENT.format(before="NULL::varchar")),
    "attempts_update": ("attempts", ATTEMPT_STEP, ATTEMPT_EVENT.format(before="OLD.state")),
}


def _guards_postgresql() -> Iterator[str]:
    for name, (table, wrong, event) in GUARDS_POSTGRESQL.items():
        action = name.rpartition("_")[2].upper()
        changed = "true" if action == "INSERT" else "NEW.state <> OLD.state"
        yield f"""
            CREATE FUNCTION guard_{name}() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                IF TG_WHEN = 'BEFORE' THEN
                    IF ({wrong}) THEN
                        RAISE EXCEPTION USING
                            ERRCODE = 'check_violation', MESSAGE = '{REFUSALS[table]}';
                    END IF;
                ELSIF {changed} THEN
                    INSERT INTO job_events {COLUMNS} {event};
                END IF;
                RETURN NEW;
            END $$
        """
        for moment in ("BEFORE", "AFTER"):
            yield (
                f"CREATE TRIGGER guard_{name}_{moment.lower()} {moment} {action} ON {table} "
                f"FOR EACH ROW EXECUTE FUNCTION guard_{name}()"
            )
    yield """
        CREATE FUNCTION guard_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = TG_ARGV[0];
        END $$
    """
    yield _refuse_postgresql("results", "UPDATE", f"FOR EACH ROW WHEN ({RESULT_STEP})")
    yield _refuse_postgresql("job_events", "UPDATE", "FOR EACH ROW")
    for table in REFUSALS:
        yield _refuse_postgresql(table, "DELETE", "FOR EACH ROW")
        yield _refuse_postgresql(table, "TRUNCATE", "FOR EACH STATEMENT")


def _refuse_postgresql(table: str, action: str, extent: str) -> str:
    return (
        f"CREATE TRIGGER guard_{table}_{action.lower()} BEFORE {action} ON {table} "
        f"{extent} EXECUTE FUNCTION guard_refuse('{REFUSALS[table]}')"
    )


# Jobs that were there before the log: what their rows say of their past becomes its beginning.

_JOBS = sa.text(
    "SELECT id, state, attempt, reason, created_at, finished_at FROM jobs ORDER BY id"
).columns(created_at=sa.DateTime(timezone=True), finished_at=sa.DateTime(timezone=True))
_ATTEMPTS = sa.text(
    "SELECT job_id, number, worker, state, reason, granted_at, started_at, ended_at "
    "FROM attempts ORDER BY job_id, number"
).columns(
    granted_at=sa.DateTime(timezone=True),
    started_at=sa.DateTime(timezone=True),
    ended_at=sa.DateTime(timezone=True),
)
_BATCH = 1_000


def _tell_what_was_before() -> None:
    log = sa.table(
        "job_events",
        *(sa.column(name) for name in ("job_id", "attempt", "from_state", "to_state")),
        sa.column("at", sa.DateTime(timezone=True)),
        *(sa.column(name) for name in ("worker", "reason")),
    )
    bind = op.get_bind()
    attempts = groupby(bind.execute(_ATTEMPTS), key=lambda row: row.job_id)
    ahead = next(attempts, None)
    batch: list[dict[str, Any]] = []
    for job in bind.execute(_JOBS):
        held: list[Any] = []
        if ahead is not None and ahead[0] == job.id:
            held = list(ahead[1])
            ahead = next(attempts, None)
        batch += _past(job, held)
        if len(batch) >= _BATCH:
            bind.execute(log.insert(), batch)
            batch = []
    if batch:
        bind.execute(log.insert(), batch)


def _past(job: Any, attempts: list[Any]) -> list[dict[str, Any]]:
    """The transitions that lead to a job's row and its attempts' rows, in their order."""
    told: list[dict[str, Any]] = []
    state: dict[int | None, str] = {}

    def tell(number: int | None, to: str, at: Any, worker: str | None, reason: str = "") -> None:
        before = state.get(number)
        state[number] = to
        named = {"job_id": job.id, "attempt": number, "from_state": before, "to_state": to}
        told.append({**named, "at": at, "worker": worker, "reason": reason})

    tell(None, "queued", job.created_at, None)
    for held in attempts:
        tell(held.number, "granted", held.granted_at, held.worker)
        tell(None, "leased", held.granted_at, held.worker)
        done = held.state not in ("granted", "started", "lost", "rejected")
        if held.started_at is not None or held.state == "started" or done:
            at = held.started_at or held.ended_at or held.granted_at
            tell(held.number, "started", at, held.worker)
            tell(None, "running", at, held.worker)
        if held.state not in ("granted", "started"):
            tell(held.number, held.state, held.ended_at, held.worker, held.reason)
        if held.state in ("lost", "rejected") and (
            held.number != job.attempt or job.state in ("queued", "expired")
        ):
            tell(None, "queued", held.ended_at, held.worker)
    if state[None] != job.state:
        last = attempts[-1].worker if attempts and state[None] != "queued" else None
        tell(None, job.state, job.finished_at or job.created_at, last, job.reason)
    return told
