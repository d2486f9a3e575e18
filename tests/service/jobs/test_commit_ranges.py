"""The commits between two revisions are asked of a worker that builds both, and stored once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select

from service.database.session import Database, now_of
from service.jobs import commit_ranges
from service.models import CommitRangeRow
from service.schemas.errors import Invalid

pytestmark = pytest.mark.both_databases

GOOD, BETWEEN, BAD = "1" * 40, "2" * 40, "3" * 40
ENDS = {"good": GOOD, "bad": BAD}


def listed(*commits: str, **more: object) -> dict[str, Any]:
    at = "2026-11-20T01:00:00Z"
    told = [{"commit": one, "at": at, "author": "Ann", "title": "Faster"} for one in commits]
    return {**ENDS, "commits": told, **more}


def introduce(client: TestClient, name: str = "w1", **more: Any) -> Any:
    """Introduce a worker that builds both ends; give what it is asked for."""
    body = {"name": name, "targets": {"ours": ""}, "revisions": [GOOD, BETWEEN, BAD], **more}
    answer = client.put(f"/api/v1/workers/{name}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["list_range"]


@pytest.fixture
def service(client: TestClient) -> Database:
    database: Database = client.app.state.database  # type: ignore[attr-defined]
    return database


def ask(service: Database, good: str = GOOD, bad: str = BAD) -> None:
    with service.writing() as session:
        commit_ranges.ask(session, good, bad, now_of(session))


def later(service: Database, by: timedelta) -> None:
    """Let all that was asked and listed be so long ago."""
    with service.writing() as session:
        for row in session.scalars(select(CommitRangeRow)):
            row.asked_at -= by
            row.listed_at = row.listed_at and row.listed_at - by


def known(service: Database) -> list[str] | None:
    with service.reading() as session:
        found = commit_ranges.listed(session, GOOD, BAD)
        return None if found is None else [one.commit for one in found]


def test_a_range_is_asked_of_whoever_builds_both_ends_until_one_lists_it(
    client: TestClient, service: Database
) -> None:
    assert introduce(client) is None
    ask(service)
    assert introduce(client, "w2", revisions=[GOOD]) is None
    assert introduce(client, "w3", targets={}) is None, "checkouts have no history"
    assert introduce(client) == ENDS
    assert introduce(client) == ENDS, "it was not answered"
    assert known(service) is None
    assert introduce(client, listed=listed(BETWEEN, BAD)) is None
    assert known(service) == [BETWEEN, BAD]
    introduce(client, "w4", listed=listed(BAD))
    assert known(service) == [BETWEEN, BAD], "what lies between two commits does not change"
    ask(service)
    assert introduce(client) is None


def test_releases_are_asked_of_whoever_makes_versions_of_the_package(
    client: TestClient, service: Database
) -> None:
    good, between, bad = (f"torch=={one},triton==3.6.0" for one in ("2.10.0", "2.11.0", "2.13.0"))
    ends = {"good": good, "bad": bad}
    makes = {"builds.torch": "yes", "builds.triton": "yes"}
    introduce(client, labels=makes)
    ask(service, good, bad)
    assert introduce(client, "w2", labels={"builds.torch": "yes"}) is None
    assert introduce(client, labels=makes) == ends
    at = "2026-11-20T01:00:00Z"
    told = {**ends, "commits": [{"commit": one, "at": at} for one in (between, bad)]}
    assert introduce(client, labels=makes, listed=told) is None
    with service.reading() as session:
        found = commit_ranges.listed(session, good, bad)
    assert found
    assert [one.commit for one in found] == [between, bad]
    later(service, timedelta(hours=23))
    ask(service, good, bad)
    assert introduce(client, labels=makes) is None
    later(service, timedelta(hours=2))
    ask(service, good, bad)
    assert introduce(client, labels=makes) == ends, "there may be a new one between them"


def test_what_lies_between_two_commits_is_never_asked_again(
    client: TestClient, service: Database
) -> None:
    introduce(client)
    ask(service)
    introduce(client, listed=listed(BETWEEN, BAD))
    later(service, timedelta(days=1_000))
    ask(service)
    assert introduce(client) is None


def test_trouble_that_may_pass_is_no_answer_until_it_has_lasted(
    client: TestClient, service: Database
) -> None:
    introduce(client)
    ask(service)
    away = listed(reason="The index answers with 503.", passing=True)
    later(service, timedelta(minutes=4))
    assert introduce(client, listed=away) == ENDS, "it is asked again"
    assert introduce(client, "w2", listed=away) == ENDS, "and of others"
    later(service, timedelta(minutes=2))
    assert introduce(client, listed=away) is None
    with service.reading() as session:
        assert session.scalars(select(CommitRangeRow.reason)).one() == "The index answers with 503."
    ask(service)
    assert introduce(client, listed=listed(BETWEEN, BAD)) is None
    assert known(service) == [BETWEEN, BAD]


def test_what_nobody_asked_for_is_not_stored(client: TestClient, service: Database) -> None:
    introduce(client, listed=listed(BAD))
    assert known(service) is None


def test_a_range_that_could_not_be_listed_is_tried_again_when_it_is_asked_for_again(
    client: TestClient, service: Database
) -> None:
    introduce(client)
    ask(service)
    assert introduce(client, listed=listed(reason="It is no ancestor.")) is None
    assert introduce(client) is None
    ask(service)
    assert introduce(client) == ENDS


@pytest.mark.parametrize(
    ("good", "bad", "says"),
    [
        (GOOD, GOOD, "are no such two"),
        ("v1", BAD, "are no such two"),
        (GOOD, "4" * 40, "No worker that is here builds both 111111111111 and 444444444444"),
        (GOOD, "torch==2.12.0", "are no such two"),
        ("torch==2.10.0", "triton==3.6.0", "are no such two"),
        ("torch==2.12.0", "torch==2.12.0", "are no such two"),
        ("torch==2.10.0,triton==3.5.0", "torch==2.12.0,triton==3.6.0", "are no such two"),
        ("torch==2.10.0", "torch==2.12.0", "makes both torch==2.10.0 and torch==2.12.0: name tor"),
    ],
)
def test_a_range_that_nobody_can_list_is_refused(
    client: TestClient, service: Database, good: str, bad: str, says: str
) -> None:
    introduce(client)
    with pytest.raises(Invalid, match=says):
        ask(service, good, bad)


@pytest.mark.parametrize(
    "told",
    [
        listed(),
        listed(BETWEEN),
        listed(BAD, BETWEEN),
        listed(GOOD, BAD),
        listed(BETWEEN, BETWEEN, BAD),
        listed("2" * 39, BAD),
        listed(reason="x" * 501),
        listed(*(f"{place:040x}" for place in range(1_000)), BAD),
    ],
)
def test_a_list_that_is_none_is_refused(client: TestClient, told: dict[str, Any]) -> None:
    body = {"name": "w1", "listed": told}
    answer = client.put("/api/v1/workers/w1", json=body)
    assert (answer.status_code, answer.json()["type"]) == (422, "invalid")
