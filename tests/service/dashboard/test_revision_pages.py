"""The page of a revision tells what began with it, and what measured it."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

from builders import long_series as long
from builders.access import guarded
from builders.bisected import BisectionHand, stepped
from builders.gate_hand import GateHand, steady
from builders.service_hand import Hand
from fastapi.testclient import TestClient
from sqlalchemy import update

from service.database.session import Database
from service.history import revisions
from service.models import CommitRangeRow, SeriesRow, Submission


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


def test_commits_since_a_revision_of_another_project_are_not_shown(
    sqlite_url: str, tmp_path: Path
) -> None:
    with guarded(sqlite_url, tmp_path) as doorman:
        with doorman.database.writing() as session:
            long.prepare(session)
            long.add(session, {0: 1.0, 1: 1.0})
            ours = update(Submission).where(Submission.revision == long.revision_of(1))
            session.execute(ours.values(project="ours"))
            commit = {
                "commit": "c" * 40,
                "at": "2026-01-02T01:02:00Z",
                "title": "A secret",
                "author": "",
            }
            row = {"good": long.revision_of(0), "bad": long.revision_of(1), "commits": [commit]}
            row |= {"asked_at": long.START, "listed_at": long.START}
            session.add(CommitRangeRow(**row, reason=""))
        page = f"/revisions/{long.revision_of(1)}"
        assert "A secret" in doorman.ask("GET", page, doorman.token("read", "all")).text
        bound = doorman.ask("GET", page, doorman.token("read", "one", project="ours"))
    assert bound.status_code == 200
    assert "A secret" not in bound.text


def test_many_ranges_of_other_projects_hide_none_of_a_readers_own(
    sqlite_url: str, tmp_path: Path
) -> None:
    bad, own = long.revision_of(1), long.revision_of(0)
    with guarded(sqlite_url, tmp_path) as doorman:
        with doorman.database.writing() as session:
            long.prepare(session)
            long.add(session, {0: 1.0, 1: 1.0})
            session.execute(update(Submission).values(project="ours"))
            theirs = [f"{number:040x}" for number in range(60)]
            for minutes, good in enumerate([own, *theirs]):
                title = "Ours" if good == own else "A secret"
                commit = {"commit": "c" * 40, "at": "2026-01-02T01:02:00Z", "title": title}
                listed_at = long.START + timedelta(minutes=minutes)
                row = {"good": good, "bad": bad, "commits": [commit | {"author": ""}]}
                row |= {"asked_at": long.START, "listed_at": listed_at}
                session.add(CommitRangeRow(**row, reason=""))
        token = doorman.token("read", "one", project="ours")
        text = doorman.ask("GET", f"/revisions/{bad}", token).text
    assert "Ours" in text
    assert "A secret" not in text


def test_its_neighbours_are_of_the_project_that_measured_it_last_or_is_named(
    client: TestClient,
) -> None:
    """Two projects measure by turns, and the third revision both."""
    with database_of(client).writing() as session:
        long.prepare(session)
        long.add(session, {1: 1.0, 3: 1.0, 5: 1.0})
        long.add(session, {2: 1.0, 3: 1.0, 4: 1.0}, series_id=long.OTHER, place=1, minutes=5)
        session.get_one(SeriesRow, long.OTHER).project = "theirs"
        turns = Submission.revision.in_([long.revision_of(number) for number in (2, 4)])
        session.execute(update(Submission).where(turns).values(project="theirs"))
    page = f"/revisions/{long.revision_of(3)}"
    for named, project, before in (("", "theirs", 2), ("?project=", "", 1)):
        text = client.get(page + named).text
        beside = dict(map(reversed, re.findall(r'href="([^"]+)" rel="(prev|next)"', text)))
        to = {"prev": before, "next": 6 - before}
        assert beside == {
            way: f"/revisions/{long.revision_of(number)}?project={project}"
            for way, number in to.items()
        }
        assert f'<option value="{project}" selected>' in text
        assert "</b> missing" not in text


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
