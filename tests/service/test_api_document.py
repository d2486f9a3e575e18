"""What the service says of itself, and what it never imports."""

import importlib
import inspect
import subprocess
import sys
from pkgutil import iter_modules
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from fastapi.routing import APIRoute, APIRouter
from fastapi.testclient import TestClient

from service import api, condition
from service.database import Database
from service.errors import DatabaseUnavailable

FOLDER = api.__path__

TABLE = {
    ("GET", "/health"),
    ("GET", "/audit"),
    ("POST", "/enrolments"),
    ("POST", "/enrolments/redeem"),
    ("GET", "/tokens"),
    ("POST", "/tokens"),
    ("POST", "/tokens/{token_id}/rotate"),
    ("POST", "/tokens/{token_id}/revoke"),
    ("GET", "/catalog"),
    ("POST", "/submissions"),
    ("GET", "/submissions"),
    ("GET", "/submissions/{submission_id}"),
    ("GET", "/submissions/{submission_id}/report"),
    ("POST", "/jobs"),
    ("GET", "/jobs"),
    ("GET", "/jobs/{job_id}"),
    ("POST", "/jobs/{job_id}/cancel"),
    ("PUT", "/workers/{name}"),
    ("GET", "/workers"),
    ("POST", "/leases"),
    ("POST", "/jobs/{job_id}/attempts/{number}/start"),
    ("POST", "/jobs/{job_id}/attempts/{number}/heartbeat"),
    ("POST", "/jobs/{job_id}/attempts/{number}/result"),
    ("POST", "/jobs/{job_id}/attempts/{number}/trace"),
    ("POST", "/jobs/{job_id}/attempts/{number}/release"),
    ("GET", "/results"),
    ("GET", "/results/{result_id}"),
    ("GET", "/results/{result_id}/trace"),
    ("GET", "/results/{result_id}/exclusions"),
    ("PUT", "/results/{result_id}/exclusion"),
    ("DELETE", "/results/{result_id}/exclusion"),
    ("GET", "/series"),
    ("GET", "/series/{series_id}"),
    ("GET", "/series/{series_id}/points"),
    ("GET", "/series/{series_id}/judgement"),
    ("GET", "/confirmations"),
    ("GET", "/findings"),
    ("GET", "/findings/report"),
    ("GET", "/findings/{finding_id}"),
    ("POST", "/findings/{finding_id}/actions"),
    ("PATCH", "/findings/{finding_id}"),
    ("GET", "/environments/{digest}"),
    ("GET", "/changes"),
    ("POST", "/comparisons"),
    ("GET", "/comparisons"),
    ("GET", "/comparisons/{comparison_id}"),
    ("POST", "/comparisons/{comparison_id}/cancel"),
    ("GET", "/schedules"),
    ("GET", "/schedules/{name}"),
    ("PUT", "/schedules/{name}"),
    ("DELETE", "/schedules/{name}"),
    ("POST", "/schedules/{name}/fire"),
}


def test_the_document_lists_every_route_with_what_it_does(client: TestClient) -> None:
    document: dict[str, Any] = client.get("/api/v1/openapi.json").json()
    listed = {
        (method.upper(), path.removeprefix("/api/v1"))
        for path, operations in document["paths"].items()
        for method in operations
    }
    assert listed == TABLE
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
    assert len(routes) == len(TABLE)
    waiting = [route for route in routes if inspect.iscoroutinefunction(route.endpoint)]
    work = {"claim_job", "start", "heartbeat", "post_result", "post_trace", "release"}
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
    """Nobody needs a token for it, and it takes the turn to write."""
    looked: list[Database] = []
    monkeypatch.setattr(condition, "check", looked.append)
    times = iter([100.0, 100.0, 100.5, 101.5, 101.5])
    clock = SimpleNamespace(monotonic=lambda: next(times))
    monkeypatch.setattr(condition, "time", clock)
    checkup = condition.Checkup(Database(sqlite_url))

    async def ask() -> None:
        for _ in range(3):
            await checkup.now()

    anyio.run(ask)
    assert len(looked) == 2


def test_a_fault_is_told_to_all_who_ask_and_forgotten(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(condition, "AFRESH_S", 0.0)
    faults = iter([DatabaseUnavailable("It is away."), None])

    def check(_: Database) -> None:
        if fault := next(faults):
            raise fault

    monkeypatch.setattr(condition, "check", check)
    checkup = condition.Checkup(Database(sqlite_url))

    async def ask() -> None:
        with pytest.raises(DatabaseUnavailable, match="It is away"):
            await checkup.now()
        await checkup.now()

    anyio.run(ask)


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
