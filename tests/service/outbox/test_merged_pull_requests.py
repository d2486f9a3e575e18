"""A merge that made something slower is told on its pull request, once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from builders import long_series as long
from builders.forges import MERGED, FakeForge, FakeGerrit, FakeGitHub, FakeGitLab, serving
from builders.long_series import DROPPED, STEADY, noisy
from sqlalchemy import select, update

from service.database.session import Database, new_id, now_of
from service.findings import lifecycle, pipeline
from service.history import revisions
from service.models import BisectionRow, CommitRangeRow, DeliveryRow, EventKind, FindingRow
from service.outbox import couriers, events
from service.outbox.sinks import Sinks

pytestmark = pytest.mark.both_databases

ADDRESS = "https://perf.example.com"
PARENT = "9" * 40


def sinks(forge: FakeForge, **sink: Any) -> Sinks:
    known = {"name": "forge", "private": True, "repositories": ["acme/vision"]}
    return Sinks.model_validate({"address": ADDRESS, "sink": [known | sink]})


@pytest.fixture
def github() -> Iterator[FakeGitHub]:
    forge = FakeGitHub()
    with serving(forge):
        yield forge


def on(github: FakeGitHub, *repositories: str) -> Sinks:
    named = {"repositories": list(repositories or ["acme/vision"])}
    return sinks(github, kind="github", api=github.url(), token=github.token, **named)


def found(database: Database, between: int = 1, **values: Any) -> str:
    """A confirmed regression of the code between two commits, which was just opened."""
    with database.writing() as session:
        long.prepare(session)
        long.add(session, dict(enumerate(noisy([*STEADY, *DROPPED]))))
    pipeline.look(database)
    with database.writing() as session:
        now = now_of(session)
        for commit in (PARENT, MERGED, "8" * 40):
            revisions.register(session, commit, None, now)
        listed = [{"commit": MERGED, "at": now.isoformat()}] * between
        ends = {"good": PARENT, "bad": MERGED}
        session.add(CommitRangeRow(**ends, asked_at=now, listed_at=now, commits=listed, reason=""))
        row = session.scalars(select(FindingRow)).one()
        known = {"cause": "code", "certainty": "confirmed", "last_good": PARENT}
        session.execute(update(FindingRow).values(known | {"first_bad": MERGED} | values))
        return row.id


def deliver(database: Database, to: Sinks) -> list[DeliveryRow]:
    couriers.route(database, to)
    [sink] = to.sink
    while couriers.deliver(database, sink, to.address, 5):
        pass
    with database.reading() as session:
        return list(session.scalars(select(DeliveryRow).order_by(DeliveryRow.id)))


def act(database: Database, finding: str, action: str, actor: str = "ada") -> None:
    with database.writing() as session:
        lifecycle.act(session, finding, action, actor, now_of(session))


def test_a_merge_that_regressed_is_told_once_and_edited_when_it_recovers(
    database: Database, github: FakeGitHub
) -> None:
    finding, to = found(database), on(github)
    deliver(database, to)
    [comment] = github.comments.values()
    assert comment["issue"] == 7, "number 6 was closed without a merge"
    assert comment["body"].startswith(f"<!-- throughline finding:{finding} -->\n**Regression after")
    assert f"--baseline {PARENT} \\\n  --contender {MERGED} \\\n  --case" in comment["body"]
    assert f"{ADDRESS}/findings/{finding}" in comment["body"]
    act(database, finding, "resolve", "throughline")
    act(database, finding, "reopen")
    act(database, finding, "withdraw")
    rows = deliver(database, to)
    assert [(row.state, row.error) for row in rows] == [("delivered", "")] * 4
    [comment] = github.comments.values()
    assert "**Withdrawn: it was never there.**" in comment["body"]
    act(database, finding, "reopen")
    act(database, finding, "resolve", "throughline")
    deliver(database, to)
    [comment] = github.comments.values()
    assert "**Recovered.**" in comment["body"]


def test_the_culprit_of_a_bisection_is_told_where_the_range_was_too_wide(
    database: Database, github: FakeGitHub
) -> None:
    finding, to = found(database, between=5, first_bad="8" * 40), on(github)
    deliver(database, to)
    assert github.calls == []
    with database.writing() as session:
        now = now_of(session)
        commits = [{"revision": one} for one in ("7" * 40, PARENT, MERGED, "8" * 40)]
        bisection = BisectionRow(
            id=new_id(now),
            state="done",
            finding_id=finding,
            request={"finding": finding, "commits": commits},
            subject={},
            probes=[],
            probed=0,
            created_at=now,
            decision={"outcome": "culprit", "first": 2, "last": 2},
            reason="",
        )
        session.add(bisection)
        kind = EventKind.BISECTION_ENDED
        events.write(session, events.News(kind, "found", "It did.", bisection.id), now)
    deliver(database, to)
    [comment] = github.comments.values()
    assert comment["issue"] == 7
    assert f"--baseline {PARENT} \\\n  --contender {MERGED}" in comment["body"]


@pytest.mark.parametrize(
    "values",
    [
        {"cause": "environment"},
        {"certainty": "standing"},
        {"kind": "improvement"},
        {"state": "withdrawn"},
        {"between": 2},
        {"last_good": None},
    ],
)
def test_nothing_is_said_of_what_no_commit_is_sure_to_have_made(
    database: Database, github: FakeGitHub, values: dict[str, Any]
) -> None:
    found(database, **values)
    [row] = deliver(database, on(github))
    assert (row.state, row.error) == ("delivered", "")
    assert github.calls == []


def test_the_repository_that_has_the_commit_is_looked_for(
    database: Database, github: FakeGitHub
) -> None:
    found(database)
    deliver(database, on(github, "acme/other", "acme/vision"))
    assert [one["issue"] for one in github.comments.values()] == [7]
    assert github.asked("GET /repos/acme/other/commits/c+/pulls")


def test_gitlab_and_gerrit_are_told_too(database: Database) -> None:
    found(database)
    gitlab, gerrit = FakeGitLab(), FakeGerrit()
    with serving(gitlab):
        api = {"api": gitlab.url("/api/v4"), "token": gitlab.token}
        deliver(database, sinks(gitlab, kind="gitlab", **api, repositories=["acme/ml/vision"]))
        assert [one["noteable_iid"] for one in gitlab.comments.values()] == [7]
    with database.writing() as session:
        session.execute(update(DeliveryRow).values(state="waiting", due_at=now_of(session)))
    with serving(gerrit):
        api = {"api": gerrit.url(), "user": "throughline", "password": gerrit.password}
        to = sinks(gerrit, kind="gerrit", name="review", **api)
        with database.writing() as session:
            session.execute(update(DeliveryRow).values(sink="review"))
        [row] = deliver(database, to)
        assert (row.state, row.error) == ("delivered", "")
        [message] = gerrit.comments.values()
        assert (message["change"], message["revision"]) == ("7", "current")
        assert gerrit.votes == []
