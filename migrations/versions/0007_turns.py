"""Jobs whose processes run in turn with those of others."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

KEPT = "ix_jobs_kept_for"
OLD, NEW = "ix_jobs_state_requires_rank_id", "ix_jobs_state_requires_rank_place"


def upgrade() -> None:
    # Plain columns and no copy of the table: its triggers stay.
    op.add_column("jobs", sa.Column("place", sa.String(48), nullable=False, server_default=""))
    op.execute("UPDATE jobs SET place = id")
    op.add_column("jobs", sa.Column("turns", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("jobs", sa.Column("kept_for", sa.String(64), nullable=True))
    op.add_column("results", sa.Column("turn", sa.Integer(), nullable=True))
    op.drop_index(OLD, "jobs")
    op.create_index(NEW, "jobs", ["state", "requires", "rank", "place"])
    some = sa.text("kept_for IS NOT NULL")
    op.create_index(KEPT, "jobs", ["kept_for"], sqlite_where=some, postgresql_where=some)


def downgrade() -> None:
    op.drop_index(KEPT, "jobs")
    op.drop_index(NEW, "jobs")
    op.create_index(OLD, "jobs", ["state", "requires", "rank", "id"])
    op.drop_column("results", "turn")
    for column in ("kept_for", "turns", "place"):
        op.drop_column("jobs", column)
