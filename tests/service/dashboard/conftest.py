"""The application on a seeded database, as a browser without JavaScript sees it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders.seeded import Seeded, seed
from fastapi.testclient import TestClient

from service.app import create_app
from service.settings import Settings


@pytest.fixture(scope="session")
def seeded(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Seeded:
    """The newest twelve revisions of the history, with one change of environment."""
    path = tmp_path_factory.mktemp("dashboard") / "history.sqlite3"
    shutil.copyfile(sqlite_template, path)
    return seed(path, revisions=12)


@pytest.fixture(scope="session")
def pages(seeded: Seeded) -> Iterator[TestClient]:
    """A client of the seeded application; pages only read, so tests share it."""
    settings = Settings(database_url=f"sqlite:///{seeded.path}", background=False)
    with TestClient(create_app(settings), raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def empty_pages(sqlite_url: str) -> Iterator[TestClient]:
    """A client of an application in which nothing was ever measured."""
    settings = Settings(database_url=sqlite_url, background=False)
    with TestClient(create_app(settings), raise_server_exceptions=False) as client:
        yield client
