"""The tables: the migrations make what the models say, up and down, on both databases."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from builders.postgres_server import PostgresServer
from fastapi.testclient import TestClient
from sqlalchemy import inspect, text
from sqlalchemy.engine import make_url

from service.app import create_app
from service.database.health import check
from service.database.migrate import downgrade, upgrade
from service.database.session import Database
from service.models import Base
from service.schemas.errors import DatabaseUnavailable, MadeByNewer, NotMigrated, ServiceError
from service.settings import Settings

pytestmark = pytest.mark.both_databases


def test_the_migrated_tables_are_those_of_the_models(database: Database) -> None:
    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []


def test_promises_about_rows_are_kept_by_the_migrated_database_too(database: Database) -> None:
    found = inspect(database.engine)
    for table in Base.metadata.sorted_tables:
        checks = {str(check["name"]) for check in found.get_check_constraints(table.name)}
        wanted = {str(each.name) for each in table.constraints if str(each.name).startswith("ck_")}
        assert checks == wanted
        unique = {str(each["name"]) for each in found.get_indexes(table.name) if each["unique"]}
        assert {str(each.name) for each in table.indexes if each.unique} <= unique


def test_down_and_up_again_leaves_a_database_that_works(database_url: str) -> None:
    downgrade(database_url, "base")
    database = Database(database_url)
    assert set(inspect(database.engine).get_table_names()) <= {"alembic_version"}
    with pytest.raises(NotMigrated, match="throughline migrate"):
        check(database)
    upgrade(database_url)
    check(database)
    upgrade(database_url)
    check(database)
    database.close()


def answer_of(url: str, path: str = "/api/v1/health") -> tuple[int, dict[str, object]]:
    settings = Settings(database_url=url, background=False)
    with TestClient(create_app(settings), raise_server_exceptions=False) as client:
        answer = client.get(path)
        assert "Retry-After" in answer.headers
        return answer.status_code, answer.json()


@pytest.mark.parametrize("path", ["/api/v1/health", "/api/v1/jobs"])
def test_a_database_without_tables_says_what_to_run(
    path: str, tmp_path: Path, postgres: PostgresServer
) -> None:
    empty = tmp_path / "empty.sqlite3"
    empty.touch()
    for url in (f"sqlite:///{empty}", postgres.url("postgres")):
        status, problem = answer_of(url, path)
        assert (status, problem["type"]) == (503, "not-migrated")
        assert "throughline migrate" in str(problem["detail"])


def test_a_database_that_is_not_there_is_not_made_by_asking(tmp_path: Path) -> None:
    path = tmp_path / "none.sqlite3"
    status, problem = answer_of(f"sqlite:///{path}")
    assert (status, problem["type"]) == (503, "not-migrated")
    assert not path.exists()


def test_a_database_of_a_newer_version_is_not_touched(database: Database) -> None:
    with database.writing() as session:
        session.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    url = database.url.render_as_string(hide_password=False)
    for step in (check, lambda _: upgrade(url), lambda _: downgrade(url, "base")):
        with pytest.raises(MadeByNewer, match="9999, which a newer version of Throughline made"):
            step(database)
    with database.reading() as session:
        assert session.execute(text("SELECT * FROM alembic_version")).scalar_one() == "9999"


def test_a_database_of_a_newer_version_sends_nobody_to_migrate(database: Database) -> None:
    with database.writing() as session:
        session.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    status, problem = answer_of(database.url.render_as_string(hide_password=False))
    assert (status, problem["type"]) == (503, "made-by-newer")
    assert "throughline migrate" not in str(problem["detail"])


def test_a_read_only_database_is_said_to_be_read_only(sqlite_url: str) -> None:
    url = f"{sqlite_url.replace('sqlite:///', 'sqlite:///file:')}?mode=ro&uri=true"
    status, problem = answer_of(url)
    assert (status, problem["type"]) == (503, "database-unavailable")
    assert "read-only" in str(problem["detail"])
    with TestClient(create_app(Settings(database_url=url, background=False))) as client:
        written = client.put("/api/v1/workers/w", json={"name": "w"})
        assert (written.status_code, written.json()["type"]) == (503, "database-unavailable")
        assert client.get("/api/v1/jobs").status_code == 200


def test_a_read_only_postgresql_is_said_to_be_read_only(
    postgres: PostgresServer, postgres_url: str
) -> None:
    name = make_url(postgres_url).database
    postgres.run(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    status, problem = answer_of(postgres_url)
    assert (status, problem["type"]) == (503, "database-unavailable")
    assert "read-only" in str(problem["detail"])


@pytest.mark.parametrize("path", ["/api/v1/health", "/api/v1/jobs"])
def test_a_database_that_is_away_is_said_to_be_away(path: str, tmp_path: Path) -> None:
    status, problem = answer_of(f"postgresql://nobody@/none?host={tmp_path}", path)
    assert (status, problem["type"]) == (503, "database-unavailable")
    assert "cannot be reached" in str(problem["detail"])


def refusal_of(url: str) -> str:
    """What the service and `migrate` say of a database that they cannot use; the same."""
    with pytest.raises(DatabaseUnavailable) as found:
        upgrade(url)
    status, problem = answer_of(url)
    assert (status, problem["detail"]) == (503, found.value.detail)
    return found.value.detail


def test_what_postgresql_refuses_is_not_said_to_be_away(
    postgres: PostgresServer, postgres_url: str
) -> None:
    name = make_url(postgres_url).database
    assert "no such database" in refusal_of(postgres.url("nowhere"))
    stranger = postgres_url.replace("throughline@", "stranger@")
    assert "no such role" in refusal_of(stranger)
    postgres.run("CREATE ROLE stranger")
    try:
        assert "does not let this role in" in refusal_of(stranger)
        postgres.run("ALTER ROLE stranger LOGIN CONNECTION LIMIT 0")
        assert "no connection left" in refusal_of(stranger)
        postgres.run("ALTER ROLE stranger CONNECTION LIMIT 9")
        assert "lacks rights" in refusal_of(stranger)
        postgres.run(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        assert "its log says why" in refusal_of(stranger)
    finally:
        postgres.run(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        postgres.run("DROP ROLE stranger")


def test_serving_without_rights_on_the_tables_is_one_sentence(
    postgres: PostgresServer, postgres_url: str
) -> None:
    postgres.run("CREATE ROLE reader LOGIN")
    database = Database(postgres_url)
    try:
        with database.writing() as session:
            session.execute(text("GRANT SELECT ON alembic_version TO reader"))
        url = postgres_url.replace("throughline@", "reader@")
        done = subprocess.run(
            [sys.executable, "-m", "service", "--port", "9"],
            env=os.environ | {"THROUGHLINE_DATABASE_URL": url},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stderr.count("\n")) == (3, 1), done.stderr
        assert "lacks rights" in done.stderr
    finally:
        with database.writing() as session:
            session.execute(text("DROP OWNED BY reader"))
        database.close()
        postgres.run("DROP ROLE reader")


def test_a_file_that_is_no_database_is_said_to_be_none(tmp_path: Path) -> None:
    path = tmp_path / "letter.sqlite3"
    path.write_text("Dear Ann, " * 500)
    assert "no SQLite database" in refusal_of(f"sqlite:///{path}")
    assert path.read_text() == "Dear Ann, " * 500


def test_a_database_that_another_process_holds_is_said_to_be_busy(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.database.engine.BUSY_S", 0.1)
    holder, database = Database(sqlite_url), Database(sqlite_url)
    with holder.writing() as session:
        session.execute(text("UPDATE schedules SET enabled = 1"))
        with pytest.raises(ServiceError, match="busy"):
            check(database)
        with database.reading() as reader:
            reader.execute(text("SELECT 1 FROM schedules"))
    check(database)
    holder.close()
    database.close()


@pytest.mark.parametrize("url", ["mysql://x/y", "sqlite://", "nonsense", "postgresql"])
def test_an_address_that_is_none_is_refused_in_one_sentence(url: str) -> None:
    with pytest.raises(DatabaseUnavailable, match="THROUGHLINE_DATABASE_URL"):
        upgrade(url)


def test_a_folder_that_cannot_be_made_is_said_to_be_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DatabaseUnavailable, match="folder"):
        upgrade(f"sqlite:///{tmp_path}/file/db.sqlite3")


def test_migrations_of_two_replicas_take_turns(postgres: PostgresServer) -> None:
    from threading import Thread

    postgres.run("CREATE DATABASE together")
    errors: list[Exception] = []

    def run() -> None:
        try:
            upgrade(postgres.url("together"))
        except Exception as error:
            errors.append(error)

    threads = [Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    postgres.run("DROP DATABASE together WITH (FORCE)")


def test_a_writer_that_waits_too_long_in_the_same_process_gives_up_and_harms_nothing(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.database.engine.BUSY_S", 0.1)
    database = Database(sqlite_url)
    with database.writing() as session:
        session.execute(text("UPDATE schedules SET enabled = 1"))
        with pytest.raises(ServiceError, match="busy"), database.writing() as other:
            other.execute(text("SELECT 1"))
    with database.writing() as session:
        session.execute(text("UPDATE schedules SET enabled = 0"))
    check(database)
    database.close()
