"""Where a team has set a threshold, the pages say from which size on, who did it and why."""

import re
from typing import Any

import pytest
from builders import long_series as long
from builders.html_page import faults, links
from builders.long_series import STEADY, noisy
from fastapi.testclient import TestClient

SERIES = f"/series/{long.SERIES}"


@pytest.fixture
def pages(empty_pages: TestClient) -> TestClient:
    """A service with one series of 20 points, analysed."""
    app: Any = empty_pages.app
    with app.state.database.writing() as session:
        long.prepare(session)
        long.add(session, dict(enumerate(noisy(STEADY))))
        long.look(session)
    return empty_pages


def choose(pages: TestClient, size: object, **scope: str) -> None:
    wanted = {"least_effect": size, "reason": "shared <machine>", "actor": "ada"} | scope
    answer = pages.put("/api/v1/thresholds", json=wanted)
    assert answer.status_code == 200, answer.text


def text_of(pages: TestClient, path: str) -> str:
    answer = pages.get(path)
    assert answer.status_code == 200
    assert faults(answer.text) == []
    for link in links(answer.text):
        assert pages.get(link).status_code == 200, link
    return re.sub(r"\s+", " ", re.sub("<[^>]+>", " ", answer.text))


def test_a_series_says_from_which_size_on_its_changes_open_a_finding(pages: TestClient) -> None:
    assert "open a finding from" not in text_of(pages, SERIES)
    choose(pages, "2.5%", workload="resnet50")
    assert (
        "Changes open a finding from 2.5 % on: shared &lt;machine&gt; (set by ada, "
        "just now ; all thresholds )" in text_of(pages, SERIES)
    )
    choose(pages, "never", series_id=long.SERIES)
    assert "Its changes open no finding: shared &lt;machine&gt;" in text_of(pages, SERIES)


def test_all_thresholds_are_listed_with_their_scope(pages: TestClient) -> None:
    assert "No threshold is set" in text_of(pages, "/thresholds")
    choose(pages, 0.03, project="red", metric="peak_memory")
    choose(pages, "never", series_id=long.SERIES)
    choose(pages, 0.03)
    text = text_of(pages, "/thresholds")
    assert (
        "Peak memory of all workloads project red from 3 % shared &lt;machine&gt; ada just now"
        in text
    )
    assert "all metrics of all workloads from 3 % shared" in text
    assert "Throughput of resnet50:full never shared" in text
    assert "/thresholds" in links(pages.get("/findings").text)
