"""The table of cases and the pages of series: what they rest on, over histories of every kind."""

from __future__ import annotations

import random
import re
from dataclasses import replace

import pytest
from builders import long_series as long
from builders.series import by_revision
from builders.service_hand import Hand
from fastapi.testclient import TestClient
from sqlalchemy import select

from benchmarks.contracts import Direction, Sample
from service.dashboard import pages
from service.database.session import Database
from service.history import queries
from service.models import EnvironmentRow, Exclusion, Point


def submit(client: TestClient, day: int, **axes: str) -> None:
    body = {
        "case": {"workload": "resnet50", "preset": "tiny", "axes": axes},
        "revision": f"rev{day:02}",
        "revision_at": f"2026-11-{day:02}T00:00:00Z",
    }
    assert client.post("/api/v1/submissions", json=body).status_code == 201


def measure(hand: Hand, day: int, value: float, **axes: str) -> str:
    submit(hand.client, day, **axes)
    return hand.measure((value, value * 1.001, value * 0.999))


def exclude(client: TestClient, result: str) -> None:
    body = {"reason": "another job ran", "actor": "ann"}
    assert client.put(f"/api/v1/results/{result}/exclusion", json=body).status_code == 200


def rows(client: TestClient, path: str = "/cases") -> list[str]:
    """The rows of the table of cases as a reader sees them."""
    found = re.findall(r'<tr id="row-.*?</tr>', client.get(path).text, re.DOTALL)
    return [plain(row) for row in found]


def plain(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html)).strip()


def figures(client: TestClient) -> str:
    """What stands at the head of the first series' page."""
    (series,) = client.get("/api/v1/series?metric=throughput").json()["items"]
    text = client.get(f"/series/{series['id']}").text
    return plain(text[text.index('<dl class="figures">') : text.index("</dl>")])


@pytest.mark.both_databases
def test_an_excluded_result_is_not_the_latest(client: TestClient, hand: Hand) -> None:
    measure(hand, 1, 100.0)
    exclude(client, measure(hand, 2, 1.0))
    (row,) = rows(client)
    assert "100 img/s" in row
    assert "rev01" in row
    told = figures(client)
    assert "Latest 100 img/s" in told
    assert "Revision rev01" in told
    assert "nothing to compare with" in told


def test_no_speed_up_rests_on_an_excluded_result(client: TestClient, hand: Hand) -> None:
    measure(hand, 1, 100.0)
    measure(hand, 1, 200.0, precision="bf16")
    measure(hand, 2, 100.0)
    fast = measure(hand, 2, 900.0, precision="bf16")
    assert "9.00\u00d7" in rows(client)[1]
    exclude(client, fast)
    assert "2.00\u00d7" in rows(client)[1]


def test_a_regression_is_told_across_an_excluded_night(client: TestClient, hand: Hand) -> None:
    measure(hand, 1, 100.0)
    exclude(client, measure(hand, 2, 100.0))
    measure(hand, 3, 50.0)
    (row,) = rows(client)
    assert re.search(r"▼ \S*50\.0\s% worse", row), row
    assert "worse from 100 img/s" in figures(client)


def test_a_revision_measured_every_night_still_stands_beside_the_one_before(
    client: TestClient, hand: Hand
) -> None:
    measure(hand, 1, 200.0)
    for _ in range(31):
        measure(hand, 2, 100.0)
    (row,) = rows(client)
    assert re.search(r"▼ \S*50\.0\s% worse", row), row


def test_a_metric_told_in_two_units_has_a_tab_for_each(client: TestClient, hand: Hand) -> None:
    for day, unit in ((1, "img/s"), (2, "sample/s")):
        submit(client, day)
        told = Sample(metric="throughput", unit=unit, direction=Direction.HIGHER, values=(1.0, 2.0))
        hand.measure(samples=(told,))
    for series in client.get("/api/v1/series").json()["items"]:
        text = client.get(f"/series/{series['id']}").text
        tabs = re.findall(r'<a href="([^"]*)" data-keep="revisions"([^>]*)>(Through[^<]*)<', text)
        assert [name for _, _, name in tabs] == ["Throughput in img/s", "Throughput in sample/s"]
        (own,) = [(path, name) for path, current, name in tabs if "aria-current" in current]
        assert own == (f"/series/{series['id']}", f"Throughput in {series['unit']}")


@pytest.mark.both_databases(slow="postgresql")
def test_a_long_history_keeps_its_newest_facts_and_reasons(
    client: TestClient, database: Database
) -> None:
    """More environments and more exclusions than one statement may name."""
    count = 1_100
    with database.writing() as session:
        long.prepare(session)
        for number in range(count):
            facts = {"sw.torch": f"2.{number}", "sw.os": "new" if number >= count - 1 else "old"}
            row = EnvironmentRow(digest=f"{number:064}", facts=facts, first_seen_at=long.START)
            session.add(row)
        session.flush()
        long.add(session, dict.fromkeys(range(count), 100.0))
        points = session.scalars(select(Point).order_by(Point.revision_at)).all()
        for number, point in enumerate(points):
            point.environment = f"{number:064}"
            point.excluded = number % 2 == 0
            if point.excluded:
                session.add(excluded(point.result_id, number))
    text = client.get(f"/series/{long.SERIES}?last=all").text
    assert "<td>old</td><td>new</td>" in text
    assert "of a worker's measurements: sw.torch." in text
    assert text.count("excluded</span>") == text.count('said">cold<') == 25


def excluded(result_id: str, number: int) -> Exclusion:
    return Exclusion(
        id=f"{number:032x}", result_id=result_id, reason="cold", actor="ann",
        excluded_at=long.START, undone_at=None, undone_by=None,
    )  # fmt: skip


@pytest.mark.both_databases
def test_each_revision_shows_the_measurement_that_a_comparison_takes(database: Database) -> None:
    """The database's choice against the plain one, over histories of every kind."""
    chance = random.Random(5)
    with database.writing() as session:
        long.prepare(session)
        for place in range(4):
            values = {
                number: chance.uniform(50, 150) for number in range(60) if chance.random() < 0.6
            }
            long.add(session, values, place=place, minutes=chance.choice((0, 10)))
        for point in session.scalars(select(Point)):
            point.excluded = chance.random() < 0.4
            point.replicates = chance.choice((1, 3, 5))
            point.interval = chance.choice(("replicates", "within_run", "none"))
        session.flush()
        for last in (1, 2, 30, 100):
            found, empty = queries.latest_of_each_series(session, "throughput", last=last)
            whole = by_revision(queries.load_series(session, long.SERIES))
            assert len(whole.points) > 30
            assert found == replace(whole, points=whole.points[-last:])
            assert empty.points == ()


@pytest.mark.both_databases
def test_of_too_many_series_the_table_shows_those_with_the_newest_revisions(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    with client.app.state.database.writing() as session:  # type: ignore[attr-defined]
        long.prepare(session)
        long.add(session, {0: 100.0, 1: 101.0}, series_id=long.OTHER)
        long.add(session, {2: 100.0}, place=1)
    assert "are the" not in (whole := client.get("/cases").text)
    assert whole.count('class="spark"') == 2
    monkeypatch.setattr(pages, "MOST_SERIES", 1)
    text = client.get("/cases").text
    assert "Shown are the 1 series with the newest revisions" in text
    assert text.count('class="spark"') == 1
    assert f"/series/{long.SERIES}" in text
