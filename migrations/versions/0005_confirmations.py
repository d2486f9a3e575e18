"""Suspicious points that are measured again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

NOW = sa.DateTime(timezone=True)
STATES = "'running', 'confirmed', 'not_reproduced', 'bad_node', 'environment', 'unresolved'"


def upgrade() -> None:
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
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("comparisons", sa.JSON(), nullable=False),
        sa.Column("reading", sa.JSON(), nullable=True),
        sa.Column("sentence", sa.Text(), nullable=False),
        sa.Column("created_at", NOW, nullable=False),
        sa.Column("decided_at", NOW, nullable=True),
        sa.CheckConstraint(f"state in ({STATES})", name="state_known"),
        sa.PrimaryKeyConstraint("id", name="pk_confirmations"),
        sa.UniqueConstraint("series_id", "first_bad", name="uq_confirmations_series_id_first_bad"),
        *(
            sa.ForeignKeyConstraint([column], [target], name=f"fk_confirmations_{column}")
            for column, target in (
                ("series_id", "series.id"),
                ("last_good", "revisions.name"),
                ("first_bad", "revisions.name"),
                ("first_bad_result", "results.id"),
                ("worker", "workers.name"),
            )
        ),
    )
    op.create_index("ix_confirmations_state_id", "confirmations", ["state", "id"])
    op.create_index("ix_confirmations_created_at", "confirmations", ["created_at"])


def downgrade() -> None:
    op.drop_table("confirmations")
