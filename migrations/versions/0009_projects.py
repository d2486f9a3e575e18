"""Projects: what belongs to one is not mixed with another's, and a token may be bound to one."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

TABLES = ("submissions", "jobs", "results", "series", "findings", "comparisons", "schedules")
LISTED = ("submissions", "jobs", "results", "series", "findings", "comparisons")
"""Those that grow and are listed by id, for one project as well."""


def upgrade() -> None:
    # Plain columns and no copy of a table: their triggers stay.
    for table in TABLES:
        op.add_column(table, sa.Column("project", sa.String(64), nullable=False, server_default=""))
    for table in LISTED:
        op.create_index(f"ix_{table}_project_id", table, ["project", "id"])


def downgrade() -> None:
    # The version before would take a token that is bound to a project for one that is good for all.
    op.execute(
        "UPDATE tokens SET revoked_at = CURRENT_TIMESTAMP "
        "WHERE project IS NOT NULL AND revoked_at IS NULL"
    )
    for table in LISTED:
        op.drop_index(f"ix_{table}_project_id", table)
    for table in TABLES:
        op.drop_column(table, "project")
