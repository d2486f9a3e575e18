"""A schedule that follows a ref measures each of its commits once, and says why if it cannot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from builders.service_hand import Hand, result_of
from fastapi.testclient import TestClient
from sqlalchemy import select, text

from benchmarks.catalog import suites
from benchmarks.contracts import Status
from service.database.session import Database, now_of
from service.jobs import measured_commits, schedules
from service.models import Revision, Schedule, WorkerRow

ONE, TWO = "1" * 40, "2" * 40
API = "/api/v1"
Fire = Callable[..., list[schedules.Fired]]


def head(commit: str, ref: str = "refs/heads/main", target: str = "ours") -> dict[str, str]:
    at = "2026-11-20T01:00:00Z"
    more = {"author": "Ann", "title": "Faster"}
    return {"target": target, "ref": ref, "commit": commit, "at": at, **more}


def tell(client: TestClient, *heads: dict[str, str], name: str = "w1", **more: Any) -> None:
    """Introduce a worker that builds ``ours``."""
    body = {"name": name, "labels": {"device": "cpu"}, "targets": {"ours": ""}, "heads": heads}
    answer = client.put(f"{API}/workers/{name}", json=body | more)
    assert answer.status_code == 200, answer.text


def follow(client: TestClient, rule: str = "ref:ours:main", **more: Any) -> Any:
    body = {"cron": "* * * * *", "suite": "smoke", "revision_rule": rule}
    answer = client.put(f"{API}/schedules/s", json=body | more)
    assert answer.status_code == 200, answer.text
    return answer.json()


def shown(client: TestClient) -> Any:
    return client.get(f"{API}/schedules/s").json()


def submitted(client: TestClient) -> list[str]:
    """The revisions that were submitted, the first one first."""
    items = client.get(f"{API}/submissions").json()["items"]
    return [one["revision"] for one in reversed(items)]


def end_all(client: TestClient, *statuses: Status, name: str = "w1") -> None:
    """Let a worker post a result for every job that it gets; the last status is of all others."""
    hand, left = Hand(client, name), list(statuses)
    while lease := hand.claim():
        status = left.pop(0) if len(left) > 1 else left[0]
        hand.start(lease)
        reason = "" if status is Status.OK else f"It ended {status}."
        assert hand.post(lease, result_of(lease, status=status, reason=reason)).status_code == 201


@pytest.fixture
def service(client: TestClient) -> Database:
    database: Database = client.app.state.database  # type: ignore[attr-defined]
    with database.writing() as session:
        session.execute(text("DELETE FROM schedules"))
    return database


@pytest.fixture
def fire(service: Database) -> Fire:
    """Look for due slots, some minutes from now."""

    def look(minutes: float) -> list[schedules.Fired]:
        with service.writing() as session:
            return schedules.fire_due(session, now_of(session) + timedelta(minutes=minutes))

    return look


def test_a_slot_measures_the_commit_at_which_workers_see_the_ref(
    client: TestClient, fire: Fire, service: Database
) -> None:
    tell(client, head(TWO, "refs/heads/other"), head(TWO, target="theirs"), head(ONE))
    follow(client)
    assert len(fire(1)) == 1
    assert submitted(client) == [ONE]
    assert shown(client)["note"] == ""
    with service.reading() as session:
        row = session.scalars(select(Revision).where(Revision.name == ONE)).one()
    assert (row.author, row.title, row.dated) == ("Ann", "Faster", True)
    assert row.ordered_at == datetime(2026, 11, 20, 1, tzinfo=UTC)


def test_a_worker_with_more_gpus_than_a_schedule_requires_tells_the_commit(
    client: TestClient, fire: Fire
) -> None:
    tell(client, head(ONE), labels={"device": "cpu", "gpus": "4"})
    follow(client, requires={"gpus": "2"})
    fire(1)
    assert submitted(client) == [ONE]


@pytest.mark.parametrize(
    ("ref", "asked"),
    [
        ("refs/heads/feature/fast", "feature/fast"),
        ("refs/pull/7/head", "refs/pull/7/head"),
        ("refs/heads/main", "refs/heads/main"),
    ],
)
def test_a_ref_is_named_as_a_branch_or_whole(
    client: TestClient, fire: Fire, ref: str, asked: str
) -> None:
    tell(client, head(ONE, ref))
    follow(client, f"ref:ours:{asked}")
    fire(1)
    assert submitted(client) == [ONE]


@pytest.mark.both_databases
def test_a_commit_is_measured_once_and_a_moved_ref_at_its_new_one(
    client: TestClient, fire: Fire
) -> None:
    tell(client, head(ONE))
    follow(client)
    (first,) = fire(1)
    end_all(client, Status.OK)
    (still,) = fire(2)
    assert first.submission_id
    assert still.submission_id is None
    assert submitted(client) == [ONE]
    assert shown(client)["note"] == "It submitted nothing: it has measured 111111111111 already."
    tell(client, head(TWO))
    assert fire(3)[0].submission_id
    end_all(client, Status.OK)
    tell(client, head(ONE))  # a force-push back
    assert fire(4)[0].submission_id is None
    assert submitted(client) == [ONE, TWO]
    follow(client, again=True)
    assert fire(5)[0].submission_id
    assert submitted(client) == [ONE, TWO, ONE]


@pytest.mark.both_databases
def test_each_release_of_a_package_is_measured_once_where_it_can_be_made(
    client: TestClient, fire: Fire, service: Database
) -> None:
    makes = {"labels": {"builds.torch": "yes"}, "targets": {"upstream": ""}}
    Hand(client, "plain").introduce([])  # it would measure what is installed, and gets no such job
    newest = head("torch==2.12.0", "refs/heads/torch", "upstream")
    tell(client, newest, **makes)
    follow(client, "ref:upstream:torch")
    assert fire(1)[0].submission_id
    end_all(client, Status.OOM)
    assert fire(2)[0].submission_id is None
    assert shown(client)["note"] == "It submitted nothing: it has measured torch==2.12.0 already."
    with service.reading() as session:
        row = session.scalars(select(Revision).where(Revision.name == "torch==2.12.0")).one()
    assert not row.dated, "each worker sees a release at another time"
    tell(client, newest | {"commit": "torch==2.13.0"}, **makes)
    assert fire(3)[0].submission_id
    assert submitted(client) == ["torch==2.12.0", "torch==2.13.0"]
    assert Hand(client, "plain").claim() is None
    tell(client, **makes | {"targets": {"upstream": "`uv pip` failed: tcp connect error"}})
    fire(4)
    said = "It waits. Worker w1 does not know torch of upstream: `uv pip` failed: tcp connect error"
    assert shown(client)["note"] == said


def test_the_worker_that_told_something_new_last_is_right(client: TestClient, fire: Fire) -> None:
    tell(client, head(ONE))
    tell(client, head(ONE), name="w2")
    tell(client, head(TWO), name="w2")
    tell(client, head(ONE))  # again, as before each claim: nothing new
    follow(client)
    fire(1)
    assert submitted(client) == [TWO]


def test_a_worker_that_is_behind_is_not_right_because_another_ref_of_it_moves(
    client: TestClient, fire: Fire
) -> None:
    tell(client, head(ONE))
    tell(client, head(TWO), name="w2")
    other = head(ONE, "refs/heads/other")
    tell(client, head(ONE), other)
    trouble = {"targets": {"ours": "", "theirs": "No answer after 7 s."}}
    tell(client, head(ONE), other | {"commit": TWO}, **trouble)
    follow(client)
    fire(1)
    assert submitted(client) == [TWO]


def test_a_worker_that_could_not_reach_the_repository_for_a_while_tells_nothing_new(
    client: TestClient, fire: Fire
) -> None:
    tell(client, head(ONE))
    tell(client, head(TWO), name="w2")
    for told in ("It was not fetched yet.", "`git fetch` failed after 7 s."):
        tell(client, targets={"ours": told})
    follow(client)
    tell(client, head(ONE))
    fire(1)
    assert submitted(client) == [TWO]


@pytest.mark.parametrize(
    ("result", "measured"),
    [
        ({"status": Status.UNBUILDABLE, "reason": "No wheel."}, True),
        ({"status": Status.OOM, "reason": "Full."}, True),
        ({"status": Status.INFRA_ERROR, "reason": "Away."}, False),
        (None, False),
    ],
)
def test_only_what_says_something_of_the_commit_counts_as_measured(
    client: TestClient, fire: Fire, result: dict[str, Any] | None, measured: bool
) -> None:
    tell(client, head(ONE))
    follow(client)
    fire(1)
    hand = Hand(client)
    if result is None:
        for job in client.get(f"{API}/jobs?limit=200").json()["items"]:
            client.post(f"{API}/jobs/{job['id']}/cancel")
    while result and (lease := hand.claim()):
        hand.start(lease)
        assert hand.post(lease, result_of(lease, **result)).status_code == 201
    fire(2)
    assert submitted(client) == ([ONE] if measured else [ONE, ONE])


def cases_of(client: TestClient) -> list[Any]:
    """The cases of the newest submission, in their order."""
    newest = client.get(f"{API}/submissions").json()["items"][0]["id"]
    jobs = client.get(f"{API}/submissions/{newest}").json()["jobs"]
    return [job["case"] for job in jobs]


@pytest.mark.parametrize("left", [Status.INFRA_ERROR, Status.CANCELLED])
def test_a_case_that_the_machine_failed_is_submitted_again_until_it_was_measured(
    client: TestClient, fire: Fire, left: Status
) -> None:
    tell(client, head(ONE))
    follow(client)
    fire(1)
    end_all(client, Status.OOM, left)
    measured, *others = cases_of(client)
    assert fire(2)[0].submission_id
    assert measured not in cases_of(client)
    assert cases_of(client) == others, "only what is left is submitted"
    end_all(client, Status.OK)
    assert fire(3)[0].submission_id is None
    assert submitted(client) == [ONE, ONE]
    assert shown(client)["note"] == "It submitted nothing: it has measured 111111111111 already."


def test_what_was_measured_is_not_submitted_again_however_often_the_machine_failed_since(
    client: TestClient, fire: Fire, service: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measured_commits, "_LOOKED_AT", 2)
    tell(client, head(ONE))
    follow(client)
    fire(1)
    end_all(client, Status.INFRA_ERROR, Status.OK)
    failed = cases_of(client)[:1]
    for minute in (2, 3, 4, 5):
        fire(minute)
        assert cases_of(client) == failed
        end_all(client, Status.INFRA_ERROR)


def test_a_suite_that_lost_the_case_that_was_left_submits_nothing(
    client: TestClient, fire: Fire, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = suites.suite("smoke")
    tell(client, head(ONE))
    follow(client)
    fire(1)
    end_all(client, Status.INFRA_ERROR, Status.OK)
    monkeypatch.setattr(suites, "suite", lambda _: replace(suite, cases=suite.cases[1:]))
    assert fire(2)[0].submission_id is None
    assert shown(client)["note"] == (
        "It could not submit: All cases that are left of its suite are measured already."
    )


def test_half_of_the_replicates_of_a_case_are_no_measurement(
    client: TestClient, fire: Fire, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = suites.suite("smoke")
    twice = suite.protocol.model_copy(update={"replicates": 2})
    monkeypatch.setattr(suites, "suite", lambda _: replace(suite, protocol=twice))
    tell(client, head(ONE))
    follow(client)
    fire(1)
    end_all(client, *[Status.OK] * len(suite.cases), Status.INFRA_ERROR)
    assert fire(2)[0].submission_id
    end_all(client, Status.OK)
    assert fire(3)[0].submission_id is None


@pytest.mark.both_databases
def test_what_was_measured_elsewhere_is_measured_where_the_schedule_asks_for_now(
    client: TestClient, fire: Fire
) -> None:
    tell(client, head(ONE))
    follow(client, requires={"device": "cpu"})
    fire(1)
    end_all(client, Status.OOM)
    tell(client, head(ONE), name="w2", labels={"device": "cuda"})
    follow(client, requires={"device": "cuda"})
    assert fire(2)[0].submission_id
    end_all(client, Status.OOM, name="w2")
    assert fire(3)[0].submission_id is None
    follow(client, requires={"device": "cpu"})
    assert fire(4)[0].submission_id is None


def test_a_commit_whose_results_are_awaited_is_not_called_measured(
    client: TestClient, fire: Fire
) -> None:
    tell(client, head(ONE))
    follow(client)
    fire(1)
    fire(2)
    note = shown(client)["note"]
    assert note.startswith("It submitted nothing: it awaits results of 111111111111 since 20")
    assert note.endswith(" UTC.")
    assert submitted(client) == [ONE]


def test_a_commit_that_could_not_be_built_is_tried_again_after_a_day(
    client: TestClient, fire: Fire, service: Database
) -> None:
    tell(client, head(ONE))
    follow(client)
    fire(1)
    end_all(client, Status.OK, Status.UNBUILDABLE)
    fire(2)
    assert shown(client)["note"] == (
        "It submitted nothing: 111111111111 could not be built, and is tried again after a day: "
        "It ended unbuildable."
    )
    assert submitted(client) == [ONE]

    def fire_after_a_day(minutes: float) -> list[schedules.Fired]:
        with service.writing() as session:
            then = now_of(session) + timedelta(days=1, minutes=minutes)
            row = session.get_one(WorkerRow, "w1")
            row.last_seen_at = row.heads_told_at = then
            return schedules.fire_due(session, then)

    assert fire_after_a_day(2)[0].submission_id
    end_all(client, Status.OK)
    assert fire_after_a_day(3)[0].submission_id is None
    assert shown(client)["note"] == "It submitted nothing: it has measured 111111111111 already."


@pytest.mark.both_databases
@pytest.mark.parametrize(
    ("workers", "says"),
    [
        ([], "It waits. No worker that it may use has the target ours: define it in a "),
        ([{"labels": {"device": "cuda"}}], "No worker that it may use has the target ours"),
        ([{"heads": [head(ONE, "refs/heads/other")]}], "ours has no ref main: it is gone, "),
        (
            [{"heads": [], "targets": {"ours": "`git fetch` failed: no route."}}],
            "It waits. Worker w0 does not know main of ours: `git fetch` failed: no route.",
        ),
        (
            [{}, {"targets": {}, "heads": []}],
            "Worker w1 does not build ours and would measure something else as 111111111111",
        ),
    ],
)
def test_a_slot_that_cannot_know_its_commit_waits_and_says_why(
    client: TestClient, fire: Fire, workers: list[dict[str, Any]], says: str
) -> None:
    for place, more in enumerate(workers):
        tell(client, head(ONE), name=f"w{place}", **more)
    due_at = follow(client, requires={"device": "cpu"})["next_due_at"]
    assert fire(1) == fire(2) == []
    told = shown(client)
    assert says in told["note"]
    assert told["next_due_at"] == due_at
    assert submitted(client) == []
    for place in range(len(workers)):
        tell(client, head(ONE), name=f"w{place}")
    tell(client, head(ONE))
    assert len(fire(3)) == 1
    assert (submitted(client), shown(client)["note"]) == ([ONE], "")


def test_a_worker_without_the_target_may_have_the_commit_deployed(
    client: TestClient, fire: Fire
) -> None:
    tell(client, head(ONE))
    tell(client, name="w2", targets={}, revisions=[ONE])
    follow(client)
    fire(1)
    assert submitted(client) == [ONE]


def test_what_a_worker_said_long_ago_is_not_believed(client: TestClient, fire: Fire) -> None:
    tell(client, head(ONE))
    follow(client)
    assert fire(11) == []
    assert "No worker with the target ours was heard of since " in shown(client)["note"]
    assert " UTC." in shown(client)["note"]


@pytest.mark.both_databases
def test_a_worker_that_claims_but_tells_no_refs_is_not_believed(
    client: TestClient, fire: Fire, service: Database
) -> None:
    tell(client, head(ONE))
    with service.writing() as session:
        session.get_one(WorkerRow, "w1").heads_told_at = now_of(session) - timedelta(minutes=9)
    follow(client)
    Hand(client).claim()
    assert fire(2) == []
    note = shown(client)["note"]
    assert note.startswith("It waits. Worker w1 has not told where the refs of ours are since 20")
    assert note.endswith(" UTC; its log may say why.")
    tell(client, head(ONE))  # as it does every few minutes: nothing moved
    assert len(fire(2)) == 1


def test_a_look_that_comes_late_does_not_overwrite_what_became_of_the_slot(
    client: TestClient, fire: Fire, service: Database
) -> None:
    follow(client)
    with service.reading() as session:
        late = session.get_one(Schedule, "s")
    tell(client, head(ONE))
    fire(1)
    tell(client, targets={"ours": "`git fetch` failed."})
    with service.writing() as session:
        assert schedules._fire_row(session, late, now_of(session) + timedelta(minutes=1)) is None
    assert shown(client)["note"] == ""


def test_who_fires_a_slot_takes_back_what_another_look_said_meanwhile(
    client: TestClient, fire: Fire, service: Database
) -> None:
    follow(client)
    with service.reading() as session:
        seen = session.get_one(Schedule, "s")
    fire(1)
    assert shown(client)["note"].startswith("It waits. ")
    tell(client, head(ONE))
    with service.writing() as session:
        assert schedules._fire_row(session, seen, now_of(session) + timedelta(minutes=1))
    assert shown(client)["note"] == ""


def test_firing_by_hand_measures_again_or_says_why_it_cannot(
    client: TestClient, fire: Fire
) -> None:
    follow(client)
    refused = client.post(f"{API}/schedules/s/fire")
    assert (refused.status_code, refused.json()["type"]) == (409, "unresolved")
    assert refused.json()["detail"].startswith("No worker that it may use has the target ours")
    tell(client, head(ONE))
    fire(1)
    assert client.post(f"{API}/schedules/s/fire").status_code == 201
    assert submitted(client) == [ONE, ONE]


@pytest.mark.both_databases
def test_a_slot_that_was_refused_says_why(
    client: TestClient, fire: Fire, service: Database
) -> None:
    follow(client, "date")
    with service.writing() as session:
        session.execute(text("UPDATE schedules SET suite = 'gone'"))
    assert fire(1)[0].submission_id is None
    assert shown(client)["note"].startswith("It could not submit: ")
    follow(client, "date")
    assert shown(client)["note"] == ""


@pytest.mark.parametrize("at", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"])
def test_a_commit_of_an_impossible_time_stops_no_other_schedule(
    client: TestClient, fire: Fire, at: str
) -> None:
    tell(client, head(ONE) | {"at": at})
    follow(client)
    body = {"cron": "* * * * *", "suite": "smoke", "revision_rule": "fixed:v1"}
    client.put(f"{API}/schedules/t", json=body)
    fire(1)
    assert submitted(client) == ["v1"]
    assert shown(client)["note"].startswith("It could not submit: revision_at ")


@pytest.mark.parametrize(
    "rule", ["ref:", "ref:ours", "ref:ours:", "ref:Ours:main", "ref:ours:-x", "ref:ours:a b"]
)
def test_a_rule_that_names_no_ref_is_refused(client: TestClient, rule: str) -> None:
    body = {"cron": "* * * * *", "suite": "smoke", "revision_rule": rule}
    answer = client.put(f"{API}/schedules/s", json=body)
    assert answer.status_code == 422
    assert "such as ref:nanogpt:main" in answer.json()["detail"]


def test_pages_show_what_a_slot_waits_for(client: TestClient, fire: Fire) -> None:
    tell(client, targets={"ours": "<b>no route</b>"})
    follow(client, again=True)
    fire(1)
    page = client.get("/schedules").text
    assert "It waits. Worker w1 does not know main of ours: &lt;b&gt;no route" in page
    assert "again if it was measured" in page
    assert "builds ours: &lt;b&gt;no route" in client.get("/workers").text
