"""Add the pairs of workers and label sets that they meet, and the row that health checks write."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

BEFORE_ALL = -(2**31)
"""A bound that holds for every queue."""
WORKERS = sa.table(
    "workers", sa.column("name"), sa.column("labels", sa.JSON), sa.column("gpu_uuid")
)
SETS = sa.table("requirements", sa.column("digest"), sa.column("labels", sa.JSON))


def upgrade() -> None:
    op.add_column("workers", sa.Column("gpu_uuid", sa.String(500), nullable=True))
    op.create_index("ix_workers_gpu_uuid", "workers", ["gpu_uuid"])
    rows = op.create_table(
        "eligibilities",
        sa.Column("requires", sa.String(64), nullable=False),
        sa.Column("worker", sa.String(64), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=True),
        sa.Column("place", sa.String(48), nullable=False, server_default=""),
        sa.PrimaryKeyConstraint("requires", "worker", name="pk_eligibilities"),
    )
    name = "ix_eligibilities_worker_rank_place_requires"
    op.create_index(name, "eligibilities", ["worker", "rank", "place", "requires"])
    workers = op.get_bind().execute(sa.select(WORKERS.c.name, WORKERS.c.labels)).all()
    for worker, labels in workers:
        told = WORKERS.update().where(WORKERS.c.name == worker)
        op.get_bind().execute(told.values(gpu_uuid=labels.get("gpu_uuid")))
        if met := list(_met(worker, labels)):
            op.get_bind().execute(rows.insert(), met)
    probes = op.create_table(
        "write_probes",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("written", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_write_probes"),
    )
    op.bulk_insert(probes, [{"id": 1, "written": 0}])


def downgrade() -> None:
    op.drop_table("write_probes")
    op.drop_table("eligibilities")
    op.drop_index("ix_workers_gpu_uuid", "workers")
    op.drop_column("workers", "gpu_uuid")


def _met(worker: str, labels: dict[str, str]) -> Iterator[dict[str, Any]]:
    for digest, required in op.get_bind().execute(sa.select(SETS.c.digest, SETS.c.labels)):
        if required.items() <= labels.items():
            yield {"requires": digest, "worker": worker, "rank": BEFORE_ALL, "place": ""}
