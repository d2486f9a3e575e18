"""Every answer tells a browser what it must not do with it, whoever made the answer."""

from __future__ import annotations

import re
import socket

import pytest
from builders.served import serving
from fastapi import FastAPI
from fastapi.testclient import TestClient

from service.app import create_app
from service.auth.permissions import Permission
from service.http.security_headers import ALWAYS, PAGE_POLICY
from service.settings import Settings

PAGES = ("/", "/jobs", "/nowhere", "/runs/none", "/compare?baseline=%3Cb%3E")
OTHERS = (
    "/api/v1/health",
    "/api/v1/jobs",
    "/api/v1/nowhere",
    "/api/v1/jobs/none",
    "/api/v1/jobs?limit=no",
    "/api/v1/openapi.json",
    "/assets/0/none",
    "/assets/0/app.js",
)
RAW = (b"GET /\x01 HTTP/1.1\r\n\r\n", b"no http\r\n\r\n")


def guarded(headers: object) -> None:
    told = {name.lower(): value for name, value in dict(headers).items()}  # type: ignore[call-overload]
    for name, value in ALWAYS.items():
        if name != "Content-Security-Policy":
            assert told.get(name.lower()) == value, name
    assert "frame-ancestors 'none'" in told["content-security-policy"]
    assert "default-src 'none'" in told["content-security-policy"]
    assert "'unsafe-inline'" not in told["content-security-policy"]
    assert "'unsafe-eval'" not in told["content-security-policy"]


@pytest.mark.parametrize("path", PAGES)
def test_a_page_has_the_policy_of_pages(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.headers["content-security-policy"] == PAGE_POLICY
    guarded(answer.headers)


@pytest.mark.parametrize("path", OTHERS)
def test_what_is_no_page_may_load_nothing(client: TestClient, path: str) -> None:
    answer = client.get(path, follow_redirects=False)
    assert "script-src" not in answer.headers["content-security-policy"]
    guarded(answer.headers)


def test_what_the_gate_and_the_method_refuse_is_guarded_too(client: TestClient) -> None:
    for answer in (
        client.post("/api/v1/jobs", content=b"{", headers={"Content-Type": "application/json"}),
        client.post("/api/v1/jobs", content=b"x", headers={"Content-Type": "text/plain"}),
        client.get("/api/v1/jobs?cursor=%00"),
        client.delete("/api/v1/jobs"),
    ):
        assert answer.status_code in {400, 405, 415}
        guarded(answer.headers)


def test_a_fault_of_the_service_is_guarded_too(client: TestClient) -> None:
    app = client.app
    assert isinstance(app, FastAPI)

    @app.get("/api/v1/broken")
    @app.get("/broken")
    @Permission.OPEN.required
    def broken() -> None:
        raise RuntimeError

    for path in ("/api/v1/broken", "/broken"):
        answer = client.get(path)
        assert answer.status_code == 500
        guarded(answer.headers)


def test_only_over_https_a_browser_is_told_to_stay_with_https(sqlite_url: str) -> None:
    app = create_app(Settings(database_url=sqlite_url, background=False))
    with TestClient(app, base_url="http://throughline.example") as plain:
        assert "strict-transport-security" not in plain.get("/").headers
    with TestClient(app, base_url="https://throughline.example") as secure:
        told = secure.get("/api/v1/health").headers["strict-transport-security"]
    assert re.fullmatch(r"max-age=\d{8}", told)


@pytest.mark.parametrize(
    ("told", "proxies", "kept"),
    [("https", "127.0.0.1", True), ("http", "127.0.0.1", False), ("https", "", False)],
)
def test_a_proxy_is_believed_about_https_if_it_was_named(
    sqlite_url: str, told: str, proxies: str, kept: bool
) -> None:
    with serving(sqlite_url, proxies=proxies) as served, served.connect() as line:
        asked = f"GET / HTTP/1.1\r\nHost: x\r\nX-Forwarded-Proto: {told}\r\nConnection: close"
        line.sendall(f"{asked}\r\n\r\n".encode())
        head = _all_of(line).partition(b"\r\n\r\n")[0].lower()
    assert (b"strict-transport-security: max-age=" in head) is kept


@pytest.mark.parametrize("sent", RAW)
def test_what_is_answered_below_the_application_is_guarded_too(
    sqlite_url: str, sent: bytes
) -> None:
    with serving(sqlite_url) as served, served.connect() as line:
        line.sendall(sent)
        head = _all_of(line).partition(b"\r\n\r\n")[0].decode().split("\r\n")
    assert head[0].startswith("HTTP/1.1 400")
    guarded(dict(each.split(": ", 1) for each in head[1:]))


def _all_of(line: socket.socket) -> bytes:
    parts = []
    while part := line.recv(65_536):
        parts.append(part)
    return b"".join(parts)
