"""What people write at a revision or at a time stands on charts, in tables and in files."""

from __future__ import annotations

import csv
import io
import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from builders import long_series as long
from builders.html_page import faults, links
from builders.long_series import STEADY, noisy
from fastapi.testclient import TestClient

from service.dashboard.figures import segments
from service.schemas.annotations import AnnotationView

API = "/api/v1/annotations"
PAGE = f"/series/{long.SERIES}"
FIGURE = f"/explore/figure?series={long.SERIES}"


@pytest.fixture
def pages(empty_pages: TestClient) -> TestClient:
    """A service with one series of some points, a revision a day."""
    app: Any = empty_pages.app
    with app.state.database.writing() as session:
        long.prepare(session)
        long.add(session, dict(enumerate(noisy(STEADY)[:12])))
    return empty_pages


def write(pages: TestClient, text: str, **about: object) -> Any:
    return pages.post(API, json={"text": text, "actor": "ada", **about})


def between(number: int) -> str:
    """A time after the revision of this number, and before the next."""
    return (long.placed_at(number) + timedelta(hours=6)).isoformat()


def signs(figure: Any) -> dict[str, tuple[Any, str]]:
    """Where the signs of a chart lie and what they say."""
    notes = figure["layout"]["annotations"]
    return {
        one["text"]: (one["x"], one["hovertext"]) for one in notes if one["text"].startswith("✎")
    }


def charted(pages: TestClient, query: str = "") -> dict[str, tuple[Any, str]]:

    answer = pages.get(PAGE + query)
    assert answer.status_code == 200
    assert faults(answer.text) == []
    for link in links(answer.text):
        assert pages.get(link).status_code == 200, link
    found = re.search(r'<script type="application/json">(.*?)</script>', answer.text, re.DOTALL)
    assert found is not None
    return signs(json.loads(found.group(1)))


def cells(pages: TestClient, path: str) -> list[str]:
    return [row["annotations"] for row in csv.DictReader(io.StringIO(pages.get(path).text))]


def test_a_chart_marks_what_was_written_in_its_place(pages: TestClient) -> None:
    assert charted(pages) == {}
    assert write(pages, "before the first", at="2001-01-01T00:00:00Z").status_code == 201
    assert write(pages, "rack <4>", at=between(5)).status_code == 201
    assert write(pages, "new loader", revision=long.revision_of(3)).status_code == 201
    assert write(pages, "since then", at=between(40)).status_code == 201
    assert charted(pages) == {
        "✎1": (3, "new loader"),
        "✎2": (5.5, "rack &lt;4&gt;"),
        "✎3": (11.5, "since then"),
    }
    assert charted(pages, "?x=time")["✎1"][0] == long.placed_at(3).strftime("%Y-%m-%dT%H:%M:%S")
    for x in ("order", "time"):
        drawn = pages.get(f"{FIGURE}&x={x}").json()
        assert [text for _, text in signs(drawn).values()] == [
            "new loader",
            "rack &lt;4&gt;",
            "since then",
        ]
        assert drawn["said"][-2].endswith(", ada: rack <4>")
        assert signs(drawn) == charted(pages, f"?x={x}")


def test_the_table_tells_who_wrote_it_and_removes_it(pages: TestClient) -> None:
    made = write(pages, "new loader", revision=long.revision_of(3)).json()
    text = re.sub(r"\s+", " ", re.sub("<[^>]+>", " ", pages.get(PAGE).text))
    assert "✎1 r00003 new loader ada just now" in text
    assert "new loader ada, just now" in re.sub(
        r"\s+", " ", re.sub("<[^>]+>", " ", pages.get(f"/revisions/{made['revision']}").text)
    )
    assert pages.delete(f"{API}/{made['id']}").status_code == 204
    assert pages.delete(f"{API}/{made['id']}").status_code == 404
    assert charted(pages) == {}
    log = pages.get("/api/v1/audit").json()["items"]
    assert [line["action"].split()[0] for line in log[:2]] == ["DELETE", "POST"]
    assert made["id"] in log[0]["object"]


def test_files_have_it_beside_the_point_that_it_comes_before(pages: TestClient) -> None:
    for text, about in (
        ("=rack", {"at": between(1)}),
        ("loader", {"revision": long.revision_of(2)}),
        ("later", {"at": between(11)}),
    ):
        assert write(pages, text, **about).status_code == 201
    expected = ["", "", "'=rack; loader", *[""] * 9]
    assert cells(pages, f"{PAGE}/points.csv") == expected
    assert cells(pages, f"/explore/points.csv?series={long.SERIES}") == expected


def test_what_is_of_a_project_is_shown_in_that_one(pages: TestClient) -> None:
    write(pages, "theirs", at=between(2), project="theirs")
    assert charted(pages) == {}
    assert "theirs" not in pages.get(f"{PAGE}/points.csv").text
    write(pages, "everybody's", at=between(2))
    assert charted(pages) == {"✎1": (2.5, "everybody's")}
    assert pages.get(API).json()["items"][0]["project"] is None


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"revision": "r00003", "at": "2026-01-01T00:00:00Z"},
        {"revision": "nowhere"},
        {"at": "1066-10-14T00:00:00Z"},
        {"at": "2026-01-01T00:00:00Z", "text": ""},
        {"at": "2026-01-01T00:00:00Z", "text": "x" * 501},
    ],
)
def test_nothing_is_written_about_nothing(pages: TestClient, wrong: dict[str, str]) -> None:
    answer = pages.post(API, json={"text": "a", "actor": "ada"} | wrong)
    assert answer.status_code == 422
    assert pages.get(API).json()["items"] == []


def test_a_chart_draws_no_more_signs_than_can_be_told_apart_and_wraps_them() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    many = [
        AnnotationView(
            id=str(number),
            project=None,
            revision=None,
            at=at,
            text="a word and " * 20,
            actor="ada",
            created_at=at,
        )
        for number in range(segments.MOST_LABELS + 5)
    ]
    lines, drawn = segments.annotation_marks(many, [], ())
    assert len(lines) == len(drawn) == segments.MOST_LABELS
    assert (drawn[0]["text"], drawn[-1]["text"]) == ("✎6", f"✎{len(many)}")
    said = str(drawn[0]["hovertext"]).split("<br>")
    assert max(map(len, said)) <= segments.WRAPPED
