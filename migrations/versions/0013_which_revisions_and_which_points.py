"""Which revisions a worker has, and which points were measured on a disturbed device."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

DISTURBING = ("throttled", "other_processes", "device_busy")
BATCH = 100


def upgrade() -> None:
    op.add_column("workers", sa.Column("revisions", sa.JSON(), nullable=True))
    told = sa.Column("disturbed", sa.String(500), nullable=False, server_default="")
    op.add_column("points", told)
    _mark(op.get_bind())


def _mark(bind: sa.Connection) -> None:
    """Mark the points that are there, and let their series be judged again without them."""
    mark = sa.text("UPDATE points SET disturbed = :disturbed WHERE result_id = :id")
    note = sa.text(
        "INSERT INTO unjudged (id, revision, result_id, since) "
        "SELECT :note, revision, result_id, min(revision_at) FROM points "
        "WHERE result_id = :id GROUP BY revision, result_id"
    )
    for number, (result_id, disturbed) in enumerate(list(_disturbed(bind))):
        bind.execute(mark, {"disturbed": disturbed, "id": result_id})
        bind.execute(note, {"note": f"{number:032x}", "id": result_id})


def _disturbed(bind: sa.Connection) -> Iterator[tuple[str, str]]:
    """Results that make points and were measured on a disturbed device, with its flags."""
    some = sa.text(
        "SELECT id, document FROM results WHERE id > :last AND counted AND status = 'ok' "
        "ORDER BY id LIMIT :most"
    )
    last = ""
    while rows := bind.execute(some, {"last": last, "most": BATCH}).all():
        for result_id, document in rows:
            last = result_id
            if disturbed := _flags(bytes(document)):
                yield result_id, disturbed


def _flags(packed: bytes) -> str:
    try:
        result = json.loads(zlib.decompress(packed))
    except (ValueError, zlib.error):  # a damaged document is for `throughline verify` to tell
        return ""
    told = list(result.get("flags", ()))
    told += [flag for one in result.get("replicates", ()) for flag in one.get("flags", ())]
    return ", ".join(flag for flag in dict.fromkeys(told) if flag in DISTURBING)


def downgrade() -> None:
    op.drop_column("points", "disturbed")
    op.drop_column("workers", "revisions")
