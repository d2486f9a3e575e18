"""Bisections of findings: the ends are the finding's, and so are case, metric and change."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from builders import analysed
from builders.bisected import BisectionHand, end_at
from builders.gate_hand import GateHand, Script, measured
from builders.service_hand import Hand
from fastapi.testclient import TestClient
from sqlalchemy import update

from benchmarks.contracts import Lease, Result
from service.database.session import Database, now_of
from service.jobs import commit_ranges
from service.models import BisectionRow, FindingRow, FindingSeries

GOOD, BETWEEN, BAD = "1" * 40, "2" * 40, "3" * 40


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
    slow = {"between-3", BETWEEN, finding["first_bad"]}
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
    assert f'<a href="{told["page"]}">Bisection</a>: between-3 (Ada) changed it.' in text
    listed = client.get("/api/v1/bisections", params={"finding": finding["id"]}).json()["items"]
    assert [one["id"] for one in listed] == [told["id"]]


@pytest.mark.parametrize(("level", "outcome"), [(95.0, "environment"), (100.0, "not_reproduced")])
def test_ends_alike_today_tell_the_environment_from_what_is_gone(
    bisecting: BisectionHand, finding: dict[str, Any], level: float, outcome: str
) -> None:
    told = begin(bisecting, finding).json()
    bisecting.measure(levels(finding, before=level, after=level))
    assert bisecting.read(told["id"])["outcome"] == outcome


def introduce(client: TestClient, **more: Any) -> Any:
    """Introduce the worker of the finding's series, which builds commits; what is it asked for?"""
    body = {"name": "w", "targets": {"ours": ""}, "revisions": [GOOD, BETWEEN, BAD], **more}
    answer = client.put("/api/v1/workers/w", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["list_range"]


def listed(*commits: str, **more: str) -> dict[str, Any]:
    at = "2026-11-20T01:00:00Z"
    told = [{"commit": one, "at": at, "author": "Ann", "title": "<b>x</b>"} for one in commits]
    return {"good": GOOD, "bad": BAD, "commits": told, **more}


@pytest.fixture
def between_commits(client: TestClient, finding: dict[str, Any]) -> dict[str, Any]:
    """The finding, between two commits."""
    end_at(client.app.state.database, GOOD, BAD)  # type: ignore[attr-defined]
    return {**finding, "last_good": GOOD, "first_bad": BAD}


@pytest.mark.both_databases
def test_a_bisection_without_commits_begins_once_a_worker_has_listed_them(
    client: TestClient, bisecting: BisectionHand, between_commits: dict[str, Any]
) -> None:
    finding, page = between_commits, f"/findings/{between_commits['id']}"
    introduce(client)
    assert ">Bisect</button>" in client.get(page).text
    asked = {"finding": finding["id"], "source": "dashboard"}
    answer = client.post("/api/v1/bisections", json=asked)
    assert answer.status_code == 201, answer.text
    told = answer.json()
    assert (told["state"], told["stage"], told["probes"]) == ("running", "listing_commits", [])
    waits = "It begins once a worker has listed the commits between the ends."
    assert (told["next"], told["sentence"]) == (waits, waits)
    assert waits in client.get(told["page"]).text
    assert waits in client.get(page).text
    assert ">Bisect</button>" not in client.get(page).text
    bisecting.look()
    assert bisecting.read(told["id"])["stage"] == "listing_commits"

    assert introduce(client) == {"good": GOOD, "bad": BAD}
    assert introduce(client, listed=listed(BETWEEN, BAD)) is None
    bisecting.look()
    told = bisecting.read(told["id"])
    assert [one["revision"] for one in told["commits"]] == [GOOD, BETWEEN, BAD]
    assert told["commits"][1]["author"] == "Ann"
    assert "&lt;b&gt;x&lt;/b&gt;" in client.get(told["page"]).text
    builder = BisectionHand(GateHand(client, Hand(client, "w")))
    builder.measure(levels(finding, before=100.0, after=95.0))
    told = bisecting.read(told["id"])
    assert (told["outcome"], told["last"]) == ("culprit", 1)


def test_commits_that_are_known_already_are_not_asked_for_again(
    client: TestClient, between_commits: dict[str, Any]
) -> None:
    introduce(client)
    asked = {"finding": between_commits["id"]}
    first = client.post("/api/v1/bisections", json=asked).json()
    introduce(client, listed=listed(BETWEEN, BAD))
    client.post(f"/api/v1/bisections/{first['id']}/cancel", json={})
    told = client.post("/api/v1/bisections", json=asked).json()
    assert (told["stage"], len(told["commits"])) == ("verifying_ends", 3)


def test_a_bisection_whose_commits_cannot_be_listed_ends_with_the_reason(
    client: TestClient, bisecting: BisectionHand, between_commits: dict[str, Any]
) -> None:
    introduce(client)
    told = client.post("/api/v1/bisections", json={"finding": between_commits["id"]}).json()
    introduce(client, listed=listed(reason="It is <i>gone</i>."))
    bisecting.look()
    told = bisecting.read(told["id"])
    said = "Its commits could not be listed: It is <i>gone</i>."
    assert (told["state"], told["sentence"]) == ("cancelled", said)
    text = client.get(f"/findings/{between_commits['id']}").text
    assert "could not be listed: It is &lt;i&gt;gone&lt;/i&gt;." in text
    assert ">Bisect</button>" in text, "it may be tried again"


@pytest.mark.both_databases
def test_a_bisection_whose_commits_nobody_lists_ends_after_a_day(
    client: TestClient, bisecting: BisectionHand, between_commits: dict[str, Any]
) -> None:
    introduce(client)
    told = client.post("/api/v1/bisections", json={"finding": between_commits["id"]}).json()
    database: Database = client.app.state.database  # type: ignore[attr-defined]
    for hours, state in ((23, "running"), (25, "cancelled")):
        with database.writing() as session:
            created_at = now_of(session) - timedelta(hours=hours)
            session.execute(update(BisectionRow).values(created_at=created_at))
        bisecting.look()
        assert bisecting.read(told["id"])["state"] == state
    assert "no worker that builds both ends" in bisecting.read(told["id"])["sentence"]


def test_without_a_worker_that_builds_both_ends_there_is_no_button(
    client: TestClient, between_commits: dict[str, Any]
) -> None:
    introduce(client, revisions=[GOOD])
    page = client.get(f"/findings/{between_commits['id']}").text
    assert ">Bisect</button>" not in page
    assert f"throughline bisect {between_commits['id']}" in page
    answer = client.post("/api/v1/bisections", json={"finding": between_commits["id"]})
    assert (answer.status_code, answer.json()["type"]) == (422, "invalid")
    assert "No worker that is here builds both" in answer.json()["detail"]


def test_a_range_of_one_commit_needs_no_bisection(
    client: TestClient, between_commits: dict[str, Any]
) -> None:
    introduce(client)
    with client.app.state.database.writing() as session:  # type: ignore[attr-defined]
        commit_ranges.ask(session, GOOD, BAD, now_of(session))
    introduce(client, listed=listed(BAD))
    assert ">Bisect</button>" not in client.get(f"/findings/{between_commits['id']}").text


@pytest.mark.both_databases(slow="postgresql")
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
