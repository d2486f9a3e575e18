"""All tables, the guards of jobs and results, and the schedule that is there from the start."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import sqlite

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

SQLITE_TIME = sqlite.DATETIME(  # type: ignore[no-untyped-call]
    storage_format=(
        "%(year)04d-%(month)02d-%(day)02d "
        "%(hour)02d:%(minute)02d:%(second)02d.%(microsecond)06d+00:00"
    )
)
NOW = sa.DateTime(timezone=True).with_variant(SQLITE_TIME, "sqlite")


def upgrade() -> None:
    _fleet()
    _jobs()
    _results()
    _series()
    _comparisons()
    _findings()
    _bisections()
    _outbox()
    _access()
    _schedules()
    _imports()
    _first_rows()
    _forge_comments()
    _annotations()
    for statement in guards(op.get_bind().dialect.name):
        op.get_bind().exec_driver_sql(statement)


def downgrade() -> None:
    bind = op.get_bind()
    tables = sa.MetaData()
    tables.reflect(bind)
    tables.remove(tables.tables["alembic_version"])
    tables.drop_all(bind)
    if bind.dialect.name == "postgresql":  # SQLite drops its triggers with their tables
        for name in (*LOGGED, "refuse"):
            bind.exec_driver_sql(f"DROP FUNCTION guard_{name}")


def _one_of(table: str, column: str, *values: str) -> sa.CheckConstraint:
    return sa.CheckConstraint(
        f"{column} in ({_any_of(values)})", name=op.f(f"ck_{table}_{column}_known")
    )


def _any_of(values: tuple[str, ...]) -> str:
    return ", ".join(f"'{value}'" for value in values)


def _fleet() -> None:
    op.create_table(
        "revisions",
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("ordered_at", NOW, nullable=False),
        sa.Column("dated", sa.Boolean(), nullable=False),
        sa.Column("first_seen_at", NOW, nullable=False),
        sa.Column("author", sa.String(500), server_default="", nullable=False),
        sa.Column("title", sa.String(500), server_default="", nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_revisions"),
    )
    op.create_table(
        "commit_ranges",
        sa.Column("good", sa.String(100), nullable=False),
        sa.Column("bad", sa.String(100), nullable=False),
        sa.Column("asked_at", NOW, nullable=False),
        sa.Column("listed_at", NOW, nullable=True),
        sa.Column("commits", sa.JSON(), nullable=False),
        sa.Column("reason", sa.String(500), nullable=False),
        sa.PrimaryKeyConstraint("good", "bad", name="pk_commit_ranges"),
    )
    op.create_table(
        "workers",
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("labels", sa.JSON(), nullable=False),
        sa.Column("gpu_uuid", sa.String(500), nullable=True),
        sa.Column("version", sa.String(500), nullable=False),
        sa.Column("revisions", sa.JSON(), nullable=True),
        sa.Column("warnings", sa.JSON(), nullable=True),
        sa.Column("targets", sa.JSON(), nullable=True),
        sa.Column("heads", sa.JSON(), nullable=True),
        sa.Column("heads_told_at", NOW, nullable=True),
        sa.Column("drained_at", NOW, nullable=True),
        sa.Column("drained_by", sa.String(100), nullable=True),
        sa.Column("drain_reason", sa.String(500), nullable=True),
        sa.Column("first_seen_at", NOW, nullable=False),
        sa.Column("last_seen_at", NOW, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_workers"),
    )
    op.create_index("ix_workers_gpu_uuid", "workers", ["gpu_uuid"])
    op.create_table(
        "environments",
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("facts", sa.JSON(), nullable=False),
        sa.Column("first_seen_at", NOW, nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_environments"),
    )
    op.create_table(
        "requirements",
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("labels", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_requirements"),
    )
    op.create_table(
        "eligibilities",
        sa.Column("requires", sa.String(64), nullable=False),
        sa.Column("worker", sa.String(64), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=True),
        sa.Column("place", sa.String(32), server_default="", nullable=False),
        sa.PrimaryKeyConstraint("requires", "worker", name="pk_eligibilities"),
    )
    op.create_index(
        "ix_eligibilities_worker_rank_place_requires",
        "eligibilities",
        ["worker", "rank", "place", "requires"],
    )
    op.create_table(
        "write_probes",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("written", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_write_probes"),
    )


def _jobs() -> None:
    op.create_table(
        "submissions",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("suite", sa.String(64), nullable=True),
        sa.Column("revision", sa.String(100), nullable=False),
        sa.Column("source", sa.String(64), nullable=False),
        sa.Column("created_at", NOW, nullable=False),
        sa.Column("project", sa.String(64), server_default="", nullable=False),
        sa.ForeignKeyConstraint(["revision"], ["revisions.name"], name="fk_submissions_revision"),
        sa.PrimaryKeyConstraint("id", name="pk_submissions"),
    )
    op.create_index("ix_submissions_created_at", "submissions", ["created_at"])
    op.create_index("ix_submissions_project_id", "submissions", ["project", "id"])
    op.create_index("ix_submissions_revision", "submissions", ["revision"])
    op.create_table(
        "idempotency_keys",
        sa.Column("key", sa.String(200), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("submission_id", sa.String(32), nullable=False),
        sa.Column("created_at", NOW, nullable=False),
        sa.ForeignKeyConstraint(
            ["submission_id"], ["submissions.id"], name="fk_idempotency_keys_submission_id"
        ),
        sa.PrimaryKeyConstraint("key", name="pk_idempotency_keys"),
    )
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("group_id", sa.String(32), nullable=False),
        sa.Column("submission_id", sa.String(32), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("replicate", sa.Integer(), nullable=False),
        sa.Column("case_key", sa.Text(), nullable=False),
        sa.Column("spec", sa.JSON(), nullable=False),
        sa.Column("revision", sa.String(100), nullable=False),
        sa.Column("requires", sa.String(64), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("kept_for", sa.String(64), nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("lost_attempts", sa.Integer(), nullable=False),
        sa.Column("cancel_requested", sa.Boolean(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("rerun_of", sa.String(500), nullable=True),
        sa.Column("created_at", NOW, nullable=False),
        sa.Column("queued_at", NOW, nullable=False),
        sa.Column("finished_at", NOW, nullable=True),
        sa.Column("project", sa.String(64), server_default="", nullable=False),
        _one_of(
            "jobs",
            "state",
            "queued",
            "leased",
            "running",
            "succeeded",
            "failed",
            "cancelled",
            "quarantined",
        ),
        sa.ForeignKeyConstraint(["requires"], ["requirements.digest"], name="fk_jobs_requires"),
        sa.ForeignKeyConstraint(["revision"], ["revisions.name"], name="fk_jobs_revision"),
        sa.ForeignKeyConstraint(
            ["submission_id"], ["submissions.id"], name="fk_jobs_submission_id"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
    )
    op.create_index("ix_jobs_group_id", "jobs", ["group_id"])
    op.create_index(
        "ix_jobs_kept_for",
        "jobs",
        ["kept_for"],
        sqlite_where=sa.text("kept_for IS NOT NULL"),
        postgresql_where=sa.text("kept_for IS NOT NULL"),
    )
    op.create_index("ix_jobs_project_id", "jobs", ["project", "id"])
    op.create_index("ix_jobs_revision", "jobs", ["revision"])
    op.create_index("ix_jobs_state_requires_rank_id", "jobs", ["state", "requires", "rank", "id"])
    op.create_index("ix_jobs_submission_id", "jobs", ["submission_id"])
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
        sa.Column("log_tail", sa.String(2000), nullable=True),
        _one_of(
            "attempts",
            "state",
            "granted",
            "started",
            "succeeded",
            "failed",
            "timed_out",
            "cancelled",
            "lost",
            "rejected",
        ),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_attempts_job_id"),
        sa.ForeignKeyConstraint(["worker"], ["workers.name"], name="fk_attempts_worker"),
        sa.PrimaryKeyConstraint("job_id", "number", name="pk_attempts"),
        sa.UniqueConstraint("claim_id", name="uq_attempts_claim_id"),
    )
    op.create_index("ix_attempts_state_lease_expires_at", "attempts", ["state", "lease_expires_at"])
    op.create_index("ix_attempts_worker", "attempts", ["worker"])
    op.create_index(
        "uq_attempts_live",
        "attempts",
        ["job_id"],
        unique=True,
        sqlite_where=sa.text("state in ('granted', 'started')"),
        postgresql_where=sa.text("state in ('granted', 'started')"),
    )
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
        sa.Column("at", NOW, nullable=False),
        sa.Column("worker", sa.String(64), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_job_events_job_id"),
        sa.PrimaryKeyConstraint("id", name="pk_job_events"),
    )
    op.create_index("ix_job_events_job_id_id", "job_events", ["job_id", "id"])


def _results() -> None:
    op.create_table(
        "results",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("job_id", sa.String(32), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("counted", sa.Boolean(), nullable=False),
        sa.Column("replicate", sa.Integer(), nullable=False),
        sa.Column("status", sa.String(32), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("case_key", sa.Text(), nullable=False),
        sa.Column("revision", sa.String(100), nullable=False),
        sa.Column("worker", sa.String(64), nullable=False),
        sa.Column("environment", sa.String(64), nullable=False),
        sa.Column("measured_at", NOW, nullable=False),
        sa.Column("received_at", NOW, nullable=False),
        sa.Column("verdict", sa.JSON(), nullable=True),
        sa.Column("project", sa.String(64), server_default="", nullable=False),
        sa.Column("document", sa.LargeBinary(), nullable=False),  # last: others are read without it
        sa.ForeignKeyConstraint(
            ["environment"], ["environments.digest"], name="fk_results_environment"
        ),
        sa.ForeignKeyConstraint(
            ["job_id", "attempt"],
            ["attempts.job_id", "attempts.number"],
            name="fk_results_job_id_attempt",
        ),
        sa.ForeignKeyConstraint(["revision"], ["revisions.name"], name="fk_results_revision"),
        sa.ForeignKeyConstraint(["worker"], ["workers.name"], name="fk_results_worker"),
        sa.PrimaryKeyConstraint("id", name="pk_results"),
        sa.UniqueConstraint("job_id", "attempt", "digest", name="uq_results_job_id_attempt_digest"),
    )
    op.create_index(
        "ix_results_failed",
        "results",
        ["measured_at"],
        sqlite_where=sa.text("status <> 'ok'"),
        postgresql_where=sa.text("status <> 'ok'"),
    )
    op.create_index("ix_results_measured_at", "results", ["measured_at"])
    op.create_index("ix_results_project_id", "results", ["project", "id"])
    op.create_index("ix_results_revision", "results", ["revision"])
    op.create_index(
        "uq_results_counted",
        "results",
        ["job_id"],
        unique=True,
        sqlite_where=sa.text("counted"),
        postgresql_where=sa.text("counted"),
    )
    op.create_table(
        "artifacts",
        sa.Column("result_id", sa.String(32), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("size_b", sa.Integer(), nullable=False),
        sa.Column("received_at", NOW, nullable=False),
        sa.ForeignKeyConstraint(["result_id"], ["results.id"], name="fk_artifacts_result_id"),
        sa.PrimaryKeyConstraint("result_id", "kind", name="pk_artifacts"),
    )
    op.create_index("ix_artifacts_digest", "artifacts", ["digest"])
    op.create_table(
        "exclusions",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("result_id", sa.String(32), nullable=False),
        sa.Column("reason", sa.String(500), nullable=False),
        sa.Column("actor", sa.String(100), nullable=False),
        sa.Column("excluded_at", NOW, nullable=False),
        sa.Column("undone_at", NOW, nullable=True),
        sa.Column("undone_by", sa.String(100), nullable=True),
        sa.ForeignKeyConstraint(["result_id"], ["results.id"], name="fk_exclusions_result_id"),
        sa.PrimaryKeyConstraint("id", name="pk_exclusions"),
    )
    op.create_index("ix_exclusions_result_id", "exclusions", ["result_id"])


def _series() -> None:
    op.create_table(
        "series",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("case_key", sa.Text(), nullable=False),
        sa.Column("case", sa.JSON(), nullable=False),
        sa.Column("source", sa.String(64), server_default="", nullable=False),
        sa.Column("metric", sa.String(500), nullable=False),
        sa.Column("unit", sa.String(500), nullable=False),
        sa.Column("direction", sa.String(16), nullable=False),
        sa.Column("comparability", sa.JSON(), nullable=False),
        sa.Column("created_at", NOW, nullable=False),
        sa.Column("project", sa.String(64), server_default="", nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_series"),
    )
    op.create_index("ix_series_case_key_metric", "series", ["case_key", "metric"])
    op.create_index("ix_series_project_id", "series", ["project", "id"])
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
        sa.Column("within", sa.Double(), nullable=True),
        sa.Column("environment", sa.String(64), nullable=False),
        sa.Column("worker", sa.String(64), nullable=True),
        sa.Column("excluded", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("disturbed", sa.String(500), server_default="", nullable=False),
        sa.ForeignKeyConstraint(
            ["environment"], ["environments.digest"], name="fk_points_environment"
        ),
        sa.ForeignKeyConstraint(["revision"], ["revisions.name"], name="fk_points_revision"),
        sa.ForeignKeyConstraint(["series_id"], ["series.id"], name="fk_points_series_id"),
        sa.ForeignKeyConstraint(["worker"], ["workers.name"], name="fk_points_worker"),
        sa.PrimaryKeyConstraint(
            "series_id", "revision_at", "revision", "measured_at", "result_id", name="pk_points"
        ),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_points_result_id", "points", ["result_id"])
    op.create_index("ix_points_revision", "points", ["revision"])
    op.create_table(
        "pending_analyses",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("revision", sa.String(100), nullable=False),
        sa.Column("result_id", sa.String(32), nullable=True),
        sa.Column("since", NOW, nullable=False),
        sa.ForeignKeyConstraint(
            ["revision"], ["revisions.name"], name="fk_pending_analyses_revision"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_pending_analyses"),
    )
    op.create_table(
        "analyses",
        sa.Column("series_id", sa.String(32), nullable=False),
        sa.Column("points", sa.Integer(), nullable=False),
        sa.Column("newest", sa.JSON(), nullable=False),
        sa.Column("noise", sa.JSON(), nullable=True),
        sa.Column("spread", sa.JSON(), nullable=True),
        sa.Column("warnings", sa.JSON(), nullable=False),
        sa.Column("analysed_at", NOW, nullable=False),
        sa.ForeignKeyConstraint(["series_id"], ["series.id"], name="fk_analyses_series_id"),
        sa.PrimaryKeyConstraint("series_id", name="pk_analyses"),
    )
    op.create_table(
        "settled_windows",
        sa.Column("series_id", sa.String(32), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("ends_at", NOW, nullable=False),
        sa.Column("next_from", sa.String(32), nullable=False),
        sa.Column("changes", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["series_id"], ["series.id"], name="fk_settled_windows_series_id"),
        sa.PrimaryKeyConstraint("series_id", "number", name="pk_settled_windows"),
    )
    op.create_index(
        "ix_settled_windows_series_id_ends_at", "settled_windows", ["series_id", "ends_at"]
    )
    op.create_table(
        "changes",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("series_id", sa.String(32), nullable=False),
        sa.Column("last_good", sa.String(100), nullable=False),
        sa.Column("first_bad", sa.String(100), nullable=False),
        sa.Column("first_bad_at", NOW, nullable=False),
        sa.Column("first_bad_result", sa.String(32), nullable=False),
        sa.Column("estimate", sa.JSON(), nullable=False),
        sa.Column("present", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["series_id"], ["series.id"], name="fk_changes_series_id"),
        sa.ForeignKeyConstraint(["last_good"], ["revisions.name"], name="fk_changes_last_good"),
        sa.ForeignKeyConstraint(["first_bad"], ["revisions.name"], name="fk_changes_first_bad"),
        sa.PrimaryKeyConstraint("id", name="pk_changes"),
    )
    op.create_index("ix_changes_series_id_first_bad_at", "changes", ["series_id", "first_bad_at"])


def _comparisons() -> None:
    op.create_table(
        "comparisons",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("baseline", sa.String(100), nullable=False),
        sa.Column("contender", sa.String(100), nullable=False),
        sa.Column("source", sa.String(64), nullable=False),
        sa.Column("request", sa.JSON(), nullable=False),
        sa.Column("cases", sa.JSON(), nullable=False),
        sa.Column("baseline_submission", sa.String(32), nullable=False),
        sa.Column("contender_submission", sa.String(32), nullable=False),
        sa.Column("worker", sa.String(64), nullable=True),
        sa.Column("noise", sa.JSON(), nullable=True),
        sa.Column("rounds", sa.Integer(), nullable=False),
        sa.Column("created_at", NOW, nullable=False),
        sa.Column("ends_at", NOW, nullable=False),
        sa.Column("decided_at", NOW, nullable=True),
        sa.Column("decision", sa.JSON(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("key", sa.String(200), nullable=True),
        sa.Column("key_digest", sa.String(64), nullable=True),
        sa.Column("project", sa.String(64), server_default="", nullable=False),
        _one_of("comparisons", "state", "running", "decided", "cancelled"),
        sa.ForeignKeyConstraint(["baseline"], ["revisions.name"], name="fk_comparisons_baseline"),
        sa.ForeignKeyConstraint(
            ["baseline_submission"], ["submissions.id"], name="fk_comparisons_baseline_submission"
        ),
        sa.ForeignKeyConstraint(["contender"], ["revisions.name"], name="fk_comparisons_contender"),
        sa.ForeignKeyConstraint(
            ["contender_submission"], ["submissions.id"], name="fk_comparisons_contender_submission"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_comparisons"),
        sa.UniqueConstraint("key", name="uq_comparisons_key"),
    )
    op.create_index("ix_comparisons_project_id", "comparisons", ["project", "id"])
    op.create_index("ix_comparisons_source", "comparisons", ["source"])
    op.create_index("ix_comparisons_state_id", "comparisons", ["state", "id"])
    op.create_table(
        "comparison_tries",
        sa.Column("comparison_id", sa.String(32), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("case_place", sa.Integer(), nullable=False),
        sa.Column("pair", sa.Integer(), nullable=False),
        sa.Column("side", sa.String(16), nullable=False),
        sa.Column("job_id", sa.String(32), nullable=False),
        sa.Column("measured", sa.JSON(), nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=True),
        sa.Column("worker", sa.String(64), nullable=True),
        sa.Column("result_id", sa.String(32), nullable=True),
        sa.ForeignKeyConstraint(
            ["comparison_id"],
            ["comparisons.id"],
            name="fk_comparison_tries_comparison_id",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_comparison_tries_job_id"),
        sa.PrimaryKeyConstraint("comparison_id", "place", name="pk_comparison_tries"),
    )
    op.create_index("ix_comparison_tries_job_id", "comparison_tries", ["job_id"])


def _bisections() -> None:
    op.create_table(
        "bisections",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("finding_id", sa.String(32), nullable=True),
        sa.Column("request", sa.JSON(), nullable=False),
        sa.Column("listed", sa.Boolean(), server_default=sa.true(), nullable=False),
        sa.Column("subject", sa.JSON(), nullable=False),
        sa.Column("probes", sa.JSON(), nullable=False),
        sa.Column("probed", sa.Integer(), nullable=False),
        sa.Column("created_at", NOW, nullable=False),
        sa.Column("decided_at", NOW, nullable=True),
        sa.Column("decision", sa.JSON(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("project", sa.String(64), server_default="", nullable=False),
        _one_of("bisections", "state", "running", "done", "cancelled"),
        sa.ForeignKeyConstraint(["finding_id"], ["findings.id"], name="fk_bisections_finding_id"),
        sa.PrimaryKeyConstraint("id", name="pk_bisections"),
    )
    op.create_index("ix_bisections_finding_id", "bisections", ["finding_id"])
    op.create_index("ix_bisections_project_id", "bisections", ["project", "id"])
    op.create_index("ix_bisections_state_id", "bisections", ["state", "id"])


def _outbox() -> None:
    op.create_table(
        "outbox_events",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("at", NOW, nullable=False),
        sa.Column("subject", sa.String(64), nullable=False),
        sa.Column("headline", sa.Text(), nullable=False),
        sa.Column("sentence", sa.Text(), nullable=False),
        sa.Column("size", sa.Double(), nullable=True),
        sa.Column("pull_request", sa.String(300), nullable=False),
        sa.Column("workload", sa.Text(), nullable=False),
        sa.Column("outcome", sa.String(32), nullable=False),
        sa.Column("details", sa.JSON(), nullable=True),
        sa.Column("routed", sa.Boolean(), nullable=False),
        sa.Column("project", sa.String(64), server_default="", nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_outbox_events"),
    )
    op.create_index("ix_outbox_events_pull_request_id", "outbox_events", ["pull_request", "id"])
    op.create_index("ix_outbox_events_project_id", "outbox_events", ["project", "id"])
    op.create_index("ix_outbox_events_routed_id", "outbox_events", ["routed", "id"])
    op.create_index("ix_outbox_events_kind_subject_id", "outbox_events", ["kind", "subject", "id"])
    op.create_table(
        "outbox_deliveries",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("event_id", sa.String(32), nullable=False),
        sa.Column("sink", sa.String(64), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("due_at", NOW, nullable=False),
        sa.Column("delivered_at", NOW, nullable=True),
        sa.Column("error", sa.Text(), nullable=False),
        _one_of(
            *("outbox_deliveries", "state"),
            *("waiting", "delivered", "dead", "gathered", "dismissed"),
        ),
        sa.ForeignKeyConstraint(
            ["event_id"], ["outbox_events.id"], name="fk_outbox_deliveries_event_id"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_outbox_deliveries"),
        sa.UniqueConstraint("event_id", "sink", name="uq_outbox_deliveries_event_id_sink"),
    )
    op.create_index(
        "ix_outbox_deliveries_sink_state_due_at", "outbox_deliveries", ["sink", "state", "due_at"]
    )


def _findings() -> None:
    op.create_table(
        "findings",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("cause", sa.String(16), nullable=False),
        sa.Column("certainty", sa.String(16), nullable=False),
        sa.Column("says", sa.JSON(), nullable=False),
        sa.Column("attribution", sa.JSON(), nullable=True),
        sa.Column("measured", sa.JSON(), nullable=False),
        sa.Column("last_good", sa.String(100), nullable=True),
        sa.Column("first_bad", sa.String(100), nullable=False),
        sa.Column("first_bad_at", NOW, nullable=False),
        sa.Column("comparability", sa.JSON(), nullable=False),
        sa.Column("worker", sa.String(64), nullable=True),
        sa.Column("share", sa.Double(), nullable=True),
        sa.Column("drifts", sa.Boolean(), nullable=False),
        sa.Column("owner", sa.String(100), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("due_on", sa.Date(), nullable=True),
        sa.Column("opened_at", NOW, nullable=False),
        sa.Column("closed_at", NOW, nullable=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("project", sa.String(64), server_default="", nullable=False),
        _one_of(
            "findings",
            "state",
            "open",
            "acknowledged",
            "resolved",
            "expected",
            "not_reproduced",
            "environment",
            "infrastructure",
            "withdrawn",
        ),
        sa.ForeignKeyConstraint(["first_bad"], ["revisions.name"], name="fk_findings_first_bad"),
        sa.ForeignKeyConstraint(["last_good"], ["revisions.name"], name="fk_findings_last_good"),
        sa.ForeignKeyConstraint(["worker"], ["workers.name"], name="fk_findings_worker"),
        sa.PrimaryKeyConstraint("id", name="pk_findings"),
    )
    op.create_index("ix_findings_first_bad", "findings", ["first_bad"])
    op.create_index("ix_findings_project_id", "findings", ["project", "id"])
    op.create_index("ix_findings_state_id", "findings", ["state", "id"])
    op.create_table(
        "finding_series",
        sa.Column("finding_id", sa.String(32), nullable=False),
        sa.Column("series_id", sa.String(32), nullable=False),
        sa.Column("change_id", sa.String(32), nullable=False),
        sa.Column("first_bad_result", sa.String(32), nullable=False),
        sa.Column("first_bad_at", NOW, nullable=False),
        sa.Column("effect", sa.Double(), nullable=False),
        sa.Column("effect_low", sa.Double(), nullable=False),
        sa.Column("effect_high", sa.Double(), nullable=False),
        sa.Column("before", sa.Double(), nullable=False),
        sa.Column("after", sa.Double(), nullable=False),
        sa.Column("doubt", sa.Double(), nullable=False),
        sa.Column("ended", sa.String(16), nullable=False),
        sa.Column("ended_at", NOW, nullable=True),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["finding_id"], ["findings.id"], name="fk_finding_series_finding_id"
        ),
        sa.ForeignKeyConstraint(["series_id"], ["series.id"], name="fk_finding_series_series_id"),
        sa.ForeignKeyConstraint(["change_id"], ["changes.id"], name="fk_finding_series_change_id"),
        sa.PrimaryKeyConstraint("finding_id", "series_id", name="pk_finding_series"),
        sa.UniqueConstraint("change_id", name="uq_finding_series_change_id"),
    )
    op.create_index("ix_finding_series_series_id", "finding_series", ["series_id"])
    op.create_table(
        "finding_events",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("finding_id", sa.String(32), nullable=False),
        sa.Column("at", NOW, nullable=False),
        sa.Column("actor", sa.String(100), nullable=False),
        sa.Column("action", sa.String(32), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("says", sa.JSON(), nullable=True),
        sa.ForeignKeyConstraint(
            ["finding_id"], ["findings.id"], name="fk_finding_events_finding_id"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_finding_events"),
    )
    op.create_index("ix_finding_events_finding_id", "finding_events", ["finding_id"])
    op.create_table(
        "confirmations",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("series_id", sa.String(32), nullable=False),
        sa.Column("case_key", sa.Text(), nullable=False),
        sa.Column("last_good", sa.String(100), nullable=False),
        sa.Column("first_bad", sa.String(100), nullable=False),
        sa.Column("first_bad_at", NOW, nullable=False),
        sa.Column("first_bad_result", sa.String(32), nullable=False),
        sa.Column("worker", sa.String(64), nullable=False),
        sa.Column("before", sa.Double(), nullable=False),
        sa.Column("after", sa.Double(), nullable=False),
        sa.Column("usual", sa.JSON(), nullable=False),
        sa.Column("change_id", sa.String(32), nullable=True),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("comparisons", sa.JSON(), nullable=False),
        sa.Column("reading", sa.JSON(), nullable=True),
        sa.Column("says", sa.JSON(), nullable=False),
        sa.Column("created_at", NOW, nullable=False),
        sa.Column("decided_at", NOW, nullable=True),
        _one_of(
            "confirmations",
            "state",
            "running",
            "confirmed",
            "not_reproduced",
            "bad_node",
            "environment",
            "unresolved",
        ),
        sa.ForeignKeyConstraint(
            ["first_bad"], ["revisions.name"], name="fk_confirmations_first_bad"
        ),
        sa.ForeignKeyConstraint(
            ["first_bad_result"], ["results.id"], name="fk_confirmations_first_bad_result"
        ),
        sa.ForeignKeyConstraint(
            ["last_good"], ["revisions.name"], name="fk_confirmations_last_good"
        ),
        sa.ForeignKeyConstraint(["series_id"], ["series.id"], name="fk_confirmations_series_id"),
        sa.ForeignKeyConstraint(["change_id"], ["changes.id"], name="fk_confirmations_change_id"),
        sa.ForeignKeyConstraint(["worker"], ["workers.name"], name="fk_confirmations_worker"),
        sa.PrimaryKeyConstraint("id", name="pk_confirmations"),
        sa.UniqueConstraint("series_id", "first_bad", name="uq_confirmations_series_id_first_bad"),
    )
    op.create_index("ix_confirmations_change_id", "confirmations", ["change_id"])
    op.create_index("ix_confirmations_created_at", "confirmations", ["created_at"])
    op.create_index("ix_confirmations_state_id", "confirmations", ["state", "id"])
    op.create_table(
        "thresholds",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("project", sa.String(64), nullable=False),
        sa.Column("workload", sa.String(128), nullable=False),
        sa.Column("metric", sa.String(64), nullable=False),
        sa.Column("series_id", sa.String(32), nullable=True),
        sa.Column("least_effect", sa.Double(), nullable=True),
        sa.Column("actor", sa.String(100), nullable=False),
        sa.Column("reason", sa.String(500), nullable=False),
        sa.Column("set_at", NOW, nullable=False),
        sa.ForeignKeyConstraint(["series_id"], ["series.id"], name="fk_thresholds_series_id"),
        sa.PrimaryKeyConstraint("id", name="pk_thresholds"),
    )


def _access() -> None:
    op.create_table(
        "audit_events",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("at", NOW, nullable=False),
        sa.Column("token_id", sa.String(16), nullable=True),
        sa.Column("actor", sa.String(100), nullable=False),
        sa.Column("action", sa.String(100), nullable=False),
        sa.Column("object", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_audit_events"),
    )
    op.create_table(
        "tokens",
        sa.Column("id", sa.String(16), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("project", sa.String(64), nullable=True),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("key_id", sa.String(16), nullable=False),
        sa.Column("created_at", NOW, nullable=False),
        sa.Column("created_by", sa.String(16), nullable=True),
        sa.Column("expires_at", NOW, nullable=True),
        sa.Column("last_used_at", NOW, nullable=True),
        sa.Column("rotated_at", NOW, nullable=True),
        sa.Column("revoked_at", NOW, nullable=True),
        sa.Column("changes", sa.Integer(), server_default="0", nullable=False),
        _one_of("tokens", "kind", "read", "submit", "worker", "admin"),
        sa.PrimaryKeyConstraint("id", name="pk_tokens"),
    )
    op.create_index(
        "ix_tokens_changes",
        "tokens",
        ["changes"],
        sqlite_where=sa.text("changes > 0"),
        postgresql_where=sa.text("changes > 0"),
    )
    op.create_table(
        "browser_sessions",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("token_id", sa.String(16), nullable=False),
        sa.Column("created_at", NOW, nullable=False),
        sa.Column("expires_at", NOW, nullable=False),
        sa.ForeignKeyConstraint(["token_id"], ["tokens.id"], name="fk_browser_sessions_token_id"),
        sa.PrimaryKeyConstraint("id", name="pk_browser_sessions"),
    )
    op.create_table(
        "enrolments",
        sa.Column("id", sa.String(16), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("worker", sa.String(64), nullable=True),
        sa.Column("created_at", NOW, nullable=False),
        sa.Column("created_by", sa.String(16), nullable=True),
        sa.Column("expires_at", NOW, nullable=False),
        sa.Column("used_at", NOW, nullable=True),
        sa.Column("token_id", sa.String(16), nullable=True),
        sa.ForeignKeyConstraint(["token_id"], ["tokens.id"], name="fk_enrolments_token_id"),
        sa.PrimaryKeyConstraint("id", name="pk_enrolments"),
    )


def _schedules() -> None:
    op.create_table(
        "schedules",
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("cron", sa.String(200), nullable=False),
        sa.Column("timezone", sa.String(64), nullable=False),
        sa.Column("suite", sa.String(64), nullable=False),
        sa.Column("revision_rule", sa.String(200), nullable=False),
        sa.Column("requires", sa.JSON(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("created_at", NOW, nullable=False),
        sa.Column("next_due_at", NOW, nullable=True),
        sa.Column("project", sa.String(64), server_default="", nullable=False),
        sa.Column("explore_s", sa.Double(), server_default="0", nullable=False),
        sa.Column("again", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("note", sa.String(500), server_default="", nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_schedules"),
    )
    op.create_table(
        "slots",
        sa.Column("schedule", sa.String(64), nullable=False),
        sa.Column("due_at", NOW, nullable=False),
        sa.Column("fired_at", NOW, nullable=False),
        sa.Column("submission_id", sa.String(32), nullable=True),
        sa.ForeignKeyConstraint(
            ["schedule"], ["schedules.name"], name="fk_slots_schedule", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["submission_id"], ["submissions.id"], name="fk_slots_submission_id"
        ),
        sa.PrimaryKeyConstraint("schedule", "due_at", name="pk_slots"),
    )


def _forge_comments() -> None:
    op.create_table(
        "forge_comments",
        sa.Column("sink", sa.String(64), nullable=False),
        sa.Column("subject", sa.String(300), nullable=False),
        sa.Column("repository", sa.String(200), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("comment_id", sa.String(64), nullable=False),
        sa.Column("held_until", NOW, nullable=False),
        sa.PrimaryKeyConstraint("sink", "subject", name="pk_forge_comments"),
    )


def _annotations() -> None:
    op.create_table(
        "annotations",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("project", sa.String(64), nullable=False),
        sa.Column("revision", sa.String(100), nullable=True),
        sa.Column("at", NOW, nullable=True),
        sa.Column("text", sa.String(500), nullable=False),
        sa.Column("actor", sa.String(100), nullable=False),
        sa.Column("created_at", NOW, nullable=False),
        sa.ForeignKeyConstraint(["revision"], ["revisions.name"], name="fk_annotations_revision"),
        sa.PrimaryKeyConstraint("id", name="pk_annotations"),
    )
    op.create_index("ix_annotations_project_id", "annotations", ["project", "id"])


def _imports() -> None:
    op.create_table(
        "imported_points",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("series_id", sa.String(32), nullable=False),
        sa.Column("revision", sa.String(100), nullable=False),
        sa.Column("committed_at", NOW, nullable=True),
        sa.Column("received_at", NOW, nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("project", sa.String(64), server_default="", nullable=False),
        sa.ForeignKeyConstraint(["series_id"], ["series.id"], name="fk_imported_points_series_id"),
        sa.ForeignKeyConstraint(
            ["revision"], ["revisions.name"], name="fk_imported_points_revision"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_imported_points"),
    )
    op.create_index("ix_imported_points_series_id", "imported_points", ["series_id"])
    op.create_index(
        "ix_imported_points_revision_project", "imported_points", ["revision", "project"]
    )


def _first_rows() -> None:
    """Add the row that health checks write, and a schedule.

    Nothing else makes that schedule, so a user who deletes it keeps it deleted.
    """
    probes = sa.table("write_probes", sa.column("id"), sa.column("written"))
    op.bulk_insert(probes, [{"id": 1, "written": 0}])
    schedule = {
        "name": "nightly",
        "cron": "0 2 * * *",
        "timezone": "UTC",
        "suite": "nightly",
        "revision_rule": "date",
        "requires": {},
        "explore_s": 600.0,
        "enabled": True,
        "created_at": datetime.now(UTC),
    }
    columns: list[sa.ColumnClause[Any]] = [sa.column(name) for name in schedule]
    columns += [sa.column("requires", sa.JSON), sa.column("created_at", NOW)]  # of these types
    op.bulk_insert(sa.table("schedules", *columns), [schedule])


JOB_STEPS = (
    *("queued>leased", "queued>cancelled"),
    *("leased>running", "leased>queued", "leased>cancelled", "leased>quarantined"),
    *("running>succeeded", "running>failed", "running>cancelled"),
    *("running>queued", "running>quarantined"),
)
ATTEMPT_STEPS = (
    *("granted>started", "granted>lost", "granted>rejected"),
    *("started>succeeded", "started>failed", "started>timed_out", "started>cancelled"),
    *("started>lost", "started>rejected"),
)
LEASE_COLUMNS = ("job_id", "number", "worker", "claim_id", "secret")


# Conditions under which a write is refused, as SQL over the rows OLD and NEW, for both databases.
JOB_FIRST = "NEW.state <> 'queued' OR NEW.attempt <> 0"
JOB_STEP = f"""
    (NEW.state <> OLD.state AND OLD.state || '>' || NEW.state NOT IN ({_any_of(JOB_STEPS)}))
    OR NEW.attempt <> OLD.attempt
        + CASE WHEN OLD.state = 'queued' AND NEW.state = 'leased' THEN 1 ELSE 0 END
"""
ATTEMPT_FIRST = """
    NEW.state <> 'granted' OR NOT EXISTS (
        SELECT 1 FROM jobs
        WHERE id = NEW.job_id AND state = 'queued' AND attempt = NEW.number - 1)
"""
ATTEMPT_STEP = f"""
    (NEW.state <> OLD.state AND OLD.state || '>' || NEW.state NOT IN ({_any_of(ATTEMPT_STEPS)}))
    OR {" OR ".join(f"NEW.{column} <> OLD.{column}" for column in LEASE_COLUMNS)}
"""

EVENT_COLUMNS = "(job_id, attempt, from_state, to_state, at, worker, reason)"
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
    "artifacts": "a stored artifact stays as it is",
    "imported_points": "an imported point is kept",
    "job_events": "the log only grows",
    "audit_events": "the audit log only grows",
}
FROZEN = ("results", "artifacts", "job_events", "audit_events")
"""Tables whose rows are never changed."""
KEPT = ("jobs", "attempts", "results", "imported_points", "job_events", "audit_events")
"""Tables whose rows are never deleted. An artifact may be: its measurement stays."""


def guards(kind: str) -> Iterator[str]:
    """Give the statements that make the guards on ``sqlite`` or ``postgresql``."""
    return _guards_sqlite() if kind == "sqlite" else _guards_postgresql()


def _guards_sqlite() -> Iterator[str]:
    yield _refuse_sqlite("jobs", "INSERT", JOB_FIRST)
    yield _refuse_sqlite("jobs", "UPDATE", JOB_STEP)
    yield _refuse_sqlite("attempts", "INSERT", ATTEMPT_FIRST)
    yield _refuse_sqlite("attempts", "UPDATE", ATTEMPT_STEP)
    for table in FROZEN:
        yield _refuse_sqlite(table, "UPDATE")
    for table in KEPT:
        yield _refuse_sqlite(table, "DELETE")
    for table, event in (("jobs", JOB_EVENT), ("attempts", ATTEMPT_EVENT)):
        yield (
            f"CREATE TRIGGER guard_{table}_first_log AFTER INSERT ON {table} BEGIN "
            f"INSERT INTO job_events {EVENT_COLUMNS} {event.format(before='NULL')}; END"
        )
        yield (
            f"CREATE TRIGGER guard_{table}_log AFTER UPDATE OF state ON {table} "
            f"WHEN NEW.state <> OLD.state BEGIN "
            f"INSERT INTO job_events {EVENT_COLUMNS} {event.format(before='OLD.state')}; END"
        )


def _refuse_sqlite(table: str, action: str, wrong: str = "1") -> str:
    return (
        f"CREATE TRIGGER guard_{table}_{action.lower()} BEFORE {action} ON {table} "
        f"WHEN {wrong} BEGIN SELECT RAISE(ABORT, '{REFUSALS[table]}'); END"
    )


LOGGED = {
    "jobs_insert": ("jobs", JOB_FIRST, JOB_EVENT.format(before="NULL::varchar")),
    "jobs_update": ("jobs", JOB_STEP, JOB_EVENT.format(before="OLD.state")),
    "attempts_insert": ("attempts", ATTEMPT_FIRST, ATTEMPT_EVENT.format(before="NULL::varchar")),
    "attempts_update": ("attempts", ATTEMPT_STEP, ATTEMPT_EVENT.format(before="OLD.state")),
}


def _guards_postgresql() -> Iterator[str]:
    for name, (table, wrong, event) in LOGGED.items():
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
                    INSERT INTO job_events {EVENT_COLUMNS} {event};
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
    for table in FROZEN:
        yield _refuse_postgresql(table, "UPDATE", "ROW")
    for table in KEPT:
        yield _refuse_postgresql(table, "DELETE", "ROW")
        yield _refuse_postgresql(table, "TRUNCATE", "STATEMENT")


def _refuse_postgresql(table: str, action: str, extent: str) -> str:
    return (
        f"CREATE TRIGGER guard_{table}_{action.lower()} BEFORE {action} ON {table} "
        f"FOR EACH {extent} EXECUTE FUNCTION guard_refuse('{REFUSALS[table]}')"
    )
