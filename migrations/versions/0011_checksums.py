"""A checksum in each row that holds facts of its own; a stored result refuses every change."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

COVERED = {
    "workers": "name labels version first_seen_at",
    "submissions": "id project suite revision source created_at",
    "idempotency_keys": "key digest submission_id created_at",
    "jobs": "id submission_id project position case_key spec revision requires rank rerun_of "
    "created_at",
    "attempts": "job_id number worker claim_id secret granted_at",
    "results": "id job_id attempt digest counted turn project revision worker environment "
    "measured_at received_at",
    "traces": "result_id digest size_b received_at",
    "series": "id project case_key case metric unit direction comparability created_at",
    "schedules": "name project cron timezone suite revision_rule requires enabled created_at",
    "slots": "schedule due_at fired_at",
    "comparisons": "id project state baseline contender source request cases baseline_submission "
    "contender_submission created_at ends_at decided_at decision key key_digest",
    "comparison_tries": "comparison_id place case_place pair side job_id",
    "confirmations": "id series_id case_key last_good first_bad first_bad_result worker before "
    "after usual state comparisons reading sentence created_at decided_at",
    "findings": "id project kind state cause certainty sentence attribution measured last_good "
    "first_bad comparability worker share owner note due_on opened_at closed_at version",
    "finding_series": "finding_id series_id first_bad_result effect effect_low effect_high before "
    "after doubt ended place",
    "finding_events": "finding_id at actor action detail",
    "judgements": "series_id points newest noise warnings judged_at",
    "settled_windows": "series_id number ends_at next_from changes",
    "exclusions": "id result_id reason actor excluded_at undone_at undone_by",
    "tokens": "id kind name project digest key_id created_at created_by expires_at rotated_at "
    "revoked_at",
    "enrolments": "id digest worker created_at created_by expires_at",
    "browser_sessions": "id token_id created_at expires_at",
    "audit_events": "id at token_id actor action object",
}
"""What each checksum is of, as `service.models` has it at this version."""
SILENT = {
    "results": "a stored result stays as it is",
    "traces": "a stored trace stays as it is",
    "audit_events": "the audit log only grows",
}
"""What refuses a change of its rows, and so their first checksums; of results, every change now."""
OLD_FIELDS = ("id", "job_id", "attempt", "digest", "counted", "status", "document")
BATCH = 200


def guards(kind: str) -> Iterator[str]:
    """The guards that are made anew."""
    for table, refusal in SILENT.items():
        create = f"CREATE TRIGGER guard_{table}_update BEFORE UPDATE ON {table}"
        if kind == "sqlite":
            yield f"{create} BEGIN SELECT RAISE(ABORT, '{refusal}'); END"
        else:
            yield f"{create} FOR EACH ROW EXECUTE FUNCTION guard_refuse('{refusal}')"


def upgrade() -> None:
    # Plain columns and no copy of a table: the other triggers stay.
    for table in COVERED:
        column = sa.Column("checksum", sa.String(64), nullable=False, server_default="")
        op.add_column(table, column)
    for table in SILENT:
        _drop_guard(table)
    for table, covered in COVERED.items():
        _write(table, covered.split())
    for statement in guards(op.get_bind().dialect.name):
        op.get_bind().exec_driver_sql(statement)


def downgrade() -> None:
    _drop_guard("results")
    differs = " OR ".join(f"NEW.{field} <> OLD.{field}" for field in OLD_FIELDS)
    refusal = SILENT["results"]
    if op.get_bind().dialect.name == "sqlite":
        extent = f"WHEN {differs} BEGIN SELECT RAISE(ABORT, '{refusal}'); END"
    else:
        extent = f"FOR EACH ROW WHEN ({differs}) EXECUTE FUNCTION guard_refuse('{refusal}')"
    op.get_bind().exec_driver_sql(
        f"CREATE TRIGGER guard_results_update BEFORE UPDATE ON results {extent}"
    )
    for table in COVERED:
        op.drop_column(table, "checksum")


def _drop_guard(table: str) -> None:
    bind = op.get_bind()
    where = "" if bind.dialect.name == "sqlite" else f" ON {table}"
    bind.exec_driver_sql(f"DROP TRIGGER guard_{table}_update{where}")


def _write(name: str, covered: list[str]) -> None:
    """Give the rows that a table has already their checksums."""
    bind = op.get_bind()
    table = sa.Table(name, sa.MetaData(), autoload_with=bind, resolve_fks=False)
    key = list(table.primary_key.columns)
    wanted = sa.select(*key, *(table.c[each] for each in covered if table.c[each] not in key))
    same = [column == sa.bindparam(f"key_{column.name}") for column in key]
    change = table.update().where(*same).values(checksum=sa.bindparam("told"))
    wanted, last = wanted.order_by(*key).limit(BATCH), None
    while True:
        page = wanted if last is None else wanted.where(sa.tuple_(*key) > last)
        found = bind.execute(page).mappings().all()
        if not found:
            return
        last = sa.tuple_(*(sa.literal(found[-1][column.name], column.type) for column in key))
        bind.execute(change, [_checksum(name, covered, key, row) for row in found])


def _checksum(
    name: str, covered: list[str], key: list[sa.Column[Any]], row: Mapping[Any, Any]
) -> dict[str, Any]:
    told = [[each, _plain(row[each])] for each in covered]
    written = json.dumps([name, told], sort_keys=True)
    digest = hashlib.sha256(written.encode()).hexdigest()
    return {"told": digest, **{f"key_{column.name}": row[column.name] for column in key}}


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):  # SQLite's are UTC and say no zone
        aware = value.replace(tzinfo=UTC) if value.tzinfo is None else value
        return (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    return value.isoformat() if isinstance(value, date) else value
