"""The pages of targets and schedules tell what is measured by itself, and make it so."""

from __future__ import annotations

from typing import Any

import pytest
from builders.html_page import faults
from fastapi.testclient import TestClient

COMMIT = "a" * 40
REF = "refs/heads/main"
HEAD = {
    "target": "nanogpt",
    "ref": REF,
    "commit": COMMIT,
    "at": "2026-11-20T10:00:00Z",
    "author": "ada",
    "title": "Faster <loader>",
}


@pytest.fixture
def pages(client: TestClient) -> TestClient:
    """Those of a service with one worker that builds."""
    worker: dict[str, Any] = {"name": "w9", "labels": {"device": "cpu"}, "heads": [HEAD]}
    worker |= {"targets": {"nanogpt": "", "vision": "its repository does not answer"}}
    assert client.put("/api/v1/workers/w9", json=worker).is_success
    return client


def test_targets_tell_where_their_refs_are_and_who_follows_them(pages: TestClient) -> None:
    text = pages.get("/targets").text
    assert faults(text) == []
    assert "Faster &lt;loader&gt;" in text
    assert "vision: its repository does not answer" in text
    assert "no schedule" in text
    assert 'name="revision_rule" value="ref:nanogpt:main"' in text
    body = {"cron": "0 2 * * *", "suite": "smoke", "revision_rule": "ref:nanogpt:main"}
    assert pages.put("/api/v1/schedules/nanogpt", json=body).is_success, "as the form sends it"
    text = pages.get("/targets").text
    assert "no schedule" not in text
    fire = "/api/v1/schedules/nanogpt/fire"
    assert f'data-send="POST {fire}"' in text
    assert pages.post(fire, json={}).status_code == 201
    assert "queued" in pages.get("/targets").text


def test_schedules_are_made_fired_and_removed_by_their_page(pages: TestClient) -> None:
    body = {"cron": "0 2 * * *", "suite": "smoke", "revision_rule": "date"}
    assert pages.put("/api/v1/schedules/nights", json=body).is_success
    text = pages.get("/schedules").text
    assert faults(text) == []
    assert 'data-send="PUT /api/v1/schedules/{name}"' in text
    assert 'data-send="DELETE /api/v1/schedules/nights"' in text
    assert 'data-send="POST /api/v1/schedules/nights/fire"' in text


def test_where_nobody_builds_the_page_says_how_to_begin(client: TestClient) -> None:
    assert "No worker builds anything" in client.get("/targets").text
