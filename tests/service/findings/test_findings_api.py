"""Findings and exclusions over HTTP."""

import math
from typing import Any

import numpy as np
import pytest
from builders import long_series as long
from fastapi.testclient import TestClient

from service.database.session import Database
from service.findings import pipeline

API = "/api/v1"
NOBODYS = "f" * 32


@pytest.fixture
def finding(client: TestClient) -> dict[str, Any]:
    """The finding that a drop of five per cent makes, analysed as the service does it."""
    random = np.random.default_rng(2)
    level = [100.0] * 20 + [95.0] * 12
    noise = np.exp(random.normal(0, 0.003, len(level)))
    with database_of(client).writing() as session:
        long.prepare(session)
        long.add(session, {n: float(v) for n, v in enumerate(np.array(level) * noise)})
    pipeline.look(database_of(client))
    (told,) = client.get(f"{API}/findings").json()["items"]
    assert isinstance(told, dict)
    return told


def database_of(client: TestClient) -> Database:
    database = client.app.state.database  # type: ignore[attr-defined]
    assert isinstance(database, Database)
    return database


def act(client: TestClient, finding: dict[str, Any], **body: Any) -> Any:
    return client.post(f"{API}/findings/{finding['id']}/actions", json={"actor": "ada"} | body)


@pytest.mark.both_databases
def test_a_finding_says_what_changed_and_why(client: TestClient, finding: dict[str, Any]) -> None:
    whole = client.get(f"{API}/findings/{finding['id']}").json()
    assert whole["summary"] == finding
    assert "% slower since r00020" in finding["sentence"]
    (series,) = whole["series"]
    assert series["effect_low"] < series["effect"] < series["effect_high"] < 0
    assert series["first_bad_result"] == long.result_of(20)
    assert [event["action"] for event in whole["events"]] == ["open"]
    assert whole["attribution"]["cause"] == finding["cause"]


@pytest.mark.both_databases
def test_actions_are_checked_and_recorded(client: TestClient, finding: dict[str, Any]) -> None:
    assert act(client, finding, action="acknowledge", version=1).status_code == 200
    late = act(client, finding, action="expect", version=1)
    assert (late.status_code, late.json()["type"]) == (409, "conflict")
    assert act(client, finding, action="nonsense").status_code == 422
    for nobody in ("", " ", "   ", "\u00a0", "\u2003 "):
        refused = act(client, finding, action="resolve", actor=nobody)
        assert (refused.status_code, "not only blanks" in refused.json()["detail"]) == (422, True)
    done = act(client, finding, action="expect", detail="a bigger model").json()
    assert (done["summary"]["state"], done["events"][-1]["detail"]) == (
        "expected",
        "a bigger model",
    )
    assert client.get(f"{API}/findings?active=true").json()["items"] == []
    assert len(client.get(f"{API}/findings?active=false&state=expected").json()["items"]) == 1
    missing = client.post(
        f"{API}/findings/{NOBODYS}/actions", json={"actor": "a", "action": "resolve"}
    )
    assert missing.status_code == 404


def test_a_plan_changes_only_what_it_names(client: TestClient, finding: dict[str, Any]) -> None:
    path = f"{API}/findings/{finding['id']}"
    client.patch(path, json={"actor": "ada", "owner": "bob", "due_on": "2026-02-01"})
    told = client.patch(path, json={"actor": "ada", "note": "see the driver"}).json()["summary"]
    assert (told["owner"], told["due_on"], told["note"]) == ("bob", "2026-02-01", "see the driver")
    told = client.patch(path, json={"actor": "ada", "due_on": None}).json()["summary"]
    assert (told["owner"], told["due_on"], told["note"]) == ("bob", None, "see the driver")


@pytest.mark.parametrize(
    "plan",
    [
        {"due_on": 0},
        {"due_on": 86_400},
        {"due_on": "86400"},
        {"due_on": "2026-01-01T00:00:00Z"},
        {"due_on": "2026-02-30"},
        {"due_on": "20260201"},
        {"due_on": True},
        {"owner": "bob", "version": "1"},
        {"owner": "bob", "version": True},
        {"owner": "bob", "version": 1.0},
    ],
    ids=str,
)
def test_a_plan_takes_days_and_versions_and_nothing_that_looks_like_them(
    client: TestClient, finding: dict[str, Any], plan: dict[str, Any]
) -> None:
    path = f"{API}/findings/{finding['id']}"
    refused = client.patch(path, json={"actor": "ada"} | plan)
    assert (refused.status_code, refused.json()["type"]) == (422, "invalid")
    assert client.get(path).json()["summary"]["due_on"] is None


@pytest.mark.both_databases
def test_the_report_counts_what_is_expected_to_be_false(
    client: TestClient, finding: dict[str, Any]
) -> None:
    told = client.get(f"{API}/findings/report").json()
    assert [each["id"] for each in told["opened"]] == [finding["id"]]
    assert told["active"] == 1
    assert 0 < told["expected_false"] <= 0.2


@pytest.mark.both_databases
def test_an_excluded_result_is_marked_and_can_be_put_back(
    client: TestClient, finding: dict[str, Any]
) -> None:
    result = f"{API}/results/{long.result_of(25)}"
    body = {"reason": "the fan was broken", "actor": "ada"}
    assert client.put(f"{result}/exclusion", json=body).status_code == 200
    assert client.put(f"{result}/exclusion", json=body).status_code == 409
    (point,) = [p for p in points(client) if p["result_id"] == long.result_of(25)]
    assert point["excluded"] is True
    assert client.delete(f"{result}/exclusion?actor=bob").json()["undone_by"] == "bob"
    assert client.delete(f"{result}/exclusion?actor=bob").status_code == 404
    assert not any(point["excluded"] for point in points(client))
    assert len(client.get(f"{result}/exclusions").json()["items"]) == 1
    assert client.put(f"{API}/results/{NOBODYS}/exclusion", json=body).status_code == 404


def points(client: TestClient) -> list[dict[str, Any]]:
    told = client.get(f"{API}/series/{long.SERIES}").json()["points"]
    assert isinstance(told, list)
    return told


@pytest.mark.both_databases
def test_a_series_says_what_it_can_see(client: TestClient, finding: dict[str, Any]) -> None:
    told = client.get(f"{API}/series/{long.SERIES}/analysis").json()
    (change,) = told["changes"]
    assert change["first_bad"] == long.revision_of(20)
    effect = told["noise"]["minimum_detectable_effect"]
    assert 0.001 < effect < 0.03
    assert math.isfinite(told["noise"]["scale"])
    assert told["one_percent"]["reason"]
    young = client.get(f"{API}/series/{long.OTHER}/analysis").json()
    assert (young["noise"], young["changes"]) == (None, [])
    assert "too few points" in young["one_percent"]["reason"]


def test_a_series_with_zeros_says_what_its_shares_are_of(client: TestClient) -> None:
    random = np.random.default_rng(3)
    with database_of(client).writing() as session:
        long.prepare(session)
        long.add(session, {n: float(v) for n, v in enumerate(random.normal(0.0, 5.0, 40))})
    pipeline.look(database_of(client))
    told = client.get(f"{API}/series/{long.SERIES}/analysis").json()
    size = told["noise"]["typical_size"]
    assert told["noise"]["scale"] * size == pytest.approx(5.0, rel=0.5)
    assert told["noise"]["minimum_detectable_effect"] * size > 5.0
    assert told["one_percent"]["replicates"] is None
    page = client.get(f"/series/{long.SERIES}").text
    assert "% of its typical size</b> on are found" in page.replace("\u00a0", " ")
    assert f"effects are shares of {size:.6g}" in page
