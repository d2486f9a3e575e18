"""Tokens, and a log of who did what with them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

NOW = sa.DateTime(timezone=True)
REFUSAL = "the audit log only grows"


def upgrade() -> None:
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
        sa.CheckConstraint("kind in ('read', 'submit', 'worker', 'admin')", name="kind_known"),
        sa.PrimaryKeyConstraint("id", name="pk_tokens"),
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
        sa.PrimaryKeyConstraint("id", name="pk_enrolments"),
        sa.ForeignKeyConstraint(["token_id"], ["tokens.id"], name="fk_enrolments_token_id"),
    )
    op.create_table(
        "browser_sessions",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("token_id", sa.String(16), nullable=False),
        sa.Column("created_at", NOW, nullable=False),
        sa.Column("expires_at", NOW, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_browser_sessions"),
        sa.ForeignKeyConstraint(["token_id"], ["tokens.id"], name="fk_browser_sessions_token_id"),
    )
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
    for statement in guards(op.get_bind().dialect.name):
        op.get_bind().exec_driver_sql(statement)


def downgrade() -> None:
    kind = op.get_bind().dialect.name
    for action in _actions(kind):
        where = "" if kind == "sqlite" else " ON audit_events"
        op.get_bind().exec_driver_sql(f"DROP TRIGGER guard_audit_events_{action.lower()}{where}")
    op.drop_table("audit_events")
    op.drop_table("browser_sessions")
    op.drop_table("enrolments")
    op.drop_table("tokens")


def _actions(kind: str) -> tuple[str, ...]:
    return ("UPDATE", "DELETE") if kind == "sqlite" else ("UPDATE", "DELETE", "TRUNCATE")


def guards(kind: str) -> list[str]:
    """Triggers like those of 0004, whose function they share on PostgreSQL."""
    if kind == "sqlite":
        return [
            f"CREATE TRIGGER guard_audit_events_{action.lower()} BEFORE {action} ON audit_events "
            f"BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END"
            for action in _actions(kind)
        ]
    return [
        f"CREATE TRIGGER guard_audit_events_{action.lower()} BEFORE {action} ON audit_events "
        f"FOR EACH {'STATEMENT' if action == 'TRUNCATE' else 'ROW'} "
        f"EXECUTE FUNCTION guard_refuse('{REFUSAL}')"
        for action in _actions(kind)
    ]
