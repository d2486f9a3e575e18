"""Badges: the newest value of a series, the verdict of its findings, and its age."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from builders import long_series as long
from builders.access import guarded
from builders.service_hand import Hand
from fastapi.testclient import TestClient
from sqlalchemy import update

from benchmarks.contracts import Status
from service.database.session import Database, now_of
from service.models import FindingRow, FindingState, Point
from service.wording.formats import NBSP

SVG = "{http://www.w3.org/2000/svg}"
UNKNOWN = "0" * 32


def described(client: TestClient, series_id: str = long.SERIES) -> dict[str, Any]:
    answer = client.get(f"/badges/{series_id}.json")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def fill(database: Database, values: list[float], *, days_old: float = 0.0) -> None:
    """A series with these values, the newest measured so long ago, looked at by the service."""
    with database.writing() as session:
        long.prepare(session)
        long.add(session, dict(enumerate(values)))
        long.look(session)
        at = now_of(session) - timedelta(days=days_old, seconds=7_260)
        newest = Point.result_id == long.result_of(len(values) - 1)
        session.execute(update(Point).where(newest).values(measured_at=at))


@pytest.mark.both_databases
def test_a_regression_is_red_until_it_is_over(client: TestClient, database: Database) -> None:
    fill(database, long.STEADY + long.DROPPED)
    assert described(client) == {
        "schemaVersion": 1,
        "label": "resnet50 throughput",
        "message": f"95{NBSP}img/s · regression \u22125.0{NBSP}% · 2{NBSP}h{NBSP}ago",
        "color": "red",
        "isError": False,
    }
    with database.writing() as session:
        session.execute(update(FindingRow).values(state=FindingState.EXPECTED))
    assert described(client)["message"] == f"95{NBSP}img/s · no change found · 2{NBSP}h{NBSP}ago"
    assert described(client)["color"] == "brightgreen"


def test_an_improvement_is_green(client: TestClient, database: Database) -> None:
    fill(database, long.STEADY + long.RAISED)
    assert "improvement +6.0" in described(client)["message"]
    assert described(client)["color"] == "brightgreen"


def test_a_case_that_fails_now_is_red_and_shows_no_old_value(
    client: TestClient, hand: Hand, submit: Callable[..., object]
) -> None:
    now = datetime.now(UTC)
    for days, status in ((1, Status.OK), (0, Status.OOM)):
        submit(f"r{days}", "resnet50")
        hand.measure(status=status, measured_at=now - timedelta(days=days, hours=2))
    items = client.get("/api/v1/series?metric=throughput").json()["items"]
    badge = described(client, items[0]["id"])
    assert (badge["color"], badge["isError"]) == ("red", False)
    assert badge["message"] == f"fails · out of memory · 2{NBSP}h{NBSP}ago"


def test_a_short_history_has_no_verdict(client: TestClient, database: Database) -> None:
    fill(database, [100.0] * 9)
    badge = described(client)
    assert (badge["message"], badge["color"]) == (f"100{NBSP}img/s · 2{NBSP}h{NBSP}ago", "blue")


def test_an_old_value_is_grey_whatever_it_says(client: TestClient, database: Database) -> None:
    fill(database, long.STEADY + long.DROPPED, days_old=8)
    badge = described(client)
    assert badge["color"] == "lightgrey"
    assert badge["message"].endswith(f"8{NBSP}d{NBSP}ago")


def test_a_series_without_points_is_not_measured(client: TestClient, database: Database) -> None:
    fill(database, [100.0])
    badge = described(client, long.OTHER)
    assert (badge["message"], badge["color"]) == ("not measured", "lightgrey")


def test_an_unknown_series_has_a_grey_badge_and_404(client: TestClient) -> None:
    described = client.get(f"/badges/{UNKNOWN}.json")
    assert described.status_code == 404
    assert (described.json()["color"], described.json()["isError"]) == ("lightgrey", True)
    drawn = client.get(f"/badges/{UNKNOWN}.svg")
    assert drawn.status_code == 404
    assert "no such series" in drawn.text


def test_the_picture_says_the_same(client: TestClient, database: Database) -> None:
    fill(database, long.STEADY + long.DROPPED)
    answer = client.get(f"/badges/{long.SERIES}.svg")
    assert answer.headers["content-type"] == "image/svg+xml"
    assert answer.headers["cross-origin-resource-policy"] == "cross-origin"
    badge = described(client)
    texts = [one.text for one in ET.fromstring(answer.text).iter(f"{SVG}text")]
    assert texts == [badge["label"], badge["message"]]


def test_its_markdown_stands_on_the_page_of_the_series(
    client: TestClient, database: Database
) -> None:
    fill(database, [100.0])
    page = client.get(f"/series/{long.SERIES}").text
    markdown = (
        f"[![resnet50 throughput](http://testserver/badges/{long.SERIES}.svg)]"
        f"(http://testserver/series/{long.SERIES})"
    )
    assert markdown in page


@pytest.mark.parametrize("public", [False, True])
def test_only_pinned_series_of_a_service_that_says_so_need_no_token(
    database_url: str, database: Database, tmp_path: Path, public: bool
) -> None:
    fill(database, [100.0])
    pinned = {"pinned": long.SERIES, "public_badges": public}
    with guarded(database_url, tmp_path, **pinned) as doorman:
        for form in ("svg", "json"):
            own, other = (f"/badges/{one}.{form}" for one in (long.SERIES, long.OTHER))
            assert doorman.ask("GET", own).status_code == (200 if public else 401)
            assert doorman.ask("GET", other).status_code == 401
            assert doorman.ask("GET", other, doorman.token("read")).status_code == 200
            foreign = doorman.token("read", project="another")
            assert doorman.ask("GET", other, foreign).status_code == 404
