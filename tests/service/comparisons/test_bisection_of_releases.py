"""Bisections over releases of a package: a worker that makes versions of it lists them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from builders import analysed
from builders.bisected import BisectionHand, end_at
from builders.gate_hand import CASE, GateHand, Script, measured
from builders.service_hand import Hand, result_of
from fastapi.testclient import TestClient

from benchmarks.contracts import Lease, Result, Status

VERSIONS = ("2.10.0", "2.11.0", "2.11.1", "2.12.0", "2.12.1", "2.13.0")
RELEASES = [f"torch=={version}" for version in VERSIONS]
ENDS = {"good": RELEASES[0], "bad": RELEASES[-1]}
CULPRIT, UNBUILDABLE = 3, 2
BETWEEN = {"case": {**CASE, "preset": "tiny"}, "ends": ENDS}


@pytest.fixture
def bisecting(client: TestClient) -> BisectionHand:
    return BisectionHand(GateHand(client, Hand(client, "w")))


def introduce(client: TestClient, **more: Any) -> Any:
    """Introduce the worker, which makes versions of torch; what is it asked for?"""
    body = {"name": "w", "targets": {"upstream": ""}, "revisions": [], **more}
    answer = client.put("/api/v1/workers/w", json={"labels": {"builds.torch": "yes"}, **body})
    assert answer.status_code == 200, answer.text
    return answer.json()["list_range"]


def list_them(client: TestClient, bisecting: BisectionHand) -> None:
    assert introduce(client) == ENDS
    at = "2026-11-20T01:00:00Z"
    told = [{"commit": one, "at": at} for one in RELEASES[1:]]
    assert introduce(client, listed={**ENDS, "commits": told}) is None
    bisecting.look()


def slower_from_the_culprit_on(before: float, after: float) -> Script:
    counts = iter(range(10_000))

    def script(lease: Lease) -> Result:
        place = RELEASES.index(lease.spec.revision)
        if place == UNBUILDABLE:
            none = result_of(lease, status=Status.UNBUILDABLE, reason="there is no wheel.")
            return of_its_case(none, lease)
        value = after if place >= CULPRIT else before
        wave = (0.0, 0.001, -0.001)[next(counts) % 3]
        facts = {"sw.torch": VERSIONS[place]}
        return of_its_case(measured(lease, value * (1 + wave), facts=facts), lease)

    return script


def of_its_case(result: Result, lease: Lease) -> Result:
    return result.model_copy(update={"case": lease.spec.case})


def begin(client: TestClient, **what: Any) -> Any:
    answer = client.post("/api/v1/bisections", json=what)
    assert answer.status_code == 201, answer.text
    return answer.json()


def test_the_release_that_changed_a_case_is_named(
    client: TestClient, bisecting: BisectionHand
) -> None:
    introduce(client)
    told = begin(client, **BETWEEN)
    waits = "It begins once a worker has listed the releases between the ends."
    assert (told["stage"], told["next"], told["sentence"]) == ("listing_commits", waits, waits)
    assert (told["good"], told["bad"]) == tuple(ENDS.values())
    list_them(client, bisecting)
    told = bisecting.read(told["id"])
    assert [one["revision"] for one in told["commits"]] == RELEASES
    bisecting.measure(slower_from_the_culprit_on(100.0, 97.0))
    told = bisecting.read(told["id"])
    assert (told["outcome"], told["first"], told["last"]) == ("range", UNBUILDABLE, CULPRIT)
    assert told["sentence"].startswith(
        "One of 2 releases changed it, up to torch==2.12.0; those between cannot be measured."
    )
    assert told["commits"][UNBUILDABLE]["usable"] is False
    page = client.get(told["page"]).text
    assert "5 releases," in page
    assert '<b><code class="nowrap">torch==2.12.0</code></b>' in page
    assert "that no release changed it" in page
    assert "Author" not in page
    assert "commit" not in re.sub("<[^>]*>", "", page.partition("<main")[2]).lower()


def test_a_finding_between_two_versions_has_its_releases_bisected(
    client: TestClient, bisecting: BisectionHand
) -> None:
    database = client.app.state.database  # type: ignore[attr-defined]
    analysed.analyse(database)
    finding = end_at(database, *ENDS.values())
    page = f"/findings/{finding}"
    assert "Find the release that changed it: <code>" in client.get(page).text
    introduce(client)
    assert "Find the release that changed it: <button>" in client.get(page).text
    told = begin(client, finding=finding, source="dashboard")
    list_them(client, bisecting)
    bisecting.measure(slower_from_the_culprit_on(100.0, 95.0))
    assert (bisecting.read(told["id"])["outcome"], told["worker"]) == ("range", "w")


def test_releases_that_are_not_listed_end_it_with_the_reason(
    client: TestClient, bisecting: BisectionHand
) -> None:
    introduce(client)
    told = begin(client, **BETWEEN)
    introduce(client, listed={**ENDS, "reason": "The index answers with 404."})
    bisecting.look()
    told = bisecting.read(told["id"])
    said = "Its releases could not be listed: The index answers with 404."
    assert (told["state"], told["sentence"]) == ("cancelled", said)


@pytest.mark.parametrize(
    ("what", "says"),
    [
        (BETWEEN, "No worker that is here makes both torch==2.10.0 and torch==2.13.0"),
        ({**BETWEEN, "ends": {**ENDS, "bad": "triton==3.6.0"}}, "are no such two"),
        ({**BETWEEN, "ends": {**ENDS, "bad": "main"}}, "or a version such as torch==2.12.0"),
        ({"finding": "f" * 32, "ends": ENDS}, "tell the ends: leave them out"),
        ({**BETWEEN, "commits": [{"revision": "a"}, {"revision": "b"}]}, "leave them out"),
        ({"case": CASE}, "name at least 2 commits"),
    ],
)
def test_what_cannot_be_bisected_is_refused(
    client: TestClient, what: dict[str, Any], says: str
) -> None:
    introduce(client, labels={})
    answer = client.post("/api/v1/bisections", json=what)
    assert (answer.status_code, answer.json()["type"]) == (422, "invalid")
    assert says in answer.text
