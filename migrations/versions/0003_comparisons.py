"""Comparisons: two revisions measured against each other, and their jobs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

NOW = sa.DateTime(timezone=True)


def upgrade() -> None:
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
        sa.Column("rounds", sa.Integer(), nullable=False),
        sa.Column("created_at", NOW, nullable=False),
        sa.Column("ends_at", NOW, nullable=False),
        sa.Column("decided_at", NOW, nullable=True),
        sa.Column("decision", sa.JSON(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("key", sa.String(200), nullable=True),
        sa.Column("key_digest", sa.String(64), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_comparisons"),
        sa.UniqueConstraint("key", name="uq_comparisons_key"),
        sa.CheckConstraint(
            "state in ('running', 'decided', 'cancelled')",
            name=op.f("ck_comparisons_state_known"),
        ),
        *(
            sa.ForeignKeyConstraint([name], [there], name=f"fk_comparisons_{name}")
            for name, there in (
                ("baseline", "revisions.name"),
                ("contender", "revisions.name"),
                ("baseline_submission", "submissions.id"),
                ("contender_submission", "submissions.id"),
            )
        ),
    )
    op.create_index("ix_comparisons_state_id", "comparisons", ["state", "id"])
    op.create_index("ix_comparisons_source", "comparisons", ["source"])
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
        sa.PrimaryKeyConstraint("comparison_id", "place", name="pk_comparison_tries"),
        sa.UniqueConstraint("job_id", name="uq_comparison_tries_job_id"),
        sa.ForeignKeyConstraint(
            ["comparison_id"],
            ["comparisons.id"],
            name="fk_comparison_tries_comparison_id",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_comparison_tries_job_id"),
    )


def downgrade() -> None:
    op.drop_table("comparison_tries")
    op.drop_table("comparisons")
