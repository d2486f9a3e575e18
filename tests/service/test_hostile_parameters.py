"""Parameters are values: they reach SQL as parameters, files by no path, and patterns as globs."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any
from urllib.parse import quote

import pytest
from builders.service_hand import Hand
from fastapi import FastAPI
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text

from service.models import Base
from service.schemas.policy import Policy, Rule

pytestmark = pytest.mark.both_databases

SQL = (
    "' OR '1'='1",
    "'; DROP TABLE jobs; --",
    '" OR ""="',
    "\\' OR 1=1 --",
    "1) OR (1=1",
    "%",
    "_",
    "r_",
    "*",
    "$$ OR 1=1",
    "{0}",
    ":x",
    "%(x)s",
    "' UNION SELECT secret FROM attempts --",
)
PAGES = {
    "/": ("metric", "workload", "hardware", "text"),
    "/jobs": ("state", "revision", "text"),
    "/findings": ("state", "kind", "text"),
    "/comparisons": ("state",),
    "/compare": ("baseline", "contender", "suite", "metric"),
    "/compare/modules": ("baseline", "contender"),
    "/compare/kernels": ("baseline", "contender"),
}
PATHS = (
    "../../etc/passwd",
    "..%2f..%2fetc%2fpasswd",
    "%2e%2e/%2e%2e/service/settings.py",
    "....//settings.py",
    "/etc/passwd",
    "app.js/../../../../etc/passwd",
    "app.js%00.css",
    "C:\\Windows\\win.ini",
    "templates/base.html",
)


@pytest.fixture
def filled(client: TestClient, hand: Hand, submit: Callable[..., Any]) -> TestClient:
    """A service with a result, a job that waits, and one that runs."""
    submit("r1")
    hand.measure()
    submit("r2")
    assert hand.start(hand.must_claim()).is_success
    submit("r3", "unet")
    return client


def digest(client: TestClient) -> str:
    app = client.app
    assert isinstance(app, FastAPI)
    found = hashlib.sha256()
    with app.state.database.reading() as session:
        for table in Base.metadata.sorted_tables:
            rows = session.execute(text(f"SELECT * FROM {table.name}")).all()
            found.update(f"{table.name}{sorted(map(repr, rows))}".encode())
    return found.hexdigest()


def filters(client: TestClient) -> Iterator[tuple[str, str]]:
    """Every text parameter in the query of a call that reads, whose path needs no name."""
    for path, calls in client.get("/api/v1/openapi.json").json()["paths"].items():
        for one in calls.get("get", {}).get("parameters", ()):
            kinds = [one["schema"], *one["schema"].get("anyOf", ())]
            free = any(kind.get("type") == "string" for kind in kinds)
            if one["in"] == "query" and free and "{" not in path:
                yield path, one["name"]


def named(client: TestClient) -> Iterator[str]:
    """Every path of a call that reads one thing by its name."""
    for path, calls in client.get("/api/v1/openapi.json").json()["paths"].items():
        if "get" in calls and "{" in path:
            yield path


def test_a_filter_is_compared_and_never_a_part_of_the_query(filled: TestClient) -> None:
    before, asked = digest(filled), 0
    for path, name in filters(filled):
        for hostile in SQL:
            answer = filled.get(path, params={name: hostile})
            assert answer.status_code in {200, 400, 422}, (path, name, hostile)
            if answer.status_code == 200 and name != "format":
                assert answer.json()["items"] == [], (path, name, hostile)
            asked += 1
    assert asked >= 15 * len(SQL)
    assert digest(filled) == before


def test_a_name_in_a_path_finds_itself_or_nothing(filled: TestClient) -> None:
    before = digest(filled)
    for path in named(filled):
        start, _, rest = path.partition("{")
        for hostile in SQL:
            asked = f"{start}{quote(hostile, safe='')}{rest.partition('}')[2]}"
            answer = filled.get(asked)
            assert answer.status_code in {200, 404, 422}, asked
            assert answer.status_code != 200 or answer.json()["items"] == [], asked
    assert digest(filled) == before


def test_a_page_takes_no_filter_for_a_part_of_a_query(filled: TestClient) -> None:
    before = digest(filled)
    for path, names in PAGES.items():
        for hostile in SQL:
            answer = filled.get(path, params=dict.fromkeys(names, hostile))
            assert answer.status_code in {200, 404, 422}, (path, hostile)
    assert digest(filled) == before


def test_no_name_leads_to_a_file_that_is_not_served(client: TestClient) -> None:
    for place, hostile in product(("/assets/0/", "/assets/", "/", "/runs/", "/series/"), PATHS):
        answer = client.get(f"{place}{hostile}", follow_redirects=False)
        assert answer.status_code in {400, 404, 422}, (place, hostile)
        assert "root:" not in answer.text
        assert "THROUGHLINE_" not in answer.text


def test_a_download_is_named_by_what_it_holds_and_by_nothing_more(
    client: TestClient, hand: Hand, submit: Callable[..., Any]
) -> None:
    submit("r1")
    hand.measure()
    series = client.get("/api/v1/series").json()["items"][0]
    answer = client.get(f"/series/{series['id']}/points.csv")
    name = f"resnet50-{series['metric']}-{series['id'][:8]}.csv"
    assert answer.headers["content-disposition"] == f'attachment; filename="{name}"'


@given(
    pattern=st.text(st.sampled_from("ab*?[]!-^\\&|~#.(){}+$ :=é"), min_size=1, max_size=200),
    key=st.text(st.sampled_from("ab[]!-^. :="), max_size=60),
)
def test_any_pattern_that_a_policy_takes_is_a_glob_that_can_be_asked(
    pattern: str, key: str
) -> None:
    Policy(rules=(Rule(cases=pattern),)).rule_of(key)


@pytest.mark.parametrize(
    "pattern", ["*a" * 99 + "b", "*" * 199 + "b", "*?" * 99 + "b", "[a-z]*" * 33, "(a+)+" * 40]
)
def test_no_pattern_takes_long_however_it_is_made(pattern: str) -> None:
    """As expressions some of these would take longer than the universe has."""
    rule, longest = Policy(rules=(Rule(cases=pattern),)), "a" * 8_500
    begun = time.process_time()
    rule.rule_of(longest)
    assert time.process_time() - begun < 20
