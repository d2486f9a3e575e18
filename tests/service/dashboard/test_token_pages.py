"""The page of tokens tells whose they are and what they may; its forms make and revoke them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders.access import Doorman, guarded
from builders.analysed import analyse
from builders.html_page import faults, links
from fastapi.testclient import TestClient
from sqlalchemy import select

from service.app import create_app
from service.dashboard import token_pages
from service.database.session import Database
from service.models import FindingRow, SeriesRow
from service.settings import Settings

API = "/api/v1"
SPEC = {"case": {"workload": "unet", "axes": {}}, "revision": "r1"}


@pytest.fixture
def doorman(sqlite_url: str, tmp_path: Path) -> Iterator[Doorman]:
    with guarded(sqlite_url, tmp_path) as doorman:
        yield doorman


def row(text: str, name: str) -> str:
    """What the row of a token or a project says, on one line."""
    [found] = [one for one in re.findall(r"<tr>.*?</tr>", text, re.S) if f">{name}" in one]
    return " ".join(re.sub(r"<[^>]+>", " ", found).replace("\u00a0", " ").split())


def test_the_page_tells_of_each_token_what_it_may_and_until_when(doorman: Doorman) -> None:
    admin = doorman.make("admin", "root")
    made = doorman.make("submit", "ci", lasts_s=86_400, project="red")
    doorman.make("read", "wall")
    body = {"kind": "worker", "name": "gpu-1"}
    assert doorman.ask("POST", f"{API}/tokens", admin.token, json=body).status_code == 201
    doorman.ask("POST", f"{API}/tokens/{made.id}/revoke", admin.token, json={})
    text = doorman.ask("GET", "/tokens", admin.token).text
    assert faults(text) == []
    assert "yours" in row(text, "root")
    assert "worker takes jobs, as the worker of its name" in row(text, "gpu-1")
    assert "by root" in row(text, "gpu-1")
    assert "never not by itself Revoke" in row(text, "wall")
    assert "project red" in row(text, "ci")
    assert made.expires_at is not None
    assert f"{made.expires_at:%Y-%m-%d %H:%M} UTC revoked just now" in row(text, "ci")
    assert f'data-send="POST {API}/tokens/{made.id}/revoke"' not in text, "it is over"
    assert f'data-send="POST {API}/tokens/{admin.id}/revoke"' in text
    assert made.token not in text


@pytest.mark.parametrize("seconds", token_pages.LASTING.values())
def test_the_api_takes_what_the_form_offers(doorman: Doorman, seconds: int | None) -> None:
    admin = doorman.token("admin")
    text = doorman.ask("GET", "/tokens", admin).text
    assert f'data-send="POST {API}/tokens" data-tells="token"' in text
    assert f'<option value="{seconds or ""}">' in text
    for kind in token_pages.KINDS:
        assert f'<option value="{kind.value}">' in text
        body = {"kind": kind.value, "name": "one", "project": None, "expires_in_s": seconds}
        assert doorman.ask("POST", f"{API}/tokens", admin, json=body).status_code == 201


def test_only_who_may_administer_sees_the_page_or_a_link_to_it(doorman: Doorman) -> None:
    doorman.make("admin")
    for kind, status in (("admin", 200), ("submit", 403), ("read", 403), ("worker", 403)):
        token = doorman.token(kind)
        assert doorman.ask("GET", "/tokens", token).status_code == status, kind
        linked = 'href="/tokens"' in doorman.ask("GET", "/", token).text
        assert linked is (kind == "admin"), kind
    assert doorman.ask("GET", "/tokens").status_code == 401
    for page in ("/tokens", "/sign-in"):
        assert 'href="/tokens"' not in doorman.ask("GET", page).text, "nobody knows who asks"


def test_tokens_that_ended_long_ago_are_counted_instead(
    doorman: Doorman, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_pages, "MOST_ENDED", 1)
    for _ in range(3):
        doorman.revoked("read")
    text = doorman.ask("GET", "/tokens", doorman.token("admin", "root")).text
    assert text.count(">revoked<") == 1
    assert "without 2 older ones that ended" in text


def test_a_project_is_there_once_a_token_or_a_submission_names_it(doorman: Doorman) -> None:
    admin = doorman.token("admin")
    assert "None: everybody who may read" in doorman.ask("GET", "/tokens", admin).text
    doorman.make("read", project="blue")
    doorman.make("submit", project="blue")
    body = SPEC | {"project": "red"}
    assert doorman.ask("POST", f"{API}/submissions", admin, json=body).status_code == 201
    text = doorman.ask("GET", "/tokens", admin).text
    assert row(text, "blue</a>") == "blue 0 0 2"
    assert row(text, "red</a>") == "red 0 0 0"


def test_a_project_leads_to_its_cases(sqlite_url: str) -> None:
    database = Database(sqlite_url)
    found = analyse(database)
    with database.writing() as session:
        series = session.scalars(select(SeriesRow).where(SeriesRow.metric == "throughput")).all()
        series[0].project = "vision"
        for each in session.scalars(select(FindingRow)):
            each.project = "vision"
            each.state = "open" if each.id == found.regression else "resolved"
    database.close()
    with TestClient(create_app(Settings(database_url=sqlite_url, background=False))) as client:
        text = client.get("/tokens").text
        assert row(text, "vision</a>") == "vision 1 1 0"
        assert "/cases?project=vision" in links(text)
        assert "There is no token yet" in text
        cases = client.get("/cases?project=vision&metric=throughput").text
        assert cases.count('<tr id="row-') == 1
        assert "<option selected>vision</option>" in cases
        assert client.get("/cases?metric=throughput").text.count('<tr id="row-') == 2
