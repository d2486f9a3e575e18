"""Projects: what belongs to one is found, joined and answered for nowhere else."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import long_series as long
from builders.access import Doorman, guarded
from builders.service_hand import Hand
from fastapi.testclient import TestClient
from sqlalchemy import func, select, update
from sqlalchemy.orm import aliased

from service import findings
from service.auth.token_store import TokenRequest
from service.database.session import Database
from service.maintenance import verify
from service.models import (
    Base,
    FindingRow,
    FindingSeries,
    Job,
    Point,
    ResultRow,
    Revision,
    SeriesRow,
    Submission,
    TokenRow,
    project_filter,
)

pytestmark = pytest.mark.both_databases

API = "/api/v1"
SPEC = {"case": {"workload": "unet", "axes": {}}, "revision": "r1"}
COMPARISON = {"baseline": "r1", "contender": "r2", "case": SPEC["case"]}
ORDERS = {"/submissions": SPEC, "/jobs": SPEC, "/comparisons": COMPARISON}

Ask = Callable[..., Any]


@pytest.fixture
def doorman(database_url: str, tmp_path: Path) -> Iterator[Doorman]:
    with guarded(database_url, tmp_path) as doorman:
        yield doorman


@pytest.fixture
def ask(doorman: Doorman) -> Ask:
    """Send a request with a token of kind submit, bound to a project or to none."""
    tokens = {name: doorman.token("submit", project=name) for name in ("red", "blue", None)}

    def call(project: str | None, method: str, path: str, **what: Any) -> Any:
        return doorman.ask(method, f"{API}{path}", tokens[project], **what)

    return call


def test_every_table_says_whose_its_rows_are() -> None:
    known = project_filter
    told = (*known.OWNED, *known.THROUGH, *known.SHARED, *known.FOR_ALL)
    assert len(told) == len(set(told))
    assert set(told) == {mapper.class_ for mapper in Base.registry.mappers}
    owned = {each for each in told if "project" in each.__table__.columns}
    assert owned == {*known.OWNED, *known.FOR_ALL, TokenRow}


@pytest.mark.parametrize("path", ORDERS)
def test_what_who_is_bound_submits_is_of_his_project(ask: Ask, path: str) -> None:
    made = ask("red", "POST", path, json=ORDERS[path])
    assert (made.status_code, made.json()["project"]) == (201, "red")
    where = f"{path}/{made.json()['id']}"
    assert ask("red", "GET", where).status_code == 200
    assert ask(None, "GET", where).json()["project"] == "red"
    assert ask("blue", "GET", where).status_code == 404
    assert ask("blue", "GET", path).json()["items"] == []


def test_a_worker_tells_nobody_of_the_revisions_of_another_project(
    ask: Ask, doorman: Doorman
) -> None:
    assert ask("red", "POST", "/submissions", json=SPEC).status_code == 201
    told = {"name": "w1", "labels": {}, "revisions": ["r1", "secret-of-blue"]}
    worker = doorman.token("worker", name="w1")
    assert doorman.ask("PUT", f"{API}/workers/w1", worker, json=told).status_code == 200
    for project, seen in (("red", ["r1"]), ("blue", []), (None, ["r1", "secret-of-blue"])):
        [found] = ask(project, "GET", "/workers").json()["items"]
        assert found["revisions"] == seen
        refused = ask(project, "POST", "/comparisons", json=COMPARISON)
        assert refused.status_code == 422
        assert ("secret-of-blue" in refused.text) == (project is None)


@pytest.mark.parametrize("path", ORDERS)
def test_who_is_bound_to_one_project_submits_to_no_other(ask: Ask, path: str) -> None:
    assert ask("red", "POST", path, json=ORDERS[path] | {"project": "red"}).status_code == 201
    refused = ask("red", "POST", path, json=ORDERS[path] | {"project": "blue"})
    assert refused.status_code == 403
    assert "This token is for the project red" in refused.json()["detail"]
    assert ask("blue", "GET", path).json()["items"] == []


@pytest.mark.parametrize("path", ORDERS)
def test_who_is_not_bound_says_whose_it_is_or_nobodys(ask: Ask, path: str) -> None:
    made = [
        ask(None, "POST", path, json=ORDERS[path] | said).json()
        for said in ({}, {"project": None}, {"project": "red"})
    ]
    assert [each["project"] for each in made] == ["", "", "red"]
    wrong = ask(None, "POST", path, json=ORDERS[path] | {"project": ""})
    assert wrong.status_code == 422


@pytest.mark.parametrize("path", ORDERS)
def test_a_key_is_another_one_in_each_project(ask: Ask, path: str) -> None:
    def post(who: str | None, **said: str) -> Any:
        headers = {"Idempotency-Key": "build-7"}
        return ask(who, "POST", path, json=ORDERS[path] | said, headers=headers)

    first = {project: post(project) for project in ("red", "blue", None)}
    assert {each.status_code for each in first.values()} == {201}
    assert len({each.json()["id"] for each in first.values()}) == 3
    for project, made in first.items():
        again = post(project)
        assert (again.status_code, again.json()["id"]) == (200, made.json()["id"])
    told = post(None, project="red")
    assert (told.status_code, told.json()["id"]) == (200, first["red"].json()["id"])


def test_a_job_of_another_project_cannot_be_measured_again(ask: Ask) -> None:
    job = ask("red", "POST", "/jobs", json=SPEC).json()["id"]
    refused = ask("blue", "POST", "/jobs", json=SPEC | {"rerun_of": job})
    missing = ask("blue", "POST", "/jobs", json=SPEC | {"rerun_of": "0" * 32})
    assert (refused.status_code, refused.json()) == (422, missing.json())
    again = ask(None, "POST", "/jobs", json=SPEC | {"rerun_of": job})
    assert again.json()["project"] == "red"
    moved = ask(None, "POST", "/jobs", json=SPEC | {"rerun_of": job, "project": "blue"})
    assert moved.status_code == 422
    assert "of the project red: leave `project` out" in moved.json()["detail"]


def test_a_revision_of_another_project_was_never_submitted(ask: Ask) -> None:
    ask("red", "POST", "/jobs", json=SPEC | {"revision": "secret-branch"})
    both = {"baseline": "secret-branch", "contender": "secret-branch"}
    assert ask("red", "GET", "/changes", params=both).status_code == 200
    for name in ("secret-branch", "secret-b", "missing-branch"):
        refused = ask("blue", "GET", "/changes", params=both | {"baseline": name})
        assert refused.status_code == 422
        assert f"Nothing was ever submitted at a revision {name!r}" in refused.json()["detail"]
        assert "several" not in refused.json()["detail"]


def test_a_date_that_somebody_bound_tells_moves_the_revision_for_all(
    ask: Ask, doorman: Doorman
) -> None:
    ask("red", "POST", "/jobs", json=SPEC)
    dated = SPEC | {"revision_at": "2026-01-02T03:04:05+00:00"}
    assert ask("blue", "POST", "/jobs", json=dated).status_code == 201
    with doorman.database.reading() as session:
        assert session.get_one(Revision, "r1").ordered_at.isoformat() == dated["revision_at"]


@pytest.mark.parametrize("kind", ["worker", "admin"])
def test_only_tokens_that_read_and_submit_are_bound(doorman: Doorman, kind: str) -> None:
    wanted = {"kind": kind, "name": "w", "project": "red"}
    admin = doorman.token("admin")
    refused = doorman.ask("POST", f"{API}/tokens", admin, json=wanted)
    assert refused.status_code == 422
    assert f"a token of the kind {kind} is for all projects" in refused.json()["detail"]
    with pytest.raises(ValueError, match="for all projects"):
        TokenRequest.model_validate(wanted)
    good = doorman.ask("POST", f"{API}/tokens", admin, json=wanted | {"kind": "read"}).json()
    assert good["project"] == "red"
    listed = doorman.ask("GET", f"{API}/tokens", admin).json()["items"]
    assert {each["project"] for each in listed} == {"red", None}
    renewed = doorman.ask("POST", f"{API}/tokens/{good['id']}/rotate", admin).json()
    assert renewed["project"] == "red"


def test_who_signs_in_with_a_bound_token_stays_bound(ask: Ask, doorman: Doorman) -> None:
    theirs = ask("blue", "POST", "/jobs", json=SPEC).json()["id"]
    form = {"token": doorman.token("read", project="red"), "next": "/"}
    client = doorman.client
    origin = {"Origin": str(client.base_url).rstrip("/")}
    signed = client.post("/sign-in", data=form, headers=origin, follow_redirects=False)
    assert signed.status_code == 303, signed.text
    assert client.get("/jobs").status_code == 200
    assert theirs not in client.get("/jobs").text
    assert client.get(f"/jobs/{theirs}").status_code == 404


def test_two_projects_have_two_histories_of_one_case(client: TestClient, hand: Hand) -> None:
    for project in ({}, {"project": "red"}, {"project": "blue"}):
        assert client.post(f"{API}/jobs", json=SPEC | project).status_code == 201
        hand.measure()
    series = client.get(f"{API}/series").json()["items"]
    assert sorted(each["project"] for each in series) == ["", "blue", "red"]
    assert len({each["id"] for each in series}) == 3
    for each in series:
        (point,) = client.get(f"{API}/series/{each['id']}").json()["points"]
        result = client.get(f"{API}/results/{point['result_id']}").json()
        assert result["project"] == each["project"]
    both = {"baseline": "r1", "contender": "r1"}
    changes = client.get(f"{API}/changes", params=both).json()["changes"]
    assert sorted(each["project"] for each in changes) == ["", "blue", "red"]
    one = client.get(f"{API}/changes", params=both | {"project": "red"}).json()["changes"]
    assert [each["project"] for each in one] == ["red"]
    text = client.get(f"{API}/changes", params=both | {"format": "markdown"}).text
    assert "` of the project blue |" in text
    database = client.app.state.database  # type: ignore[attr-defined]
    assert verify.verify(database).kept


def test_a_result_in_another_projects_history_is_found(client: TestClient, hand: Hand) -> None:
    client.post(f"{API}/jobs", json=SPEC | {"project": "red"})
    hand.measure()
    database = client.app.state.database  # type: ignore[attr-defined]
    with database.writing() as session:
        session.execute(update(Job).values(project="blue"))
    assert not verify.verify(database).kept


def test_a_report_compares_within_its_project(client: TestClient, hand: Hand) -> None:
    made = {}
    for project, values in (("red", (100.0, 101.0, 99.0)), ("blue", (50.0, 51.0, 49.0))):
        for revision in ("r1", "r2"):
            body = SPEC | {"project": project, "revision": revision}
            made[project] = client.post(f"{API}/submissions", json=body).json()["id"]
            hand.measure(values)
    for project, submission in made.items():
        where = f"{API}/submissions/{submission}/report"
        (change,) = client.get(where, params={"against": "r1"}).json()["changes"]
        assert change["project"] == project
    page = client.get("/compare", params={"baseline": "r1", "contender": "r2"}).text
    for project in made:
        assert page.count(f'<span class="axis">project</span> {project}') == 1


@pytest.mark.parametrize(("other", "told"), [("red", 1), ("blue", 2)])
def test_findings_of_two_projects_are_two(database: Database, other: str, told: int) -> None:
    """The same change of two cases of a workload is one cause, unless they are of two projects."""
    noise = np.exp(np.random.default_rng(2).normal(0, 0.003, 32))
    level = [float(each) for each in np.array([100.0] * 20 + [95.0] * 12) * noise]
    with database.writing() as session:
        long.prepare(session)
        for place, series in enumerate((long.SERIES, long.OTHER)):
            long.add(session, dict(enumerate(level)), series_id=series, place=place)
        for name, project in ((long.SERIES, "red"), (long.OTHER, other)):
            mine = update(SeriesRow).where(SeriesRow.id == name)
            session.execute(mine.values(project=project))
        long.look(session)
        found = findings.list_findings(session).items
        assert sorted(each.project for each in found) == sorted({"red", other})
        assert len(found) == told
        for each in found:
            (*about,) = findings.load_finding(session, each.id).series
            assert {one.series.project for one in about} == {each.project}


def test_no_kind_of_query_finds_what_is_of_another_project(database: Database) -> None:
    with database.writing() as session:
        long.prepare(session)
        long.add(session, {1: 1.0}, series_id=long.SERIES)
        long.add(session, {1: 2.0}, series_id=long.OTHER, place=1)
        session.execute(update(SeriesRow).where(SeriesRow.id == long.OTHER).values(project="blue"))
        session.execute(update(SeriesRow).where(SeriesRow.id == long.SERIES).values(project="red"))
    with database.writing() as session:
        project_filter.restrict(session, "red")
        other, beside = aliased(SeriesRow), aliased(Point)
        counted = select(func.count()).select_from(Point)
        parts = select(Point.value).cte("parts")
        assert session.get(SeriesRow, long.OTHER) is None
        assert session.get(SeriesRow, long.OTHER, with_for_update=True) is None
        assert session.get(SeriesRow, long.SERIES) is not None
        assert session.scalar(counted) == 1
        assert session.scalar(select(func.max(Point.value))) == 1.0
        assert session.scalars(select(Point.series_id)).all() == [long.SERIES]
        assert session.scalars(select(parts.c.value)).all() == [1.0]
        assert session.scalars(select(other.id)).all() == [long.SERIES]
        assert session.scalars(select(beside.value)).all() == [1.0]
        joined = select(SeriesRow.id, Point.value).join(Point, Point.series_id == SeriesRow.id)
        assert session.execute(joined).all() == [(long.SERIES, 1.0)]
        inside = select(FindingSeries.finding_id)
        assert session.scalars(select(FindingRow).where(FindingRow.id.in_(inside))).all() == []
        changed = update(Point).values(value=3.0)
        session.execute(changed.execution_options(synchronize_session=False))
        everybodys = session.scalars(
            select(Point.value).order_by(Point.value), execution_options=project_filter.EVERYBODYS
        )
        assert everybodys.all() == [2.0, 3.0]
        assert session.scalar(select(func.count()).select_from(ResultRow)) == 0
        assert session.scalar(select(func.count()).select_from(Submission)) == 0
