"""The search finds by words, shares its answer among the kinds, and keeps to a project."""

from __future__ import annotations

from typing import Any

import pytest
from builders import long_series as long
from fastapi.testclient import TestClient

from service.history import revisions

BAD = long.revision_of(len(long.STEADY))


@pytest.fixture
def searched(client: TestClient) -> TestClient:
    """A history that drops with a revision that has a title."""
    database = client.app.state.database  # type: ignore[attr-defined]
    with database.writing() as session:
        long.prepare(session)
        long.add(session, dict(enumerate([*long.noisy(long.STEADY), *long.noisy(long.DROPPED)])))
        revisions.describe(session, BAD, "ada", "Use 100% more_memory")
        long.look(session)
    return client


def hits(client: TestClient, text: str, **more: object) -> list[dict[str, Any]]:
    answer = client.get("/api/v1/search", params={"q": text, **more})
    assert answer.status_code == 200, answer.text
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("RESNET50 slower", {"finding"}),
        ("resnet50 bf16", {"series"}),
        ("more_memory ada", {"revision"}),
        ("100%", {"revision"}),
        ("moreXmemory", set()),
        (long.result_of(3), {"run"}),
        (BAD, {"revision", "finding"}),
    ],
)
def test_each_kind_is_found_by_its_words(searched: TestClient, text: str, kinds: set[str]) -> None:
    found = hits(searched, text)
    assert {one["kind"] for one in found} == kinds
    for one in found:
        assert searched.get(one["page"]).status_code == 200


def test_an_answer_is_limited_and_no_kind_takes_all_of_it(searched: TestClient) -> None:
    found = hits(searched, "r", limit=6)
    assert len(found) == 6
    assert {one["kind"] for one in found} == {"finding", "revision", "series"}
    assert searched.get("/api/v1/search?limit=51").status_code == 422
    assert searched.get("/api/v1/search", params={"q": "x" * 201}).status_code == 422


def test_without_words_the_newest_are_offered(searched: TestClient) -> None:
    assert {one["kind"] for one in hits(searched, "")} == {"finding", "revision"}


def test_the_page_shows_the_same_and_escapes_it(searched: TestClient) -> None:
    text = searched.get("/search", params={"q": "resnet50 <b>"}).text
    assert "Nothing is called so" in text
    assert "<b>" not in text.replace("<b data-count>", "")
    assert "/series/" in searched.get("/search?q=resnet50").text
