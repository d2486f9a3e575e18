"""Every column of every table: a change past the service is seen by `verify`, or not promised."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from builders.corrupted import broken, corrupted, run, unguarded
from builders.lived_in import live
from sqlalchemy import JSON, Boolean, Column, Date, Float, Integer, String, select, text
from sqlalchemy.orm import Session
from sqlalchemy.types import TypeEngine

from service.database.session import Database
from service.history.artifacts.folder import FolderStore
from service.history.artifacts.store import beside
from service.maintenance.verify import guards, verify
from service.maintenance.verify.invariants import check
from service.models import Base, UtcDateTime

TABLES = {table.name: table for table in Base.metadata.sorted_tables}
DOCS = Path(__file__).parents[3] / "docs" / "reference" / "columns.md"


def _not_promised() -> frozenset[str]:
    """The columns that the documentation says nothing is promised of."""
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| .+ \|$", DOCS.read_text(), re.MULTILINE)
    return frozenset(
        f"{table}.{column}" for table, columns in rows for column in re.findall(r"`(\w+)`", columns)
    )


NOT_PROMISED = _not_promised()
DONE = (
    "(SELECT job_id FROM results WHERE counted AND id IN (SELECT result_id FROM points) "
    "AND CAST(verdict AS TEXT) <> 'null' ORDER BY id LIMIT 1)"
)
RESULT = f"(SELECT id FROM results WHERE counted AND job_id = {DONE})"
VICTIMS = {
    "attempts": f"job_id = {DONE}",
    "audit_events": "action = 'POST /api/v1/submissions' AND token_id IS NOT NULL",
    "changes": "id IN (SELECT change_id FROM finding_series)",
    "comparison_tries": "result_id IS NOT NULL",
    "comparisons": "state = 'decided' AND key IS NOT NULL",
    "eligibilities": "(rank, place) = (SELECT j.rank, j.id FROM jobs AS j WHERE "
    "j.state = 'queued' AND j.kept_for IS NULL AND j.requires = eligibilities.requires "
    "ORDER BY j.rank, j.id LIMIT 1)",
    "enrolments": "used_at IS NOT NULL",
    "exclusions": "undone_at IS NULL",
    "finding_events": "action = 'plan'",
    "finding_events.at": "action = 'open'",
    "job_events": f"job_id = {DONE} AND attempt IS NOT NULL AND to_state = 'succeeded'",
    "jobs": f"id = {DONE}",
    "jobs.cancel_requested": "state = 'cancelled'",
    "points": f"result_id = {RESULT}",
    "results": f"id = {RESULT}",
    "revisions": "name = 'r1'",
    "schedules": "name = 'hourly'",
    "series": "project = 'red'",
    "submissions": f"id = (SELECT submission_id FROM jobs WHERE id = {DONE})",
    "tokens": "name = 'ci'",
    "pending_analyses": "result_id IS NOT NULL",
    "workers": "name = 'w1'",
}
"""Which row of a table is changed, or for which column, where it is not any one."""
VALUES = {
    "attempts.state": "'failed'",
    "bisections.state": "'cancelled'",
    "comparison_tries.measured": """'{"metrics"\\: {}}'::json""",
    "comparisons.state": "'cancelled'",
    "eligibilities.rank": "NULL",
    "findings.state": "'resolved'",
    "job_events.id": "(SELECT max(id) + 7 FROM job_events)",
    "job_events.from_state": "'granted'",
    "job_events.to_state": "'failed'",
    "jobs.cancel_requested": "false",
    "jobs.state": "'failed'",
    "results.attempt": "attempt + 70",
    "results.job_id": "(SELECT max(id) FROM jobs WHERE attempt = 0)",
    "results.document": "(SELECT document FROM results WHERE status = 'oom')",
    "results.status": "'oom'",
    "slots.submission_id": "NULL",
}
"""What is planted, where any other value of the type would not do."""
OTHERS: dict[type[TypeEngine[Any]], str] = {
    Boolean: "NOT {}",
    Integer: "coalesce({}, 0) + 70",
    Float: "coalesce({}, 1.0) * 1.5",
    JSON: """'{{"planted"\\: "1"}}'::json""",
    Date: "'2020-02-02'",
    UtcDateTime: "'2020-02-02 02\\:02\\:02.000000+00\\:00'",
    String: "'planted'",
}
"""Another value of each type, as SQL."""
NAMED_BY = {"finding_events": "finding_id", "job_events": "job_id", "points": "result_id"}
"""The column by which a report names a row, where that is not the first of its key."""


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def world(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Database]:
    """A database in which everything has happened. No test changes it for good."""
    folder = tmp_path_factory.mktemp("world")
    if request.param == "sqlite":
        template = request.getfixturevalue("sqlite_template")
        url = f"sqlite:///{shutil.copyfile(template, folder / 'world.sqlite3')}"
    else:
        server = request.getfixturevalue("postgres")
        name = f"world{folder.stat().st_ino}"
        server.run(f"CREATE DATABASE {name} TEMPLATE template")
        url = server.url(name)
    live(url, folder / "state")
    database = Database(url)
    yield database
    database.close()


@pytest.fixture
def fixed_constraints(monkeypatch: pytest.MonkeyPatch) -> None:
    """To read all constraints anew takes a quarter of the time, and no value changes them."""
    monkeypatch.setattr(guards, "_constraints", lambda _: iter(()))


def test_a_database_in_which_everything_has_happened_keeps_every_promise(world: Database) -> None:
    with world.reading() as session:
        sqlite = world.kind == "sqlite"
        report = verify(world, _artifacts(session) if sqlite else None)
    assert broken(report) == {}
    assert report.warnings == []
    assert {f.outcome.value for f in report.findings} == {"held"}
    with world.reading() as session:
        empty = [t.name for t in TABLES.values() if not session.execute(select(t).limit(1)).all()]
    assert empty == [], "a table without a row shows nothing"


def test_what_is_documented_as_not_promised_is_there() -> None:
    columns = {f"{table.name}.{column.name}" for table in TABLES.values() for column in table.c}
    assert NOT_PROMISED
    assert columns >= NOT_PROMISED
    assert columns - NOT_PROMISED >= VALUES.keys()


@pytest.mark.usefixtures("fixed_constraints")
@pytest.mark.parametrize("world", ["sqlite"], indirect=True)
@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("table", sorted(TABLES))
def test_a_change_of_any_column_is_seen_and_the_row_is_named(
    world: Database, table: str, every: int
) -> None:
    """A new column is changed too: it is seen, or the documentation says why it is not.

    That `verify` sees changes on PostgreSQL too is shown by what is planted below.
    """
    unseen = {}
    with unguarded(world) as session:
        for column in list(TABLES[table].c)[::every]:
            if f"{table}.{column.name}" in NOT_PROMISED:
                continue
            point = session.begin_nested()
            said = _seen(session, column)
            if said is not None:
                unseen[column.name] = said
            point.rollback()
    assert unseen == {}


def _seen(session: Session, column: Column[object]) -> str | None:
    """Change one value; None if `verify` names its row, else all that it says."""
    table, name = column.table, f"{column.table}.{column.name}"
    key = [each.name for each in table.primary_key]
    planted = VALUES.get(name) or _another(column)
    where = VICTIMS.get(name) or VICTIMS.get(str(table)) or "true"
    wanted = f"{', '.join(key)}, {NAMED_BY.get(str(table), key[0])} AS row, {planted} AS planted"
    victim = _run(session, f"SELECT {wanted} FROM {table} WHERE {where} ORDER BY 1").first()
    assert victim is not None
    same = " AND ".join(f"{each} = :{each}" for each in key)
    chosen = {each: victim._mapping[each] for each in key}
    _run(session, f'UPDATE {table} SET "{column.name}" = {planted} WHERE {same}', **chosen)
    names = {str(victim.row), str(victim.planted)}
    told = list(broken(check(session, _artifacts(session))).values())
    return None if any(each in sentence for each in names for sentence in told) else str(told)


def _artifacts(session: Session) -> FolderStore:
    """The artifacts beside a SQLite database."""
    return FolderStore(beside(session.get_bind().engine.url.render_as_string(), Path()))


def _run(session: Session, statement: str, **values: object) -> Any:
    """Run a statement that is written for PostgreSQL, on either database."""
    sqlite = session.get_bind().dialect.name == "sqlite"
    plain = statement.replace("::json", "" if sqlite else "\\:\\:json")
    return session.execute(text(plain), values)


def _another(column: Column[object]) -> str:
    """Another value of a column, as SQL; of a reference, another row that there is."""
    name = f'"{column.table.name}"."{column.name}"'
    parent = next((key.column for key in column.foreign_keys), None)
    if parent is not None and not column.primary_key:
        other = f"SELECT p.{parent.name} FROM {parent.table.name} AS p WHERE p.{parent.name} <> "
        return f"coalesce(({other}coalesce({name}, '') ORDER BY 1 LIMIT 1), 'planted')"
    return next(sql for kind, sql in OTHERS.items() if isinstance(column.type, kind)).format(name)


POINT = "UPDATE points SET {} WHERE result_id = '{{result}}'"
OF_RESULT = "UPDATE results SET {} WHERE id = '{{result}}'"
OF_SERIES = "UPDATE series SET {} WHERE id = '{{series}}'"
OF_JOBS = "(SELECT id FROM jobs WHERE submission_id = '{submission}')"
OF_RESULTS = f"(SELECT id FROM results WHERE job_id IN {OF_JOBS})"
ERASED = [
    *(
        f"DELETE FROM {table} WHERE result_id IN {OF_RESULTS}"
        for table in ("pending_analyses", "exclusions", "artifacts", "points")
    ),
    *(
        f"DELETE FROM {table} WHERE job_id IN {OF_JOBS}"
        for table in ("results", "attempts", "job_events")
    ),
    *(
        f"DELETE FROM {table} WHERE submission_id = '{{submission}}'"
        for table in ("jobs", "idempotency_keys")
    ),
    "DELETE FROM submissions WHERE id = '{submission}'",
]
PLANTED: dict[str, tuple[str, list[str]]] = {
    "a point's value": ("result", [POINT.format("value = value * 1.01")]),
    "a point's lower bound": ("result", [POINT.format("low = low * 0.99")]),
    "a point's upper bound": ("result", [POINT.format("high = high * 1.01")]),
    "a point without bounds": ("result", [POINT.format("low = NULL, high = NULL")]),
    "what a point's interval rests on": ("result", [POINT.format("\"interval\" = 'within_run'")]),
    "a point's replicates": ("result", [POINT.format("replicates = 30")]),
    "a point's worker": ("result", [POINT.format("worker = 'w2'")]),
    "a point's environment": ("result", [POINT.format("environment = '{environment}'")]),
    "a point's time": ("result", [POINT.format("measured_at = '2020-02-02 02:02:02.000000'")]),
    "a point that is out of its history": ("result", [POINT.format("excluded = NOT excluded")]),
    "a point that is gone": ("result", ["DELETE FROM points WHERE result_id = '{result}'"]),
    "a series' direction": ("series", [OF_SERIES.format("direction = 'lower'")]),
    "a series' unit": ("series", [OF_SERIES.format("unit = 'img/h'")]),
    "a series' project": ("series", [OF_SERIES.format("project = 'red'")]),
    "a series' metric": ("series", [OF_SERIES.format("metric = 'latency'")]),
    "a series' hardware": ("series", [OF_SERIES.format("comparability = '{{}}'::json")]),
    "a series' case": ("series", [OF_SERIES.format("case_key = 'unet:tiny'")]),
    "a result's project": ("result", [OF_RESULT.format("project = 'red'")]),
    "a result's verdict": (
        "result",
        [OF_RESULT.format("verdict = (SELECT verdict FROM results WHERE status = 'oom')")],
    ),
    "a result's revision, with its points": (
        "result",
        [
            OF_RESULT.format("revision = 'r2'"),
            POINT.format("revision = 'r2', revision_at = '2026-02-01 00:00:00.000000'"),
        ],
    ),
    "a result's worker, with its points": (
        "result",
        [OF_RESULT.format("worker = 'w2'"), POINT.format("worker = 'w2'")],
    ),
    "a result's environment, with its points": (
        "result",
        [
            OF_RESULT.format("environment = '{environment}'"),
            POINT.format("environment = '{environment}'"),
        ],
    ),
    "a result's time, with its points": (
        "result",
        [
            OF_RESULT.format("measured_at = '2020-02-02 02:02:02.000000'"),
            POINT.format("measured_at = '2020-02-02 02:02:02.000000'"),
        ],
    ),
    "a result's status": ("result", [OF_RESULT.format("status = 'oom'")]),
    "a result's case": ("result", [OF_RESULT.format("case_key = 'unet:tiny'")]),
    "a result that counts no more": ("job", [OF_RESULT.format("counted = false")]),
    "a result's document": (
        "result",
        [OF_RESULT.format("document = (SELECT document FROM results WHERE status = 'oom')")],
    ),
    "a revision's date, with its points": (
        "revision",
        [
            "UPDATE revisions SET ordered_at = '2020-02-02 02:02:02.000000' WHERE name = 'r1'",
            "UPDATE points SET revision_at = '2020-02-02 02:02:02.000000' WHERE revision = 'r1'",
        ],
    ),
    "an environment's facts": (
        "digest",
        ["UPDATE environments SET facts = '{{}}'::json WHERE digest = '{digest}'"],
    ),
    "the labels that jobs require": (
        "labels",
        ["UPDATE requirements SET labels = '{{}}'::json WHERE digest = '{labels}'"],
    ),
    "a key that leads to another submission": (
        "key",
        [
            "UPDATE idempotency_keys SET submission_id = (SELECT max(id) FROM submissions) "
            "WHERE key = 'key-0'"
        ],
    ),
    "a job of another submission": (
        "job",
        ["UPDATE jobs SET submission_id = '{other}' WHERE id = '{job}'"],
    ),
    "an attempt's worker": ("job", ["UPDATE attempts SET worker = 'w2' WHERE job_id = '{job}'"]),
    "a job's end": (
        "job",
        ["UPDATE jobs SET finished_at = '2030-02-02 02:02:02.000000' WHERE id = '{job}'"],
    ),
    "what an attempt of a gate measured": (
        "comparison",
        [
            "UPDATE comparison_tries SET measured = (SELECT measured FROM comparison_tries "
            "WHERE comparison_id = '{comparison}' AND place = 1) "
            "WHERE comparison_id = '{comparison}' AND place = 0"
        ],
    ),
    "a gate's side that is gone": (
        "comparison",
        ["DELETE FROM comparison_tries WHERE comparison_id = '{comparison}' AND place = 1"],
    ),
    "a slot of another submission": (
        "schedule",
        [
            "UPDATE slots SET submission_id = '{submission}' "
            "WHERE due_at = (SELECT max(due_at) FROM slots)"
        ],
    ),
    "an exclusion that is gone": ("excluded", ["DELETE FROM exclusions"]),
    "a submission that is erased everywhere but in the audit log": ("submission", ERASED),
}
"""What an attack planted, and its like: by what the report names it, and how it is done."""
FIRST_OF_TABLES = {
    re.split("UPDATE |DELETE FROM ", statements[0])[1].split()[0]: what
    for what, (_, statements) in reversed(PLANTED.items())
}
"""On PostgreSQL one of every table is planted: `verify` compares what it has read in Python."""


@pytest.fixture(scope="module")
def facts(world: Database) -> dict[str, str]:
    """Names of the rows that are changed."""
    wanted = {
        "job": DONE[1:-1],
        "result": RESULT[1:-1],
        "series": f"SELECT series_id FROM points WHERE result_id = {RESULT}",
        "submission": f"SELECT submission_id FROM jobs WHERE id = {DONE}",
        "digest": f"SELECT environment FROM results WHERE id = {RESULT}",
        "environment": f"SELECT environment FROM results WHERE environment <> "
        f"(SELECT environment FROM results WHERE id = {RESULT}) LIMIT 1",
        "other": "SELECT max(id) FROM submissions WHERE revision = 'r1' AND project = 'red'",
        "labels": "SELECT max(digest) FROM requirements",
        "comparison": "SELECT id FROM comparisons WHERE key IS NOT NULL",
        "excluded": "SELECT result_id FROM exclusions WHERE undone_at IS NULL",
        "exclusion": "SELECT id FROM exclusions WHERE undone_at IS NULL",
        "waiting": "SELECT max(id) FROM jobs WHERE state = 'queued' AND revision = 'r3'",
        "token": "SELECT id FROM tokens WHERE name = 'ci'",
        "session": "SELECT min(id) FROM browser_sessions",
        "finding": "SELECT id FROM findings",
        "audit": "SELECT min(id) FROM audit_events",
    }
    with world.reading() as session:
        found = {name: str(session.execute(text(sql)).scalar()) for name, sql in wanted.items()}
    return found | {"revision": "r1", "key": "key-0", "schedule": "hourly"}


def _is_seen(world: Database, facts: dict[str, str], what: str) -> None:
    name, statements = PLANTED[what]
    planted = (each.format(**facts) for each in statements)
    with corrupted(world, *planted) as session:
        found = broken(check(session))
    assert 12 not in found
    assert any(facts[name] in sentence for sentence in found.values()), found


@pytest.mark.usefixtures("fixed_constraints")
@pytest.mark.parametrize("world", ["sqlite"], indirect=True)
@pytest.mark.parametrize("what", PLANTED)
def test_what_an_attack_plants_is_seen_and_named(
    world: Database, facts: dict[str, str], what: str
) -> None:
    _is_seen(world, facts, what)


@pytest.mark.usefixtures("fixed_constraints")
@pytest.mark.parametrize("world", ["postgresql"], indirect=True)
@pytest.mark.parametrize("what", FIRST_OF_TABLES.values())
def test_what_an_attack_plants_in_any_table_is_seen_on_postgresql_too(
    world: Database, facts: dict[str, str], what: str
) -> None:
    _is_seen(world, facts, what)


def test_a_submission_that_is_erased_from_the_audit_log_too_leaves_a_gap_in_sqlites(
    world: Database, facts: dict[str, str]
) -> None:
    """PostgreSQL leaves gaps by itself: there only an older copy would show it."""
    more = "DELETE FROM audit_events WHERE object LIKE '%%{submission}'"
    with corrupted(world, *(each.format(**facts) for each in (more, *ERASED))) as session:
        found = broken(check(session))
    if world.kind == "sqlite":
        assert "table job_events: It has" in found[9]
    else:
        assert 9 not in found


NOTHING = {
    "sqlite": "CREATE TRIGGER guard_results_update BEFORE UPDATE ON results BEGIN SELECT 1; END",
    "postgresql": "CREATE TRIGGER guard_results_update BEFORE UPDATE ON results "
    "FOR EACH ROW WHEN (false) EXECUTE FUNCTION guard_refuse('a stored result stays as it is')",
}
"""A guard by name, which refuses nothing."""
ON_RESULTS = {"sqlite": "", "postgresql": " ON results"}
MENDED = {
    "a guard that is gone": ("guard_results_update on results", ["DROP TRIGGER {guard}"]),
    "a guard that does nothing": (
        "guard_results_update on results",
        ["DROP TRIGGER {guard}", "{nothing}"],
    ),
    "a unique index that is gone": ("uq_attempts_live", ["DROP INDEX uq_attempts_live"]),
    "a unique index that is none": (
        "uq_attempts_live",
        ["DROP INDEX uq_attempts_live", "CREATE INDEX uq_attempts_live ON attempts (job_id)"],
    ),
    "a unique index of no row": (
        "uq_results_counted",
        [
            "DROP INDEX uq_results_counted",
            "CREATE UNIQUE INDEX uq_results_counted ON results (job_id) WHERE counted AND id = ''",
        ],
    ),
}
ONLY_POSTGRESQL = {
    "a function that does nothing": (
        "function guard_refuse",
        [
            "CREATE OR REPLACE FUNCTION guard_refuse() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RETURN NEW; END $$"
        ],
    ),
    "a guard that is switched off": (
        "guard_jobs_update_before",
        ["ALTER TABLE jobs DISABLE TRIGGER guard_jobs_update_before"],
    ),
    "foreign keys that are switched off": (
        "table points: Its guard is switched off: foreign keys",
        ["ALTER TABLE points DISABLE TRIGGER ALL"],
    ),
    "a constraint that is gone": (
        "constraint ck_jobs_state_known",
        ["ALTER TABLE jobs DROP CONSTRAINT ck_jobs_state_known"],
    ),
    "a constraint that constrains nothing": (
        "constraint ck_jobs_state_known",
        [
            "ALTER TABLE jobs DROP CONSTRAINT ck_jobs_state_known",
            "ALTER TABLE jobs ADD CONSTRAINT ck_jobs_state_known CHECK (true)",
        ],
    ),
    "a user for whom no trigger fires": (
        "session_replication_role is replica",
        ["SET session_replication_role = replica"],
    ),
}


@pytest.mark.parametrize("what", [*MENDED, *ONLY_POSTGRESQL])
def test_a_guard_that_does_not_guard_is_an_error(world: Database, what: str) -> None:
    if what in ONLY_POSTGRESQL and world.kind == "sqlite":
        pytest.skip("SQLite knows no such thing")
    said, statements = (MENDED | ONLY_POSTGRESQL)[what]
    guard = f"guard_results_update{ON_RESULTS[world.kind]}"
    with world.session(write=True) as session:
        for statement in statements:
            run(session, statement.format(guard=guard, nothing=NOTHING[world.kind]))
        report = check(session)
        session.rollback()
    assert said in broken(report)[12]
    assert not report.kept


def test_a_strange_trigger_is_told_and_breaks_nothing(world: Database) -> None:
    """A tool that replicates the database may have made it."""
    made = {
        "sqlite": "CREATE TRIGGER watcher AFTER INSERT ON results BEGIN SELECT 1; END",
        "postgresql": "CREATE TRIGGER watcher AFTER DELETE ON results "
        "FOR EACH ROW EXECUTE FUNCTION guard_refuse('x')",
    }
    with world.session(write=True) as session:
        run(session, made[world.kind])
        report = check(session)
        session.rollback()
    assert report.kept
    assert [warning for warning in report.warnings if "watcher" in warning] == report.warnings
    assert report.warnings


def test_a_row_that_cannot_be_read_is_named(world: Database, facts: dict[str, str]) -> None:
    """Of a bad disk: what no column of this kind can hold. PostgreSQL refuses to hold it."""
    if world.kind == "postgresql":
        pytest.skip("PostgreSQL holds nothing else than its types")
    torn = "UPDATE jobs SET spec = '{{\"case\": ', created_at = 'noon' WHERE id = '{job}'"
    with corrupted(world, torn.format(**facts)) as session:
        found = broken(check(session))
    assert f"jobs {facts['job']}: It cannot be read" in found[11]
