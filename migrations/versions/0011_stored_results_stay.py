"""A stored result refuses a change of any column: nothing that the service does changes one."""

from __future__ import annotations

from collections.abc import Iterator

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

REFUSAL = "a stored result stays as it is"
FIELDS = ("id", "job_id", "attempt", "digest", "counted", "status", "document")
"""Columns that the guard of 0004 looked at."""


def guards(kind: str) -> Iterator[str]:
    """The guard in place of the one of 0004, on ``sqlite`` or ``postgresql``."""
    create = "CREATE TRIGGER guard_results_update BEFORE UPDATE ON results"
    if kind == "sqlite":
        yield f"{create} BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END"
    else:
        yield f"{create} FOR EACH ROW EXECUTE FUNCTION guard_refuse('{REFUSAL}')"


def upgrade() -> None:
    kind = _drop()
    for statement in guards(kind):
        op.get_bind().exec_driver_sql(statement)


def downgrade() -> None:
    kind = _drop()
    differs = " OR ".join(f"NEW.{field} <> OLD.{field}" for field in FIELDS)
    made = {
        "sqlite": f"WHEN {differs} BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END",
        "postgresql": f"FOR EACH ROW WHEN ({differs}) EXECUTE FUNCTION guard_refuse('{REFUSAL}')",
    }[kind]
    op.get_bind().exec_driver_sql(
        f"CREATE TRIGGER guard_results_update BEFORE UPDATE ON results {made}"
    )


def _drop() -> str:
    """Drop the guard that is there; the kind of database."""
    bind = op.get_bind()
    where = "" if bind.dialect.name == "sqlite" else " ON results"
    bind.exec_driver_sql(f"DROP TRIGGER guard_results_update{where}")
    return bind.dialect.name
