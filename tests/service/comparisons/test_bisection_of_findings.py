"""Bisections of findings: the ends are the finding's, and so are case, metric and change."""

from __future__ import annotations

from typing import Any

import pytest
from builders import analysed
from builders.bisected import BisectionHand
from builders.gate_hand import GateHand, Script, measured
from builders.service_hand import Hand
from fastapi.testclient import TestClient
from sqlalchemy import update

from benchmarks.contracts import Lease, Result
from service.models import FindingRow, FindingSeries

pytestmark = pytest.mark.both_databases


@pytest.fixture
def bisecting(client: TestClient, hand: Hand) -> BisectionHand:
    return BisectionHand(GateHand(client, hand))


@pytest.fixture
def finding(client: TestClient) -> dict[str, Any]:
    """A regression from 100 to 95 between two revisions, with three commits between them."""
    told = analysed.analyse(client.app.state.database)  # type: ignore[attr-defined]
    summary: dict[str, Any] = client.get(f"/api/v1/findings/{told.regression}").json()["summary"]
    return summary


def range_of(finding: dict[str, Any]) -> list[dict[str, str]]:
    inside = [{"revision": f"between-{place}", "author": "Ada"} for place in (1, 2, 3)]
    return [{"revision": finding["last_good"]}, *inside, {"revision": finding["first_bad"]}]


def levels(finding: dict[str, Any], *, before: float, after: float) -> Script:
    """The last of the commits between the ends changes the throughput from one level to another."""
    slow = {"between-3", finding["first_bad"]}
    counts = iter(range(10_000))

    def script(lease: Lease) -> Result:
        level = after if lease.spec.revision in slow else before
        value = level * (1 + (0.0, 0.001, -0.001)[next(counts) % 3])
        return measured(lease, value).model_copy(update={"case": lease.spec.case})

    return script


def begin(bisecting: BisectionHand, finding: dict[str, Any], **more: Any) -> Any:
    body = {"finding": finding["id"], "commits": range_of(finding), "worker": "w1", **more}
    return bisecting.gate.client.post("/api/v1/bisections", json=body)


def test_the_culprit_of_a_finding_is_named_on_its_page(
    client: TestClient, bisecting: BisectionHand, finding: dict[str, Any]
) -> None:
    page = f"/findings/{finding['id']}"
    assert f"throughline bisect {finding['id']}" in client.get(page).text
    answer = begin(bisecting, finding)
    assert answer.status_code == 201, answer.text
    assert answer.json()["finding"] == finding["id"]
    bisecting.measure(levels(finding, before=100.0, after=95.0))
    told = bisecting.read(answer.json()["id"])
    assert (told["outcome"], told["first"], told["last"]) == ("culprit", 3, 3)
    text = client.get(page).text
    assert f'<a href="{told["page"]}">Bisected</a>: between-3 (Ada) changed it.' in text
    listed = client.get("/api/v1/bisections", params={"finding": finding["id"]}).json()["items"]
    assert [one["id"] for one in listed] == [told["id"]]


@pytest.mark.parametrize(("level", "outcome"), [(95.0, "environment"), (100.0, "not_reproduced")])
def test_ends_alike_today_tell_the_environment_from_what_is_gone(
    bisecting: BisectionHand, finding: dict[str, Any], level: float, outcome: str
) -> None:
    told = begin(bisecting, finding).json()
    bisecting.measure(levels(finding, before=level, after=level))
    assert bisecting.read(told["id"])["outcome"] == outcome


def test_an_improvement_has_a_culprit_too(
    client: TestClient, bisecting: BisectionHand, finding: dict[str, Any]
) -> None:
    with client.app.state.database.writing() as session:  # type: ignore[attr-defined]
        session.execute(update(FindingRow).values(kind="improvement"))
        session.execute(update(FindingSeries).values(before=95.0, after=100.0))
    told = begin(bisecting, finding).json()
    bisecting.measure(levels(finding, before=95.0, after=100.0))
    told = bisecting.read(told["id"])
    assert (told["outcome"], told["last"]) == ("culprit", 3)
    assert max(probe["difference"] for probe in told["probes"]) < 0.01, "it is better, not worse"


def test_a_finding_of_other_ends_is_refused_with_its_own(
    bisecting: BisectionHand, finding: dict[str, Any]
) -> None:
    answer = begin(bisecting, finding, commits=[{"revision": "a"}, {"revision": "b"}])
    assert (answer.status_code, answer.json()["type"]) == (422, "invalid")
    assert f"between {finding['last_good']} and {finding['first_bad']}" in answer.json()["detail"]


def test_a_finding_about_a_node_has_no_range(
    client: TestClient, bisecting: BisectionHand, finding: dict[str, Any]
) -> None:
    items = client.get("/api/v1/findings").json()["items"]
    node = next(one["id"] for one in items if one["kind"] == "bad_node")
    answer = begin(bisecting, finding | {"id": node})
    assert (answer.status_code, answer.json()["type"]) == (422, "invalid")
    assert "Only a regression or an improvement" in answer.json()["detail"]


def test_a_finding_is_bisected_within_its_project(
    client: TestClient, bisecting: BisectionHand, finding: dict[str, Any]
) -> None:
    with client.app.state.database.writing() as session:  # type: ignore[attr-defined]
        session.execute(update(FindingRow).values(project="red"))
    assert begin(bisecting, finding).json()["project"] == "red"
    answer = begin(bisecting, finding, project="blue")
    assert answer.status_code == 422
    assert "is of the project red" in answer.json()["detail"]


def test_a_worker_that_measured_the_series_is_chosen(
    bisecting: BisectionHand, finding: dict[str, Any]
) -> None:
    told = begin(bisecting, finding, worker=None).json()
    assert told["worker"] == "w"
    assert bisecting.gate.worker.claim() is None, "the other machine says nothing of this one"
