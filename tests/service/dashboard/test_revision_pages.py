"""The page of a revision tells what began with it, and what measured it."""

from __future__ import annotations

import re

from builders import long_series as long
from builders.bisected import BisectionHand, stepped
from builders.gate_hand import GateHand, steady
from builders.service_hand import Hand
from fastapi.testclient import TestClient

from service.database.session import Database
from service.history import revisions
from service.models import CommitRangeRow


def database_of(client: TestClient) -> Database:
    database: Database = client.app.state.database  # type: ignore[attr-defined]
    return database


def dropped(client: TestClient) -> str:
    """A history that drops; the revision with which it does."""
    bad = long.revision_of(len(long.STEADY))
    with database_of(client).writing() as session:
        long.prepare(session)
        long.add(session, dict(enumerate([*long.noisy(long.STEADY), *long.noisy(long.DROPPED)])))
        revisions.describe(session, bad, "ada", "Use <b>more</b> memory")
        long.look(session)
    return bad


def test_it_tells_its_commit_its_finding_and_the_levels_that_change(client: TestClient) -> None:
    bad = dropped(client)
    text = client.get(f"/revisions/{bad}").text.replace("\u00a0", " ")
    assert "Use &lt;b&gt;more&lt;/b&gt; memory" in text
    assert "ada" in text
    (finding,) = client.get("/api/v1/findings").json()["items"]
    assert f"/findings/{finding['id']}" in text
    levels = text[text.index("Levels that change") :]
    assert re.search(r"[45]\.\d % worse", levels)
    before, after = (long.revision_of(len(long.STEADY) + by) for by in (-1, 1))
    assert f'href="/revisions/{before}" rel="prev"' in text
    assert f'href="/revisions/{after}" rel="next"' in text


def test_it_lists_the_commits_since_the_revision_before(client: TestClient) -> None:
    bad, before = dropped(client), long.revision_of(len(long.STEADY) - 1)
    commit = {"commit": "c" * 40, "at": "2026-01-20T01:02:00Z", "title": "One", "author": "bob"}
    assert "No worker has listed" in client.get(f"/revisions/{bad}").text
    with database_of(client).writing() as session:
        for good, commits in ((before, [commit]), (long.revision_of(0), [])):
            row = {"good": good, "bad": bad, "asked_at": long.START, "listed_at": long.START}
            session.add(CommitRangeRow(**row, commits=commits, reason=""))
    text = client.get(f"/revisions/{bad}").text
    assert f"since {before}" in text
    assert ">bob<" in text


def test_gates_and_bisections_that_measured_it_are_listed(client: TestClient, hand: Hand) -> None:
    gate = GateHand(client, hand)
    told = gate.start()
    gate.measure(steady())
    assert f'href="/comparisons/{told["id"]}"' in client.get("/revisions/new").text
    bisecting = BisectionHand(gate)
    begun = bisecting.start(2)
    bisecting.measure(stepped(1))
    culprit = bisecting.read(begun["id"])["bad"]
    text = client.get(f"/revisions/{culprit}").text
    assert f'href="/bisections/{begun["id"]}"' in text
    assert ">Gate<" not in text, "a probe is no gate"


def test_a_name_may_have_slashes_and_one_that_is_not_known_is_not_found(
    client: TestClient, hand: Hand
) -> None:
    case = {"case": {"workload": "unet"}, "revision": "feature/faster"}
    assert client.post("/api/v1/submissions", json=case).status_code == 201
    assert client.get("/revisions/feature/faster").status_code == 200
    assert client.get("/revisions/gone").status_code == 404
