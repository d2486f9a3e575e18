"""The first page: is everything all right, what changed, how fast are we."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any, cast

import pytest
from builders import analysed as builder
from builders.analysed import Analysed
from builders.html_page import faults
from builders.service_hand import Hand, result_of
from fastapi.testclient import TestClient
from sqlalchemy import update

from benchmarks.contracts import Status
from service import findings
from service.app import create_app
from service.dashboard import queries
from service.dashboard.overview import OverallState
from service.dashboard.queries import DayCoverage
from service.dashboard.sparkline import SPOTS, before_after, thinned
from service.database.session import Database
from service.models import FindingRow, Submission
from service.settings import Settings
from service.wording import formats

NOW = datetime.now(UTC)
WELL = OverallState(0, 0, (), 0, DayCoverage(129, 129, 0, NOW))


def said(condition: OverallState) -> str:
    return ", ".join(clause for clause, _ in condition.clauses)


def test_one_line_says_whether_everything_is_all_right_the_worst_first() -> None:
    assert (said(WELL), WELL.tone) == (
        "129 of 129 cases measured, no regression since yesterday, no node ill",
        "good",
    )
    broken = OverallState(2, 1, ("node-a",), 1, DayCoverage(127, 129, 0, NOW))
    assert (said(broken), broken.tone) == (
        "2 regressions since yesterday, 1 case fails, 1 node ill, 1 older regression open, "
        "127 of 129 cases measured",
        "bad",
    )


@pytest.mark.parametrize(
    ("condition", "tone"),
    [
        (OverallState(0, 3, (), 0, WELL.coverage), "mark"),
        (OverallState(0, 0, (), 0, DayCoverage(100, 129, 0, NOW)), "mark"),
        (OverallState(0, 0, (), 0, DayCoverage(100, 129, 29, NOW)), "good"),
        (OverallState(0, 0, (), 0, None), "good"),
        (OverallState(0, 0, (), 1, WELL.coverage), "bad"),
        (OverallState(0, 0, ("a",), 0, WELL.coverage), "bad"),
    ],
)
def test_what_is_left_to_do_is_not_called_all_right(condition: OverallState, tone: str) -> None:
    assert condition.tone == tone
    so_far = condition.coverage is not None and condition.coverage.waiting > 0
    assert ("so far" in said(condition)) is so_far


def submit(client: TestClient, *workloads: str, **more: Any) -> None:
    body = {"cases": [{"workload": name} for name in workloads], "revision": "r1", **more}
    answer = client.post("/api/v1/submissions", json=body)
    assert answer.status_code == 201, answer.text


def covered(client: TestClient) -> tuple[int, int, int] | None:
    with cast("Any", client.app).state.database.reading() as session:
        found = queries.coverage(session)
    return found and (found.measured, found.cases, found.waiting)


@pytest.mark.both_databases
def test_each_case_of_the_newest_day_is_counted_once(client: TestClient, hand: Hand) -> None:
    assert covered(client) is None
    submit(client, "unet")
    assert covered(client) == (0, 1, 1)
    hand.measure()
    with cast("Any", client.app).state.database.writing() as session:
        session.execute(update(Submission).values(created_at=NOW - timedelta(days=2)))
    assert covered(client) == (1, 1, 0)
    submit(client, "unet", "resnet50")
    hand.measure()
    hand.measure(status=Status.OOM)
    submit(client, "unet", source="comparison:" + "0" * 32)
    assert covered(client) == (1, 2, 0)


@pytest.fixture(scope="module")
def filled(
    sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Analysed]:
    """A history with an open regression, and a node that is ill."""
    path = tmp_path_factory.mktemp("analysed") / "analysed.sqlite3"
    shutil.copyfile(sqlite_template, path)
    database = Database(f"sqlite:///{path}")
    told = builder.analyse(database)
    database.close()
    return path, told


@pytest.fixture
def ids(filled: tuple[Path, Analysed]) -> Analysed:
    """The findings of that history."""
    return filled[1]


@pytest.fixture
def acting(filled: tuple[Path, Analysed], tmp_path: Path) -> Iterator[TestClient]:
    """A client of the service on a copy of that history."""
    shutil.copyfile(filled[0], tmp_path / "own.sqlite3")
    settings = Settings(database_url=f"sqlite:///{tmp_path}/own.sqlite3", background=False)
    with TestClient(create_app(settings)) as client:
        yield client


def test_open_findings_are_cards_with_size_interval_picture_and_owner(
    acting: TestClient, ids: Analysed
) -> None:
    text = acting.get("/").text.replace(formats.NBSP, " ")
    assert faults(text) == []
    finding = acting.get(f"/api/v1/findings/{ids.regression}").json()
    cards = re.findall(r'<li class="card change.*?</li>', text, re.DOTALL)
    (card,) = [card for card in cards if ids.regression in card]
    assert unescape(finding["summary"]["headline"]).replace(formats.NBSP, " ") in unescape(card)
    assert re.search(r"<b[^>]*>[\d.]+ % worse</b>, 95 % [\d.]+ % to [\d.]+ %", card)
    assert '<svg class="beside" role="img" aria-label="Throughput of ' in card
    assert finding["summary"]["first_bad"] in card
    assert "· owner " in card
    assert any(ids.node in card for card in cards)


def test_what_is_closed_has_no_card(acting: TestClient, ids: Analysed) -> None:
    with cast("Any", acting.app).state.database.writing() as session:
        for each in (ids.regression, ids.node):
            findings.act(session, each, "resolve", "ada", NOW)
    text = acting.get("/").text
    assert 'class="card change' not in text
    assert "no node ill" in text


def test_regressions_since_yesterday_are_told_apart_from_older_ones(
    acting: TestClient, ids: Analysed
) -> None:
    database = cast("Any", acting.app).state.database
    for days, words in ((0, "1 regression since yesterday"), (3, "1 older regression open")):
        with database.writing() as session:
            row = session.get_one(FindingRow, ids.regression)
            row.opened_at = datetime.now(UTC) - timedelta(days=days)
        assert words in acting.get("/").text


def test_a_small_picture_has_a_dot_for_each_value_and_a_line_for_each_side() -> None:
    drawn = before_after([100.0] * 10, [90.0] * 4, "of it")
    assert drawn.count("h0") == 14
    heights = re.findall(r"M[\d.]+ ([\d.]+)H", drawn)
    assert len(heights) == 2
    assert float(heights[0]) < float(heights[1])  # higher is nearer to the top
    assert before_after([1.0] * 1_000, [1.0] * 1_000, "").count("h0") == 2 * SPOTS


def test_few_values_stand_for_many_and_the_newest_stays() -> None:
    values = [float(number) for number in range(1_000)]
    few = thinned(values)
    assert (len(few), few[-1]) == (SPOTS, 999.0)
    assert few == sorted(few)
    assert thinned(values[:SPOTS]) == values[:SPOTS]


def test_a_page_that_did_not_change_is_not_sent_again(acting: TestClient) -> None:
    first = acting.get("/cases", headers={"HX-Request": "true"})
    again = {"HX-Request": "true", "If-None-Match": first.headers["etag"]}
    same = acting.get("/cases", headers=again)
    assert (same.status_code, same.content) == (304, b"")
    assert same.headers["etag"] == first.headers["etag"]
    submit(acting, "unet")
    assert acting.get("/cases", headers=again).status_code == 200  # it has something to wait for


def test_a_page_is_compressed_for_whoever_takes_it(acting: TestClient) -> None:
    sent = acting.get("/cases", headers={"Accept-Encoding": "gzip"})
    plain = acting.get("/cases", headers={"Accept-Encoding": "identity"})
    assert sent.headers["content-encoding"] == "gzip"
    assert int(sent.headers["content-length"]) < int(plain.headers["content-length"]) / 2
    assert "content-encoding" not in plain.headers
    assert "Accept-Encoding" in sent.headers["vary"]


@pytest.mark.parametrize("path", ["/", "/cases", "/jobs", "/workers"])
def test_a_page_asks_again_only_while_something_runs_or_waits(
    empty_pages: TestClient, path: str
) -> None:
    hand = Hand(empty_pages)
    hand.introduce()
    assert 'data-live="5"' not in empty_pages.get(path).text
    submit(empty_pages, "unet")
    lease = hand.must_claim()
    assert 'data-live="5"' in empty_pages.get(path).text
    hand.start(lease)
    hand.post(lease, result_of(lease))
    assert 'data-live="5"' not in empty_pages.get(path).text


def test_failed_jobs_of_a_time_are_listed_alone(empty_pages: TestClient) -> None:
    hand = Hand(empty_pages)
    hand.introduce()
    for _ in range(3):
        submit(empty_pages, "unet")
        hand.measure(status=Status.OOM)
    database = cast("Any", empty_pages.app).state.database
    with database.writing() as session:
        job = session.query(queries.models.Job).order_by(queries.models.Job.id).first()
        job.finished_at -= timedelta(days=2)
    text = empty_pages.get("/").text
    link = re.search(r'href="([^"]*)"><b>2</b> failed</a>', text)
    assert link
    assert empty_pages.get(unescape(link[1])).text.count('<tr id="job-') == 2
    assert empty_pages.get("/jobs?state=failed").text.count('<tr id="job-') == 3
