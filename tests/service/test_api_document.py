"""What the service says of itself, and what it never imports."""

import importlib
import inspect
import subprocess
import sys
from pkgutil import iter_modules
from typing import Any

import anyio
import pytest
from builders.access import Clock
from fastapi.routing import APIRoute, APIRouter
from fastapi.testclient import TestClient
from sqlalchemy import select
from sqlalchemy.orm import Session

from service import api
from service.api.routes import ROUTES
from service.database import health
from service.database.session import Database
from service.http.strict_route import declared
from service.models import WriteProbe
from service.schemas.errors import DatabaseUnavailable

FOLDER = api.__path__


def test_the_document_lists_every_route_with_what_it_does(client: TestClient) -> None:
    document: dict[str, Any] = client.get("/api/v1/openapi.json").json()
    listed = {
        f"{method.upper()} {path}"
        for path, operations in document["paths"].items()
        for method in operations
    }
    assert listed == declared(ROUTES).keys()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert len(operation.get("description", "")) > 10, f"{method} {path} says nothing"


def test_every_route_is_plain_or_waits_without_the_database() -> None:
    """A database call inside `async def` would hold up every other request."""
    nouns = [importlib.import_module(f"service.api.{each.name}") for each in iter_modules(FOLDER)]
    routes = [
        route
        for noun in nouns
        for route in getattr(noun, "router", APIRouter()).routes
        if isinstance(route, APIRoute)
    ]
    assert len(routes) == len(ROUTES)
    waiting = [route for route in routes if inspect.iscoroutinefunction(route.endpoint)]
    work = {"claim_job", "start", "heartbeat", "post_result", "post_trace", "post_log", "release"}
    assert {route.name for route in waiting} == {*work, "read_submission", "read_health"}
    for route in waiting:
        asked = inspect.signature(route.endpoint).parameters
        assert "session" not in asked, f"{route.name} could use it in the event loop"


def test_health_says_which_database_is_used(client: TestClient, database_url: str) -> None:
    told = client.get("/api/v1/health").json()
    assert told["status"] == "ok"
    assert told["migrated"] is True
    assert told["database"] == database_url.partition(":")[0]


def test_health_is_found_out_once_however_many_ask(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody needs a token for it, and it writes a row."""
    database, clock = Database(sqlite_url), Clock()
    monkeypatch.setattr(health, "time", clock)
    checkup = health.Checkup(database)

    def written() -> int:
        with database.reading() as session:
            return session.scalars(select(WriteProbe.written)).one()

    async def ask() -> None:
        for passed_s, age_s, times in ((0, 0, 1), (4, 4, 1), (4.9, 4.9, 1), (5, 0, 2)):
            clock.now_s = 1_000.0 + passed_s
            assert await checkup.now() == pytest.approx(age_s)
            assert written() == times

    anyio.run(ask)
    database.close()


def test_a_fault_is_told_to_all_who_ask_and_forgotten(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, clock = Database(sqlite_url), Clock()
    monkeypatch.setattr(health, "time", clock)
    checkup = health.Checkup(database)
    true, faults = health.probe, [DatabaseUnavailable("It is away.")]

    def probe(session: Session) -> None:
        if faults:
            raise faults.pop()
        true(session)

    monkeypatch.setattr(health, "probe", probe)

    async def ask() -> None:
        for _ in range(2):
            with pytest.raises(DatabaseUnavailable, match="It is away"):
                await checkup.now()
        clock.now_s += 1
        await checkup.now()

    anyio.run(ask)
    database.close()


@pytest.mark.parametrize("path", ["/", "/series", "/api/v1/health", "/api/v1/jobs"])
def test_a_head_is_a_get_without_its_body(client: TestClient, path: str) -> None:
    asked, told = client.head(path), client.get(path)
    assert (asked.status_code, asked.content) == (told.status_code, b"")
    assert asked.headers["content-type"] == told.headers["content-type"]
    assert client.head(f"/api/v1/submissions/{'0' * 32}").status_code == 404


def test_the_catalog_lists_what_can_be_asked_for(client: TestClient) -> None:
    told = client.get("/api/v1/catalog").json()
    assert {"resnet50", "nanogpt", "unet"} <= {each["name"] for each in told["workloads"]}
    assert {"precision", "compile"} <= {each["name"] for each in told["axes"]}
    assert {"smoke", "ladder", "nightly"} <= {each["name"] for each in told["suites"]}
    assert all(each["cases"] for each in told["suites"])


def test_the_service_imports_without_torch() -> None:
    program = "import sys, service.app, service.__main__; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)
