"""The first tables, and the schedule that is there from the start."""

from __future__ import annotations

from datetime import UTC, datetime

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

NOW = sa.DateTime(timezone=True)
JOB_STATES = (
    "'queued', 'leased', 'running', 'succeeded', 'failed', 'cancelled', 'quarantined', 'expired'"
)
ATTEMPT_STATES = (
    "'granted', 'started', 'succeeded', 'failed', 'timed_out', 'cancelled', 'lost', 'rejected'"
)


def upgrade() -> None:
    _names()
    _jobs()
    _attempts()
    _results()
    _series()
    _schedules()


def downgrade() -> None:
    for table in (
        "slots",
        "schedules",
        "points",
        "series",
        "results",
        "environments",
        "attempts",
        "jobs",
        "requirements",
        "idempotency_keys",
        "submissions",
        "workers",
        "revisions",
    ):
        op.drop_table(table)


def _names() -> None:
    op.create_table(
        "revisions",
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("ordered_at", NOW, nullable=False),
        sa.Column("dated", sa.Boolean(), nullable=False),
        sa.Column("first_seen_at", NOW, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_revisions"),
    )
    op.create_table(
        "workers",
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("labels", sa.JSON(), nullable=False),
        sa.Column("version", sa.String(500), nullable=False),
        sa.Column("first_seen_at", NOW, nullable=False),
        sa.Column("last_seen_at", NOW, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_workers"),
    )


def _jobs() -> None:
    op.create_table(
        "submissions",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("suite", sa.String(64), nullable=True),
        sa.Column("revision", sa.String(100), nullable=False),
        sa.Column("source", sa.String(64), nullable=False),
        sa.Column("created_at", NOW, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_submissions"),
        sa.ForeignKeyConstraint(["revision"], ["revisions.name"], name="fk_submissions_revision"),
    )
    op.create_index("ix_submissions_revision", "submissions", ["revision"])
    op.create_index("ix_submissions_created_at", "submissions", ["created_at"])
    op.create_table(
        "idempotency_keys",
        sa.Column("key", sa.String(200), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("submission_id", sa.String(32), nullable=False),
        sa.Column("created_at", NOW, nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_idempotency_keys"),
        sa.ForeignKeyConstraint(
            ["submission_id"], ["submissions.id"], name="fk_idempotency_keys_submission_id"
        ),
    )
    op.create_table(
        "requirements",
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("labels", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_requirements"),
    )
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("submission_id", sa.String(32), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("case_key", sa.Text(), nullable=False),
        sa.Column("spec", sa.JSON(), nullable=False),
        sa.Column("revision", sa.String(100), nullable=False),
        sa.Column("requires", sa.String(64), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("lost_attempts", sa.Integer(), nullable=False),
        sa.Column("cancel_requested", sa.Boolean(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("rerun_of", sa.String(500), nullable=True),
        sa.Column("created_at", NOW, nullable=False),
        sa.Column("queued_at", NOW, nullable=False),
        sa.Column("finished_at", NOW, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
        sa.CheckConstraint(f"state in ({JOB_STATES})", name=op.f("ck_jobs_state_known")),
        sa.ForeignKeyConstraint(
            ["submission_id"], ["submissions.id"], name="fk_jobs_submission_id"
        ),
        sa.ForeignKeyConstraint(["revision"], ["revisions.name"], name="fk_jobs_revision"),
        sa.ForeignKeyConstraint(["requires"], ["requirements.digest"], name="fk_jobs_requires"),
    )
    op.create_index("ix_jobs_submission_id", "jobs", ["submission_id"])
    op.create_index("ix_jobs_revision", "jobs", ["revision"])
    op.create_index("ix_jobs_state_requires_rank_id", "jobs", ["state", "requires", "rank", "id"])


def _attempts() -> None:
    op.create_table(
        "attempts",
        sa.Column("job_id", sa.String(32), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("worker", sa.String(64), nullable=False),
        sa.Column("claim_id", sa.String(32), nullable=False),
        sa.Column("secret", sa.String(64), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("granted_at", NOW, nullable=False),
        sa.Column("started_at", NOW, nullable=True),
        sa.Column("lease_expires_at", NOW, nullable=False),
        sa.Column("ended_at", NOW, nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("progress", sa.JSON(), nullable=True),
        sa.PrimaryKeyConstraint("job_id", "number", name="pk_attempts"),
        sa.UniqueConstraint("claim_id", name="uq_attempts_claim_id"),
        sa.CheckConstraint(f"state in ({ATTEMPT_STATES})", name=op.f("ck_attempts_state_known")),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_attempts_job_id"),
        sa.ForeignKeyConstraint(["worker"], ["workers.name"], name="fk_attempts_worker"),
    )
    op.create_index("ix_attempts_worker", "attempts", ["worker"])
    op.create_index("ix_attempts_state_lease_expires_at", "attempts", ["state", "lease_expires_at"])
    _one_per_job("uq_attempts_live", "attempts", "state in ('granted', 'started')")


def _one_per_job(name: str, table: str, condition: str) -> None:
    where = sa.text(condition)
    op.create_index(
        name, table, ["job_id"], unique=True, sqlite_where=where, postgresql_where=where
    )


def _results() -> None:
    op.create_table(
        "environments",
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("facts", sa.JSON(), nullable=False),
        sa.Column("first_seen_at", NOW, nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_environments"),
    )
    op.create_table(
        "results",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("job_id", sa.String(32), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("counted", sa.Boolean(), nullable=False),
        sa.Column("status", sa.String(32), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("case_key", sa.Text(), nullable=False),
        sa.Column("revision", sa.String(100), nullable=False),
        sa.Column("worker", sa.String(64), nullable=False),
        sa.Column("environment", sa.String(64), nullable=False),
        sa.Column("measured_at", NOW, nullable=False),
        sa.Column("received_at", NOW, nullable=False),
        sa.Column("verdict", sa.JSON(), nullable=True),
        sa.Column("document", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_results"),
        sa.UniqueConstraint("job_id", "attempt", "digest", name="uq_results_job_id_attempt_digest"),
        sa.ForeignKeyConstraint(
            ["job_id", "attempt"],
            ["attempts.job_id", "attempts.number"],
            name="fk_results_job_id_attempt",
        ),
        sa.ForeignKeyConstraint(["revision"], ["revisions.name"], name="fk_results_revision"),
        sa.ForeignKeyConstraint(["worker"], ["workers.name"], name="fk_results_worker"),
        sa.ForeignKeyConstraint(
            ["environment"], ["environments.digest"], name="fk_results_environment"
        ),
    )
    op.create_index("ix_results_revision", "results", ["revision"])
    op.create_index("ix_results_measured_at", "results", ["measured_at"])
    _one_per_job("uq_results_counted", "results", "counted")


def _series() -> None:
    op.create_table(
        "series",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("case_key", sa.Text(), nullable=False),
        sa.Column("case", sa.JSON(), nullable=False),
        sa.Column("metric", sa.String(64), nullable=False),
        sa.Column("unit", sa.String(500), nullable=False),
        sa.Column("direction", sa.String(16), nullable=False),
        sa.Column("comparability", sa.JSON(), nullable=False),
        sa.Column("created_at", NOW, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_series"),
    )
    op.create_index("ix_series_case_key_metric", "series", ["case_key", "metric"])
    op.create_table(
        "points",
        sa.Column("series_id", sa.String(32), nullable=False),
        sa.Column("revision_at", NOW, nullable=False),
        sa.Column("revision", sa.String(100), nullable=False),
        sa.Column("measured_at", NOW, nullable=False),
        sa.Column("result_id", sa.String(32), nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.Column("low", sa.Double(), nullable=True),
        sa.Column("high", sa.Double(), nullable=True),
        sa.Column("interval", sa.String(16), nullable=False),
        sa.Column("replicates", sa.Integer(), nullable=False),
        sa.Column("environment", sa.String(64), nullable=False),
        sa.Column("worker", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint(
            "series_id", "revision_at", "revision", "measured_at", "result_id", name="pk_points"
        ),
        sa.ForeignKeyConstraint(["series_id"], ["series.id"], name="fk_points_series_id"),
        sa.ForeignKeyConstraint(["revision"], ["revisions.name"], name="fk_points_revision"),
        sa.ForeignKeyConstraint(["result_id"], ["results.id"], name="fk_points_result_id"),
        sa.ForeignKeyConstraint(
            ["environment"], ["environments.digest"], name="fk_points_environment"
        ),
        sa.ForeignKeyConstraint(["worker"], ["workers.name"], name="fk_points_worker"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_points_result_id", "points", ["result_id"])
    op.create_index("ix_points_revision", "points", ["revision"])


def _schedules() -> None:
    schedules = op.create_table(
        "schedules",
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("cron", sa.String(200), nullable=False),
        sa.Column("timezone", sa.String(64), nullable=False),
        sa.Column("suite", sa.String(64), nullable=False),
        sa.Column("revision_rule", sa.String(120), nullable=False),
        sa.Column("requires", sa.JSON(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("created_at", NOW, nullable=False),
        sa.Column("next_due_at", NOW, nullable=True),
        sa.PrimaryKeyConstraint("name", name="pk_schedules"),
    )
    op.create_table(
        "slots",
        sa.Column("schedule", sa.String(64), nullable=False),
        sa.Column("due_at", NOW, nullable=False),
        sa.Column("fired_at", NOW, nullable=False),
        sa.Column("submission_id", sa.String(32), nullable=True),
        sa.PrimaryKeyConstraint("schedule", "due_at", name="pk_slots"),
        sa.ForeignKeyConstraint(
            ["schedule"], ["schedules.name"], name="fk_slots_schedule", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["submission_id"], ["submissions.id"], name="fk_slots_submission_id"
        ),
    )
    # Put here by the migration and by nothing else, so that a user who deletes it keeps it deleted.
    op.bulk_insert(
        schedules,
        [
            {
                "name": "nightly",
                "cron": "0 2 * * *",
                "timezone": "UTC",
                "suite": "nightly",
                "revision_rule": "date",
                "requires": {},
                "enabled": True,
                "created_at": datetime.now(UTC),
                "next_due_at": None,  # worked out when the service first looks
            }
        ],
    )
