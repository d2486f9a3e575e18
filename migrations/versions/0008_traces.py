"""Profilers' traces, each beside its result."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

REFUSAL = "a stored trace stays as it is"


def upgrade() -> None:
    op.create_table(
        "traces",
        sa.Column("result_id", sa.String(32), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("size_b", sa.Integer(), nullable=False),
        sa.Column("received_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("result_id", name="pk_traces"),
        sa.ForeignKeyConstraint(["result_id"], ["results.id"], name="fk_traces_result_id"),
    )
    for statement in guards(op.get_bind().dialect.name):
        op.get_bind().exec_driver_sql(statement)


def downgrade() -> None:
    where = "" if op.get_bind().dialect.name == "sqlite" else " ON traces"
    op.get_bind().exec_driver_sql(f"DROP TRIGGER guard_traces_update{where}")
    op.drop_table("traces")


def guards(kind: str) -> list[str]:
    """A trigger like those of 0004, whose function it shares on PostgreSQL.

    A trace may be deleted, unlike its result: whoever needs the room loses no measurement.
    """
    create = "CREATE TRIGGER guard_traces_update BEFORE UPDATE ON traces"
    if kind == "sqlite":
        return [f"{create} BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END"]
    return [f"{create} FOR EACH ROW EXECUTE FUNCTION guard_refuse('{REFUSAL}')"]
