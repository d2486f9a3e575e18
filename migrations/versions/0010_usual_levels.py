"""What single workers measured before a suspicious point: each is held against its own past."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Suspicions of before were formed from all workers together: of single ones nothing is known.
    usual = sa.Column("usual", sa.JSON(), nullable=False, server_default="{}")
    op.add_column("confirmations", usual)


def downgrade() -> None:
    op.drop_column("confirmations", "usual")
