"""A profiler's trace is kept once beside its result, by whoever held the attempt."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from typing import Any

import pytest
from builders.service_hand import Hand, result_of
from builders.traces import a_trace_file
from fastapi.testclient import TestClient
from sqlalchemy import select, text
from sqlalchemy.exc import DBAPIError

from benchmarks.artifact_kinds import LIMIT_B
from benchmarks.contracts import Case, Direction, Lease, Result, Status
from service.database.session import Database, now_of
from service.findings.confirm.start import ask
from service.history.artifacts.folder import FolderStore
from service.maintenance.verify import CheckOutcome, verify
from service.models import ArtifactRow, ComparisonRow, ConfirmationRow
from service.schemas.series import SeriesName

pytestmark = pytest.mark.both_databases

Submit = Callable[..., dict[str, Any]]
TRACE = a_trace_file()
LOG = gzip.compress(b"all of it, to the end")


def database_of(client: TestClient) -> Database:
    database = client.app.state.database  # type: ignore[attr-defined]
    assert isinstance(database, Database)
    return database


def count(client: TestClient) -> int:
    with database_of(client).reading() as session:
        return len(session.scalars(select(ArtifactRow.result_id)).all())


@pytest.fixture
def done(hand: Hand, submit: Submit) -> tuple[Lease, str]:
    """An attempt whose result was taken, with a trace asked for."""
    submit("r1", trace=True)
    lease = hand.must_claim()
    return lease, str(hand.post(lease, result_of(lease)).json()["id"])


def test_a_trace_comes_back_as_it_went_and_the_result_says_so(
    client: TestClient, hand: Hand, done: tuple[Lease, str]
) -> None:
    lease, result = done
    before = client.get(f"/api/v1/results/{result}").json()["trace"]
    assert before["size_b"] is None
    assert "has not delivered it" in before["absent"]
    answer = hand.post_trace(lease, TRACE)
    assert (answer.status_code, answer.json()) == (201, {"result_id": result, "size_b": len(TRACE)})
    told = client.get(f"/api/v1/results/{result}").json()["trace"]
    assert (told["size_b"], told["absent"]) == (len(TRACE), "")
    given = client.get(f"/api/v1/results/{result}/trace")
    assert given.content == TRACE
    headers = given.headers
    assert headers["content-type"] == "application/gzip"
    assert headers["content-length"] == str(len(TRACE))
    assert headers["content-disposition"] == f'attachment; filename="trace-{result}.json.gz"'
    assert headers["x-content-type-options"] == "nosniff"
    assert "content-encoding" not in headers
    head = client.head(f"/api/v1/results/{result}/trace")
    assert (head.headers["content-length"], head.content) == (str(len(TRACE)), b"")


def test_a_trace_that_is_sent_again_is_kept_once(
    client: TestClient, hand: Hand, done: tuple[Lease, str]
) -> None:
    """The answer to the first may have been lost after the commit."""
    answers = [hand.post_trace(done[0], TRACE) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [201, 200, 200]
    assert len({answer.text for answer in answers}) == 1
    assert count(client) == 1


def test_another_trace_of_the_same_attempt_is_refused(
    client: TestClient, hand: Hand, done: tuple[Lease, str]
) -> None:
    lease, result = done
    hand.post_trace(lease, TRACE)
    other = hand.post_trace(lease, a_trace_file("another"))
    assert (other.status_code, other.json()["type"]) == (409, "conflict")
    assert client.get(f"/api/v1/results/{result}/trace").content == TRACE


def test_only_the_holder_of_an_attempt_with_a_result_adds_a_trace(
    client: TestClient, hand: Hand, submit: Submit, expire: Callable[[], Any]
) -> None:
    submit("r1", trace=True)
    early = hand.must_claim()
    hand.start(early)
    refused = [hand.post_trace(early, TRACE)]
    expire()
    refused.append(hand.post_trace(early, TRACE))
    second = hand.must_claim()
    assert hand.post(early, result_of(early)).status_code == 409, "too late, and kept"
    late = client.get("/api/v1/results").json()["items"][0]["id"]
    told = client.get(f"/api/v1/results/{late}").json()["trace"]
    assert told["absent"].startswith("The result came when its attempt was over")
    refused.append(hand.post_trace(early, TRACE))
    assert hand.post(second, result_of(second)).status_code == 201
    refused.append(hand.post_trace(early, TRACE))
    refused.append(hand.post_trace(second, TRACE, **{"Lease-Secret": "0" * 64}))
    assert [(one.status_code, one.json()["type"]) for one in refused] == [(409, "fenced")] * 5
    absent = second.model_copy(update={"attempt": 9})
    assert hand.post_trace(absent, TRACE).status_code == 404
    assert count(client) == 0
    assert hand.post_trace(second, TRACE).status_code == 201


def test_a_trace_that_nobody_asked_for_is_not_kept(
    client: TestClient, hand: Hand, submit: Submit
) -> None:
    submit("r1")
    lease = hand.must_claim()
    result = hand.post(lease, result_of(lease)).json()["id"]
    refused = hand.post_trace(lease, TRACE)
    assert (refused.status_code, refused.json()["type"]) == (409, "conflict")
    assert client.get(f"/api/v1/results/{result}").json()["trace"] is None
    missing = client.get(f"/api/v1/results/{result}/trace")
    assert (missing.status_code, missing.json()["type"]) == (404, "not-found")
    assert client.get(f"/api/v1/results/{'0' * 32}/trace").status_code == 404
    assert "profiler trace" not in client.get(f"/runs/{result}").text


def test_what_is_no_trace_is_refused_and_changes_nothing(
    client: TestClient, hand: Hand, done: tuple[Lease, str]
) -> None:
    """The corpus has more of them; here they would be kept if they were good."""
    others = (b"", b"{}", TRACE[:10], gzip.compress(b"[]"), gzip.compress(b" " * 2**20 + b"{}"))
    refused = [hand.post_trace(done[0], body) for body in others]
    refused.append(hand.post_trace(done[0], TRACE + b"\0" * LIMIT_B))
    assert [one.status_code for one in refused] == [422] * 5 + [413]
    assert {one.headers["content-type"] for one in refused} == {"application/problem+json"}
    assert count(client) == 0


def test_a_trace_has_a_content_type_of_its_own(
    client: TestClient, hand: Hand, done: tuple[Lease, str]
) -> None:
    for kind in ("application/json", "application/x-gzip", "text/plain", ""):
        refused = hand.post_trace(done[0], TRACE, **{"Content-Type": kind})
        assert (refused.status_code, refused.headers["accept"]) == (415, "application/gzip")
    headers = {"Content-Type": "application/gzip"}
    for path in ("/api/v1/jobs", "/api/v1/jobs/x/attempts/1/result"):
        answer = client.post(path, content=TRACE, headers=headers)
        assert answer.status_code == 415, path


def test_the_largest_trace_is_taken(
    client: TestClient, hand: Hand, done: tuple[Lease, str]
) -> None:
    largest = TRACE + b"\0" * (LIMIT_B - len(TRACE))
    assert hand.post_trace(done[0], largest).status_code == 201
    assert client.get(f"/api/v1/results/{done[1]}/trace").content == largest


def test_of_a_case_only_the_first_replicate_has_a_trace(client: TestClient, hand: Hand) -> None:
    body = {"case": {"workload": "unet"}, "revision": "r1", "replicates": 2, "trace": True}
    assert client.post("/api/v1/submissions", json=body).status_code == 201
    for answer in (201, 409):
        lease = hand.must_claim()
        result = hand.post(lease, result_of(lease, (100.0,))).json()["id"]
        assert hand.post_trace(lease, a_trace_file(lease.job_id)).status_code == answer
        told = client.get(f"/api/v1/results/{result}").json()["trace"]
        given = client.get(f"/api/v1/results/{result}/trace")
        if answer == 201:
            assert given.content == a_trace_file(lease.job_id)
            assert told["size_b"] == len(given.content)
        else:
            assert (given.status_code, told) == (404, None)
    assert "/trace" in client.get(f"/runs/{result}").text, "the page is of both"


def test_a_result_says_why_there_is_no_trace(
    client: TestClient, hand: Hand, submit: Submit
) -> None:
    submit("r1", trace=True)
    result = hand.measure(trace_absent="The profiler was not permitted here.")
    told = client.get(f"/api/v1/results/{result}").json()["trace"]
    assert told == {
        "size_b": None,
        "digest": None,
        "absent": "The profiler was not permitted here.",
    }
    page = client.get(f"/runs/{result}").text
    assert "There is no profiler trace of this run. The profiler was not permitted here." in page


def test_the_page_of_a_run_gives_the_trace_away_and_says_how_to_open_it(
    client: TestClient, hand: Hand, done: tuple[Lease, str]
) -> None:
    hand.post_trace(done[0], TRACE)
    page = client.get(f"/runs/{done[1]}").text
    assert f'href="/api/v1/results/{done[1]}/trace"' in page
    assert "ui.perfetto.dev" in page
    assert "There is no profiler trace" not in page


def test_who_asks_for_a_trace_asks_for_the_profile(hand: Hand, submit: Submit) -> None:
    asked: tuple[dict[str, Any], ...] = ({"trace": True}, {"protocol": {"trace": True}}, {})
    for number, one in enumerate(asked):
        submit(f"r{number}", **one)
    protocols = [hand.must_claim().spec.protocol for _ in asked]
    assert (
        [one.trace for one in protocols]
        == [one.profile for one in protocols]
        == [True, True, False]
    )
    assert protocols[0].timing_only().trace is False, "only of a job's first process"


def test_a_traced_result_stands_in_the_series_of_those_without(
    client: TestClient, hand: Hand, submit: Submit
) -> None:
    submit("r1")
    hand.measure()
    submit("r2", trace=True)
    hand.measure()
    listed = client.get("/api/v1/series").json()["items"]
    assert len(listed) == 1
    whole = client.get(f"/api/v1/series/{listed[0]['id']}").json()
    assert [point["revision"] for point in whole["points"]] == ["r1", "r2"]


def test_what_confirms_a_traced_result_keeps_no_trace(
    client: TestClient, hand: Hand, submit: Submit
) -> None:
    submit("r0")
    submit("r1", trace=True)
    hand.measure()
    result = hand.measure()
    suspicious = ConfirmationRow(
        id="c", last_good="r0", first_bad="r1", first_bad_result=result, before=1.0, after=0.9
    )
    series = SeriesName("s", Case(workload="resnet50"), "throughput", "", Direction.HIGHER, {})
    with database_of(client).writing() as session:
        made = ask(session, suspicious, series, hand.name, now_of(session))
        asked = session.get_one(ComparisonRow, made).request["protocol"]
    assert (asked["trace"], asked["profile"]) == (False, True)


def test_a_failed_measurement_may_have_a_trace(
    client: TestClient, hand: Hand, submit: Submit
) -> None:
    submit("r1", trace=True)
    lease = hand.must_claim()
    failed: Result = result_of(lease, status=Status.CRASHED)
    result = hand.post(lease, failed).json()["id"]
    assert hand.post_trace(lease, TRACE).status_code == 201
    assert client.get(f"/api/v1/results/{result}/trace").content == TRACE


def test_the_database_keeps_a_trace_as_it_is_and_verify_reads_it(
    client: TestClient, hand: Hand, done: tuple[Lease, str]
) -> None:
    hand.post_trace(done[0], TRACE)
    database = database_of(client)
    artifacts: FolderStore = client.app.state.artifacts  # type: ignore[attr-defined]
    report = verify(database, artifacts)
    assert report.findings[1].outcome is CheckOutcome.HELD
    assert not report.warnings
    with pytest.raises(DBAPIError, match="stays as it is"), database.writing() as session:
        session.execute(text("UPDATE artifacts SET size_b = 0"))
    with database.writing() as session:
        guard = "" if database.kind == "sqlite" else " ON artifacts"
        session.execute(text(f"DROP TRIGGER guard_artifacts_update{guard}"))
        session.execute(text("UPDATE artifacts SET size_b = 1"))
    report = verify(database, artifacts)
    assert "guard_artifacts_update on artifacts: It is not there" in report.findings[11].sentence
    assert report.findings[1].outcome is CheckOutcome.BROKEN
    assert "digest or size differs" in report.findings[1].sentence
    with database.writing() as session:
        session.execute(text("UPDATE artifacts SET digest = 'x'"))
    report = verify(database, artifacts)
    assert "It is not among the artifacts" in report.findings[1].sentence


def test_the_whole_log_of_a_failure_is_kept_beside_its_trace(
    client: TestClient, hand: Hand, submit: Submit
) -> None:
    submit("r1", trace=True)
    lease = hand.must_claim()
    assert hand.post_log(lease, LOG).status_code == 409, "no result yet"
    failed = result_of(lease, status=Status.RUNTIME_ERROR, reason="It broke.", log_tail="the end")
    result = hand.post(lease, failed).json()["id"]
    assert client.get(f"/api/v1/results/{result}").json()["log_size_b"] is None
    missing = client.get(f"/api/v1/results/{result}/log")
    assert (missing.status_code, "only" in missing.text) == (404, False)
    assert "has no log but the end of it" in missing.json()["detail"]
    assert hand.post_log(lease, b"plain").status_code == 422
    posted = [hand.post_log(lease, LOG).status_code for _ in range(2)]
    other = hand.post_log(lease, gzip.compress(b"another"))
    assert (posted, other.status_code) == ([201, 200], 409)
    assert hand.post_trace(lease, TRACE).status_code == 201
    given = client.get(f"/api/v1/results/{result}/log")
    assert given.content == LOG
    name = f'attachment; filename="log-{result}.txt.gz"'
    assert given.headers["content-disposition"] == name
    assert client.get(f"/api/v1/results/{result}/trace").content == TRACE
    assert client.get(f"/api/v1/results/{result}").json()["log_size_b"] == len(LOG)
    assert f"/api/v1/results/{result}/log" in client.get(f"/runs/{result}").text


def test_a_result_without_a_trace_may_have_a_log(
    client: TestClient, hand: Hand, submit: Submit
) -> None:
    submit("r1")
    lease = hand.must_claim()
    hand.post(lease, result_of(lease))
    assert hand.post_log(lease, LOG).status_code == 201
