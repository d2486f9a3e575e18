"""Judged histories, findings, and results that somebody excluded."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

NOW = sa.DateTime(timezone=True)
STATES = (
    "'open', 'acknowledged', 'resolved', 'expected', 'not_reproduced', 'environment', "
    "'infrastructure', 'withdrawn'"
)


def upgrade() -> None:
    op.add_column(
        "points", sa.Column("excluded", sa.Boolean(), server_default=sa.false(), nullable=False)
    )
    _exclusions()
    _judgements()
    _unjudged()
    _findings()
    _of_findings()


def downgrade() -> None:
    for table in (
        "finding_events",
        "finding_series",
        "findings",
        "unjudged",
        "settled_windows",
        "judgements",
        "exclusions",
    ):
        op.drop_table(table)
    op.drop_column("points", "excluded")


def _refers(table: str, column: str, target: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint([column], [target], name=f"fk_{table}_{column}")


def _exclusions() -> None:
    op.create_table(
        "exclusions",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("result_id", sa.String(32), nullable=False),
        sa.Column("reason", sa.String(500), nullable=False),
        sa.Column("actor", sa.String(100), nullable=False),
        sa.Column("excluded_at", NOW, nullable=False),
        sa.Column("undone_at", NOW, nullable=True),
        sa.Column("undone_by", sa.String(100), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_exclusions"),
        _refers("exclusions", "result_id", "results.id"),
    )
    op.create_index("ix_exclusions_result_id", "exclusions", ["result_id"])


def _judgements() -> None:
    op.create_table(
        "judgements",
        sa.Column("series_id", sa.String(32), nullable=False),
        sa.Column("points", sa.Integer(), nullable=False),
        sa.Column("newest", sa.JSON(), nullable=False),
        sa.Column("noise", sa.JSON(), nullable=True),
        sa.Column("warnings", sa.JSON(), nullable=False),
        sa.Column("judged_at", NOW, nullable=False),
        sa.PrimaryKeyConstraint("series_id", name="pk_judgements"),
        _refers("judgements", "series_id", "series.id"),
    )
    op.create_table(
        "settled_windows",
        sa.Column("series_id", sa.String(32), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("ends_at", NOW, nullable=False),
        sa.Column("next_from", sa.String(32), nullable=False),
        sa.Column("changes", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("series_id", "number", name="pk_settled_windows"),
        _refers("settled_windows", "series_id", "series.id"),
        _refers("settled_windows", "next_from", "results.id"),
    )
    op.create_index(
        "ix_settled_windows_series_id_ends_at", "settled_windows", ["series_id", "ends_at"]
    )


def _unjudged() -> None:
    op.create_table(
        "unjudged",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("revision", sa.String(100), nullable=False),
        sa.Column("result_id", sa.String(32), nullable=True),
        sa.Column("since", NOW, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_unjudged"),
        _refers("unjudged", "revision", "revisions.name"),
        _refers("unjudged", "result_id", "results.id"),
    )
    # What is stored already is judged too; its digits keep the order, and every new id is larger.
    op.execute(
        "INSERT INTO unjudged (id, revision, since) "
        "SELECT substr(cast(1000000000 + row_number() OVER (ORDER BY ordered_at) AS varchar), 2), "
        "name, ordered_at FROM revisions"
    )


def _findings() -> None:
    op.create_table(
        "findings",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("cause", sa.String(16), nullable=False),
        sa.Column("certainty", sa.String(16), nullable=False),
        sa.Column("sentence", sa.Text(), nullable=False),
        sa.Column("attribution", sa.JSON(), nullable=True),
        sa.Column("measured", sa.JSON(), nullable=False),
        sa.Column("last_good", sa.String(100), nullable=True),
        sa.Column("first_bad", sa.String(100), nullable=False),
        sa.Column("first_bad_at", NOW, nullable=False),
        sa.Column("comparability", sa.JSON(), nullable=False),
        sa.Column("worker", sa.String(64), nullable=True),
        sa.Column("share", sa.Double(), nullable=True),
        sa.Column("owner", sa.String(100), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("due_on", sa.Date(), nullable=True),
        sa.Column("opened_at", NOW, nullable=False),
        sa.Column("announced_at", NOW, nullable=True),
        sa.Column("closed_at", NOW, nullable=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.CheckConstraint(f"state in ({STATES})", name="state_known"),
        sa.PrimaryKeyConstraint("id", name="pk_findings"),
        _refers("findings", "last_good", "revisions.name"),
        _refers("findings", "first_bad", "revisions.name"),
        _refers("findings", "worker", "workers.name"),
    )
    op.create_index("ix_findings_state_id", "findings", ["state", "id"])
    op.create_index("ix_findings_first_bad", "findings", ["first_bad"])


def _of_findings() -> None:
    op.create_table(
        "finding_series",
        sa.Column("finding_id", sa.String(32), nullable=False),
        sa.Column("series_id", sa.String(32), nullable=False),
        sa.Column("first_bad_result", sa.String(32), nullable=False),
        sa.Column("first_bad_at", NOW, nullable=False),
        *(
            sa.Column(name, sa.Double(), nullable=False)
            for name in ("effect", "effect_low", "effect_high", "before", "after", "doubt")
        ),
        sa.Column("ended", sa.String(16), nullable=False),
        sa.Column("ended_at", NOW, nullable=True),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("finding_id", "series_id", name="pk_finding_series"),
        _refers("finding_series", "finding_id", "findings.id"),
        _refers("finding_series", "series_id", "series.id"),
        _refers("finding_series", "first_bad_result", "results.id"),
    )
    op.create_index("ix_finding_series_series_id", "finding_series", ["series_id"])
    op.create_table(
        "finding_events",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("finding_id", sa.String(32), nullable=False),
        sa.Column("at", NOW, nullable=False),
        sa.Column("actor", sa.String(100), nullable=False),
        sa.Column("action", sa.String(32), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_finding_events"),
        _refers("finding_events", "finding_id", "findings.id"),
    )
    op.create_index("ix_finding_events_finding_id", "finding_events", ["finding_id"])
