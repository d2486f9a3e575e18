"""Confirmed findings are bisected by themselves, within a number of processes a day."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from builders import analysed
from builders.bisected import end_at
from builders.long_series import START, revision_of
from fastapi.testclient import TestClient
from sqlalchemy import delete, event, insert, select, update

from service.comparisons import bisection
from service.database.session import Database, new_id, now_of
from service.history import revisions
from service.models import Base, BisectionRow, ChangeRow, FindingRow, FindingSeries

GOOD, BAD = "1" * 40, "2" * 40
CONFIRMED = {"cause": "code", "certainty": "confirmed"}
Begin = Callable[..., str | None]


@pytest.fixture
def database(client: TestClient) -> Database:
    found: Database = client.app.state.database  # type: ignore[attr-defined]
    return found


@pytest.fixture
def finding(client: TestClient, database: Database) -> str:
    """A confirmed regression of the code between two commits, which a worker builds."""
    told = analysed.kept(database)
    end_at(database, GOOD, BAD)
    change(database, told.regression, **CONFIRMED)
    builder = {"name": "w", "targets": {"ours": ""}, "revisions": [GOOD, BAD, "3" * 40]}
    assert client.put("/api/v1/workers/w", json=builder).status_code == 200
    return told.regression


@pytest.fixture
def begin(database: Database) -> Begin:
    """Look for something to bisect, now or later."""

    def look(daily: int, later: timedelta = timedelta()) -> str | None:
        with database.writing() as session:
            return bisection.begin_unasked(session, daily, now_of(session) + later)

    return look


def change(database: Database, finding: str, **values: Any) -> None:
    with database.writing() as session:
        session.execute(update(FindingRow).where(FindingRow.id == finding).values(**values))


def another(
    database: Database, finding: str, first_bad: str, *, days: int = 0, larger: float = 1.0
) -> str:
    """A copy of a finding that begins with another commit, with a change of its own."""
    new = {FindingRow: new_id(START), ChangeRow: new_id(START)}
    with database.writing() as session:
        row = session.get_one(FindingRow, finding)
        at = row.first_bad_at + timedelta(days=days)
        revisions.register(session, first_bad, at, at)
        link = session.scalars(select(FindingSeries).where(FindingSeries.finding_id == finding))
        one = link.first()
        assert one is not None
        moved = {"id": new[FindingRow], "first_bad": first_bad, "first_bad_at": at}
        session.execute(insert(FindingRow), [named(row) | moved])
        changed = session.get_one(ChangeRow, one.change_id)
        session.execute(insert(ChangeRow), [named(changed) | {"id": new[ChangeRow]}])
        own = {"finding_id": new[FindingRow], "change_id": new[ChangeRow]}
        session.execute(insert(FindingSeries), [named(one) | own | {"effect": larger * one.effect}])
    return new[FindingRow]


def named(row: Base) -> dict[str, Any]:
    return {column.name: getattr(row, column.key) for column in row.__table__.columns}


def begun_of(database: Database, bisection_id: str | None) -> Any:
    with database.reading() as session:
        return session.get_one(BisectionRow, bisection_id).request


def test_a_confirmed_finding_is_bisected_once(
    database: Database, finding: str, begin: Begin
) -> None:
    assert begin(19) is None, "too few to be sure of anything"
    begun = begin(1_000)
    request = begun_of(database, begun)
    assert (request["finding"], request["source"]) == (finding, "automatic")
    assert (request["most_processes"], request["priority"]) == (80, -1)
    assert begin(1_000) is None
    assert begin(1_000, later=timedelta(days=30)) is None


def test_a_finding_waits_while_its_only_builder_is_drained(
    client: TestClient, database: Database, finding: str, begin: Begin
) -> None:
    said = {"reason": "A fan is broken.", "actor": "ada"}
    assert client.put("/api/v1/workers/w/drain", json=said).is_success
    assert begin(1_000) is None
    assert client.delete("/api/v1/workers/w/drain").is_success
    assert begun_of(database, begin(1_000))["finding"] == finding


@pytest.mark.parametrize(
    "unlike",
    [
        {"kind": "improvement"},
        {"cause": "environment"},
        {"cause": "unknown"},
        {"certainty": "standing"},
        {"last_good": None},
        {"closed_at": START},
        {"first_bad": revision_of(31)},
    ],
)
def test_nothing_else_is(
    database: Database, finding: str, begin: Begin, unlike: dict[str, Any]
) -> None:
    change(database, finding, **unlike)
    assert begin(1_000) is None


@pytest.mark.both_databases
def test_a_change_between_two_versions_is_bisected_though_the_environment_made_it(
    client: TestClient, database: Database, finding: str, begin: Begin
) -> None:
    end_at(database, "torch==2.10.0", "torch==2.13.0")
    change(database, finding, cause="environment")
    assert begin(1_000) is None, "nobody makes these versions"
    maker = {"name": "w", "labels": {"builds.torch": "yes"}, "revisions": []}
    assert client.put("/api/v1/workers/w", json=maker).status_code == 200
    change(database, finding, cause="node")
    assert begin(1_000) is None
    change(database, finding, cause="environment")
    begun = begin(1_000)
    assert begun_of(database, begun)["finding"] == finding


def test_the_newest_comes_first_and_of_one_revision_the_largest(
    database: Database, finding: str, begin: Begin
) -> None:
    larger = another(database, finding, BAD, larger=2.0)
    newer = another(database, finding, "3" * 40, days=1)
    begun = [begun_of(database, begin(1_000))["finding"] for _ in range(3)]
    assert begun == [newer, larger, finding]


@pytest.mark.both_databases
def test_what_a_day_allows_is_reserved_and_spent_over_restarts(
    database: Database, finding: str, begin: Begin
) -> None:
    first = begin(100)
    another(database, finding, "3" * 40)
    assert begin(99) is None, "80 may still be used"
    decision = {"outcome": "culprit", "probability": 0.99, "environment": 0.0, "first": 1}
    decision |= {"last": 1, "share": 1.0, "processes": 25}
    ended(database, first, state="done", decision=decision)
    assert begin(44) is None, "25 were used"
    assert begun_of(database, begin(60))["most_processes"] == 35
    assert begin(60) is None
    another(database, finding, BAD)
    assert begin(60, later=timedelta(hours=23)) is None


def ended(database: Database, bisection_id: str | None, **values: Any) -> None:
    with database.writing() as session:
        at: datetime = now_of(session)
        row = update(BisectionRow).where(BisectionRow.id == bisection_id)
        session.execute(row.values(decided_at=at, **values))


def test_one_look_reads_the_workers_commits_once(
    client: TestClient, database: Database, finding: str, begin: Begin
) -> None:
    """Each of a hundred workers may have a thousand."""
    for number in range(3, 9):
        another(database, finding, f"{number}" * 40)
    gone = {"name": "w", "targets": {"ours": ""}, "revisions": ["9" * 40]}
    assert client.put("/api/v1/workers/w", json=gone).status_code == 200
    asked: list[str] = []
    event.listen(database.engine, "before_cursor_execute", lambda *told: asked.append(told[2]))
    assert begin(1_000) is None
    assert sum("workers.revisions" in one for one in asked) == 1


@pytest.mark.both_databases
def test_a_finding_that_cannot_be_started_does_not_stop_the_others(
    database: Database, finding: str, begin: Begin
) -> None:
    lost = another(database, finding, "3" * 40, days=1)
    with database.writing() as session:
        session.execute(delete(FindingSeries).where(FindingSeries.finding_id == lost))
    assert begun_of(database, begin(1_000))["finding"] == finding
