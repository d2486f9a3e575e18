"""Databases for tests: SQLite, and a real PostgreSQL too where a test is marked `both_databases`.

Marked are the files about SQL: locks, races, leases, types, triggers, migrations, paging, and the
promise that both databases answer alike. Of what only computes with rows, a few tests are, so that
every statement of the service runs on PostgreSQL.

Hypothesis has no deadline here: how long an example takes on a busy machine is no property of ours.
"""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

hypothesis.settings.register_profile(
    "unhurried", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("unhurried")
# Most tests are not about access: their service asks for no tokens. Those that are say otherwise,
# and those that run the programs as people do give them no setting about it.
os.environ["THROUGHLINE_ACCESS"] = "open"
# Tests run side by side: threads of arithmetic would wait for each other, and cost more for it.
# torch and BLAS read this when they are loaded, here and in every process that a test starts.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# To look through what thousands of tests import, as often as usual, took a sixth of their time.
gc.set_threshold(20_000, 20, 20)
gc.disable()  # until all tests are imported

if TYPE_CHECKING:
    from builders.forked import ForkServer
    from builders.lent_databases import LentDatabases
    from builders.postgres_server import PostgresServer

    from service.database.session import Database


LONGEST = (
    "tests/whole/",
    "tests/worker/test_gang_worker.py",
    "tests/browser/test_accessibility.py",
    "tests/benchmarks/test_accounts_of_gangs.py",
    "tests/benchmarks/test_gangs.py",
    "tests/chaos/",
    "tests/benchmarks/test_measurement_process.py",
    "tests/cli/test_up.py",
    "tests/corpus/",
    "tests/service/test_description_holds.py",
)
"""Files with tests of ten seconds and more, that with the longest first."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest tests begin first: at the end all processes but one would wait for them."""

    def place(item: pytest.Item) -> int:
        places = (at for at, name in enumerate(LONGEST) if item.nodeid.startswith(name))
        return next(places, len(LONGEST))

    items.sort(key=place)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Both databases for tests that are about databases; one may be left to `make soak`."""
    marker = metafunc.definition.get_closest_marker("both_databases")
    if marker is None or "database_url" not in metafunc.fixturenames:
        return
    kinds = [
        pytest.param(kind, marks=pytest.mark.slow) if kind == marker.kwargs.get("slow") else kind
        for kind in ("sqlite", "postgresql")
    ]
    metafunc.parametrize("database_url", kinds, indirect=True)


def pytest_collection_finish() -> None:
    """Spare the garbage collector the tests themselves, which live as long as the run."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _as_tests_need_it() -> None:
    from builders import certificates_once, compiled_once, in_one_piece, undelayed, unsynced

    unsynced.apply()
    compiled_once.apply()
    undelayed.apply()
    in_one_piece.apply()
    certificates_once.apply()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server with the migrated database ``template``."""
    from builders.postgres_server import running

    from service.database.migrate import upgrade

    with running() as server:
        server.run("CREATE DATABASE template")
        upgrade(server.url("template"))
        yield server


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated SQLite file, to be copied."""
    from service.database.migrate import upgrade

    path = tmp_path_factory.mktemp("template") / "template.sqlite3"
    upgrade(f"sqlite:///{path}")
    return path


@pytest.fixture
def sqlite_url(sqlite_template: Path, tmp_path: Path) -> str:
    """A fresh, migrated SQLite database."""
    path = tmp_path / "throughline.sqlite3"
    shutil.copyfile(sqlite_template, path)
    return f"sqlite:///{path}"


@pytest.fixture(scope="session")
def lent_databases(postgres: PostgresServer) -> LentDatabases:
    """Migrated databases of the server, handed from test to test."""
    from builders.lent_databases import LentDatabases

    return LentDatabases(postgres)


@pytest.fixture
def postgres_url(postgres: PostgresServer, lent_databases: LentDatabases) -> Iterator[str]:
    """A migrated PostgreSQL database, as if nobody had used it."""
    with lent_databases.lent() as name:
        yield postgres.url(name)


@pytest.fixture
def database_url(request: pytest.FixtureRequest) -> str:
    """A fresh, migrated database: see `pytest_generate_tests`."""
    name = "postgres_url" if getattr(request, "param", "") == "postgresql" else "sqlite_url"
    url = request.getfixturevalue(name)
    assert isinstance(url, str)
    return url


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """Sessions on a fresh database."""
    from service.database.session import Database

    opened = Database(database_url)
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def forks() -> ForkServer:
    """Starts `python -m MODULE ARGUMENTS` without the seconds that its imports take."""
    from builders.forked import server

    return server()
