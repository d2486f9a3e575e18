"""Each change of a finding, a comparison or a bisection leaves its event, and one only."""

from __future__ import annotations

from typing import Any

import pytest
from builders import analysed, bisected
from builders import long_series as long
from builders.gate_hand import GateHand, steady
from builders.long_series import DROPPED, STEADY, noisy
from builders.service_hand import Hand
from fastapi.testclient import TestClient
from sqlalchemy import select

from service.database.session import Database, now_of
from service.findings import lifecycle, pipeline
from service.models import EventKind, FindingEvent, OutboxEvent

API = "/api/v1"
pytestmark = pytest.mark.both_databases


def events_of(database: Database) -> list[OutboxEvent]:
    with database.reading() as session:
        return list(session.scalars(select(OutboxEvent).order_by(OutboxEvent.id)))


def add(database: Database, levels: list[float]) -> None:
    with database.writing() as session:
        long.add(session, dict(enumerate(noisy(levels))))


def test_a_finding_is_told_when_it_is_opened_and_when_it_recovers(database: Database) -> None:
    with database.writing() as session:
        long.prepare(session)
        values = noisy([*STEADY, *DROPPED, *STEADY])
        split = len(STEADY) + len(DROPPED)
        long.add(session, dict(enumerate(values[:split])))
    pipeline.look(database)
    [opened] = events_of(database)
    assert (opened.kind, opened.routed) == (EventKind.FINDING_OPENED, False)
    assert opened.headline in opened.sentence or "slower since" in opened.headline
    assert opened.size == pytest.approx(-0.05, abs=0.01)
    with database.writing() as session:
        long.add(session, dict(list(enumerate(values))[split:]))
    pipeline.look(database)
    _, recovered = events_of(database)
    assert recovered.kind == EventKind.FINDING_RECOVERED
    assert (recovered.subject, recovered.size) == (opened.subject, opened.size)
    assert recovered.sentence.startswith("throughline resolved it: ")


def test_what_people_do_with_a_finding_is_told_where_others_want_to_know(
    client: TestClient,
) -> None:
    database: Database = client.app.state.database  # type: ignore[attr-defined]
    finding = analysed.analyse(database).regression
    before = len(events_of(database))
    path = f"{API}/findings/{finding}"
    plan = {"actor": "ada", "owner": "bob", "note": "the driver"}
    assert client.patch(path, json=plan).status_code == 200
    assert client.patch(path, json={"actor": "ada", "note": "or not"}).status_code == 200
    for action in ("acknowledge", "withdraw", "reopen", "resolve"):
        body = {"actor": "ada", "action": action, "detail": "so"}
        assert client.post(f"{path}/actions", json=body).status_code == 200
    told = [(one.kind, one.sentence) for one in events_of(database)[before:]]
    assert told == [
        ("finding.assigned", "ada planned: owner: bob; note: the driver"),
        ("finding.withdrawn", "ada withdrew it: so"),
        ("finding.reopened", "ada reopened it: so"),
    ]


def test_every_finding_that_was_opened_was_told(client: TestClient) -> None:
    database: Database = client.app.state.database  # type: ignore[attr-defined]
    analysed.analyse(database)
    with database.reading() as session:
        query = select(FindingEvent.finding_id).where(FindingEvent.action == "open")
        opened = set(session.scalars(query))
    assert {one.subject for one in events_of(database)} == opened
    assert opened


def test_a_decision_is_told_once(client: TestClient, hand: Hand) -> None:
    database: Database = client.app.state.database  # type: ignore[attr-defined]
    gate = GateHand(client, hand)
    started = gate.start()
    assert events_of(database) == []
    gate.measure(steady(0.95))
    decided: dict[str, Any] = gate.read(started["id"])
    [told] = events_of(database)
    assert (told.kind, told.subject) == ("comparison.decided", started["id"])
    assert told.headline == f"{decided['contender']} against {decided['baseline']}: regression"
    assert told.sentence == decided["decision"]["sentence"]


def test_a_bisection_is_told_and_its_pairs_are_not(client: TestClient, hand: Hand) -> None:
    database: Database = client.app.state.database  # type: ignore[attr-defined]
    bisecting = bisected.BisectionHand(GateHand(client, hand))
    started = bisecting.start(2)
    bisecting.measure(bisected.stepped(1))
    ended = bisecting.read(started["id"])
    [told] = events_of(database)
    assert (told.kind, told.subject) == ("bisection.ended", started["id"])
    assert told.sentence == ended["sentence"]
    assert told.headline == f"{ended['metric']} of {ended['case_key']}: culprit"


def test_of_a_node_those_are_told_who_look_after_nodes(client: TestClient) -> None:
    database: Database = client.app.state.database  # type: ignore[attr-defined]
    node = analysed.analyse(database).node
    with database.writing() as session:
        lifecycle.act(session, node, "resolve", lifecycle.SYSTEM_ACTOR, now_of(session))
    body = {"actor": "ada", "action": "reopen"}
    assert client.post(f"{API}/findings/{node}/actions", json=body).status_code == 200
    told = [one for one in events_of(database) if one.subject == node]
    assert [one.kind for one in told] == ["node.ill", "node.well", "node.ill"]
    assert {(one.outcome, one.workload) for one in told} == {("bad_node", "")}
    assert told[0].headline.startswith("Worker x ")


def test_a_decision_names_its_workload_and_its_outcome(client: TestClient, hand: Hand) -> None:
    database: Database = client.app.state.database  # type: ignore[attr-defined]
    gate = GateHand(client, hand)
    started = gate.start()
    gate.measure(steady(0.95))
    gate.read(started["id"])
    [decided] = events_of(database)
    assert (decided.outcome, decided.workload) == ("regression", "resnet50")


def test_a_finding_names_its_workload_and_its_kind(database: Database) -> None:
    analysed.analyse(database)
    found = [one for one in events_of(database) if one.kind == EventKind.FINDING_OPENED]
    assert {(one.outcome, one.workload) for one in found} == {("regression", "resnet50")}
