"""Whatever is refused is a problem document, repeats nothing that was sent, and changes nothing."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from builders.measured import a_pass, a_replicate
from builders.service_hand import Hand, result_of
from fastapi.testclient import TestClient
from sqlalchemy import text

from benchmarks.contracts import Trace
from benchmarks.contracts.bounds import FACTS_B
from service.models import Base

pytestmark = pytest.mark.both_databases

CASE = {"workload": "resnet50"}
SECRET = "0" * 64
NOBODYS = "0" * 32
HEADERS = {"Lease-Secret": SECRET}
CANARY = "canary-that-was-sent"

PAIR = {"baseline": "a", "contender": "b", "case": CASE}

REFUSED: list[tuple[int, str, str, str, Any]] = [
    (404, "not-found", "GET", "/nothing", None),
    (405, "method-not-allowed", "PATCH", "/jobs", None),
    (404, "not-found", "GET", f"/jobs/{NOBODYS}", None),
    (404, "not-found", "POST", f"/jobs/{NOBODYS}/cancel", None),
    (404, "not-found", "GET", f"/submissions/{NOBODYS}", None),
    (404, "not-found", "GET", f"/submissions/{NOBODYS}/report", None),
    (404, "not-found", "GET", f"/results/{NOBODYS}", None),
    (404, "not-found", "GET", f"/series/{NOBODYS}", None),
    (404, "not-found", "GET", f"/series/{NOBODYS}/points", None),
    (404, "not-found", "GET", f"/environments/{SECRET}", None),
    (404, "not-found", "GET", "/schedules/x", None),
    (404, "not-found", "DELETE", "/schedules/x", None),
    (404, "not-found", "POST", "/schedules/x/fire", None),
    (404, "not-found", "DELETE", f"/thresholds/{NOBODYS}", None),
    (409, "fenced", "POST", f"/jobs/{NOBODYS}/attempts/1/start", None),
    (409, "fenced", "POST", f"/jobs/{NOBODYS}/attempts/1/heartbeat", {}),
    (422, "invalid", "POST", f"/jobs/{NOBODYS}/attempts/1/result", {}),
    (422, "invalid", "POST", f"/jobs/{NOBODYS}/attempts/99999999999999/start", None),
    (400, "bad-request", "GET", "/jobs/%00", None),
    *(
        (422, "invalid", "GET", f"/{noun}/{odd}", None)
        for noun in ("jobs", "submissions", "results", "series", "comparisons", "findings")
        for odd in ("x", "0" * 31, "0" * 33, "A" * 32, f"{NOBODYS}%0a")
    ),
    (422, "invalid", "GET", "/environments/x", None),
    (422, "invalid", "POST", "/tokens/x/revoke", None),
    (422, "invalid", "GET", "/findings?series=x", None),
    (422, "invalid", "GET", "/jobs?cursor=AAAA", None),
    (422, "invalid", "GET", "/series?cursor=bm90anNvbg", None),
    (422, "invalid", "GET", "/jobs?limit=100000", None),
    (422, "invalid", "GET", "/jobs?state=lost", None),
    (422, "invalid", "GET", "/jobs?state=expired", None),
    (422, "invalid", "POST", "/submissions", {"revision": "r"}),
    (422, "invalid", "POST", "/submissions", {"revision": "r", "case": CASE, "suite": "smoke"}),
    (422, "invalid", "POST", "/submissions", {"revision": "r", "case": CASE, CANARY: 1}),
    (422, "invalid", "POST", "/submissions", {"revision": f"{CANARY}\n", "case": CASE}),
    (422, "invalid", "POST", "/submissions", {"revision": "", "case": CASE}),
    (422, "invalid", "POST", "/submissions", {"revision": "r", "case": CASE, "priority": 1000}),
    (422, "invalid", "POST", "/submissions", {"revision": "r", "case": CASE, "rerun_of": "x"}),
    (422, "invalid", "POST", "/submissions", {"revision": "r", "case": CASE, "rerun_of": NOBODYS}),
    (422, "invalid", "POST", "/submissions", {"revision": "r", "case": CASE, "replicates": 0}),
    (422, "invalid", "POST", "/submissions", {"revision": "r", "case": CASE, "replicates": 51}),
    (
        *(422, "invalid", "POST", "/submissions"),
        {"revision": "r", "cases": [CASE] * 41, "replicates": 50},  # more than 2,000 jobs
    ),
    (422, "invalid", "POST", "/submissions", {"revision": "r", "case": CASE, "replicates": "3"}),
    (422, "invalid", "POST", "/submissions", {"revision": "r", "case": CASE, "replicates": True}),
    (
        *(422, "invalid", "POST", "/submissions"),
        {"revision": "r", "case": CASE, "revision_at": "2026-01-01T00:00:00"},
    ),
    (
        *(422, "invalid", "POST", "/submissions"),
        {"revision": "r", "case": CASE, "revision_at": "0001-01-01T00:00:00+14:00"},
    ),
    (422, "unknown-name", "POST", "/submissions", {"revision": "r", "suite": "no-such"}),
    (422, "unknown-name", "POST", "/submissions", {"revision": "r", "case": {"workload": "vgg"}}),
    (
        *(422, "unknown-name", "POST", "/submissions"),
        {"revision": "r", "case": CASE | {"preset": "huge"}},
    ),
    (
        *(422, "unknown-name", "POST", "/submissions"),
        {"revision": "r", "case": CASE | {"axes": {"colour": "red"}}},
    ),
    (
        *(422, "unknown-name", "POST", "/submissions"),
        {"revision": "r", "case": CASE | {"axes": {"precision": "fp7"}}},
    ),
    (
        *(422, "impossible-combination", "POST", "/submissions"),
        {"revision": "r", "case": {"workload": "nanogpt", "axes": {"layout": "channels_last"}}},
    ),
    (
        *(422, "impossible-combination", "POST", "/jobs"),
        {
            "revision": "r",
            "requires": {"device": "cpu"},
            "case": CASE | {"axes": {"precision": "fp16"}},
        },
    ),
    (422, "invalid", "POST", "/jobs", {"revision": "r", "case": CASE, "suite": "smoke"}),
    (422, "invalid", "POST", "/jobs", {"revision": "r", "case": CASE, "duet": {"baseline": "b"}}),
    (422, "invalid", "PUT", "/workers/a", {"name": "b"}),
    (422, "invalid", "PUT", "/workers/UPPER", {"name": "UPPER"}),
    (422, "invalid", "POST", "/leases", {"worker": "w", "claim_id": "short"}),
    (404, "not-found", "POST", "/leases", {"worker": "w", "claim_id": "a" * 32}),
    (422, "invalid", "PUT", "/schedules/s", {"cron": "nonsense", "suite": "smoke"}),
    (422, "invalid", "PUT", "/schedules/s", {"cron": "0 0 31 2 *", "suite": "smoke"}),
    (422, "invalid", "PUT", "/schedules/s", {"cron": "0 0 2 * * *", "suite": "smoke"}),
    (
        *(422, "invalid", "PUT", "/schedules/s"),
        {"cron": "0 2 * * *", "suite": "smoke", "timezone": "Europe/Atlantis"},
    ),
    (
        *(422, "invalid", "PUT", "/schedules/s"),
        {"cron": "0 2 * * *", "suite": "smoke", "timezone": "America"},
    ),
    (422, "unknown-name", "PUT", "/schedules/s", {"cron": "0 2 * * *", "suite": "no-such"}),
    *(
        (422, "invalid", "POST", "/comparisons", PAIR | more)
        for more in (
            {"budget_s": "900"},
            {"budget_s": True},
            {"timeout_s": "900"},
            {"priority": "10"},
            {"priority": 10.0},
            {"priority": True},
            {"policy": {"false_alarm": "0.01"}},
            {"policy": {"false_pass": "0.01"}},
        )
    ),
    (422, "invalid", "POST", "/enrolments", {"expires_in_s": "3600"}),
    (422, "invalid", "POST", "/tokens", {"kind": "read", "name": "n", "expires_in_s": "3600"}),
    (422, "unknown-name", "GET", "/changes?baseline=a&contender=b&suite=no-such", None),
    (422, "unknown-name", "GET", "/changes?baseline=never&contender=seen", None),
]


@pytest.mark.parametrize(
    ("method", "path", "body", "told"),
    [
        ("POST", "/submissions", {"revision": "é", "suite": "smoke"}, "revision: must be 1 to 100"),
        (
            *("POST", "/submissions"),
            {"revision": "r", "suite": "smoke", "only": [""]},
            "only.0: must be 1 to 64 of the characters a-z",
        ),
        (
            "GET",
            "/jobs/x",
            None,
            "path.job_id: must be an id: 32 hexadecimal digits, in lower case",
        ),
        ("GET", "/jobs?revision=é", None, "query.revision: must be 1 to 100"),
        *(
            ("PUT", f"/schedules/{name}", {"cron": "0 2 * * *", "suite": "smoke", **more}, told)
            for name, more, told in (
                ("UPPER", {}, "path.name: must be 1 to 64"),
                ("s", {"timezone": "Zürich"}, "timezone: must be the IANA name of a time zone"),
                ("s", {"cron": "é"}, "cron: must be five fields"),
                ("s", {"revision_rule": "newest"}, "'date', 'latest' or 'fixed:'"),
            )
        ),
    ],
)
def test_a_refusal_says_in_words_what_a_text_must_be(
    client: TestClient, method: str, path: str, body: Any, told: str
) -> None:
    answer = client.request(method, f"/api/v1{path}", json=body)
    assert answer.status_code == 422
    assert told in answer.json()["detail"]
    assert "pattern" not in answer.text


def everything(client: TestClient) -> dict[str, list[Any]]:
    """Every row of every table."""
    with client.app.state.database.reading() as session:  # type: ignore[attr-defined]
        return {
            table: sorted(map(str, session.execute(text(f"SELECT * FROM {table}")).all()))
            for table in Base.metadata.tables
        }


def test_every_refusal_is_a_problem_and_changes_nothing(client: TestClient) -> None:
    before = everything(client)
    for status, kind, method, path, body in REFUSED:
        answer = client.request(method, f"/api/v1{path}", json=body, headers=HEADERS)
        said = f"{method} {path} {body}: {answer.status_code} {answer.text}"
        assert answer.status_code == status, said
        assert answer.headers["content-type"] == "application/problem+json", said
        problem = answer.json()
        assert (problem["type"], problem["status"]) == (kind, status), said
        assert problem["title"], said
        assert problem["detail"], said
    assert everything(client) == before


def test_a_refused_value_is_not_repeated(client: TestClient) -> None:
    body = {"revision": f"{CANARY}\n", "case": {"workload": f"{CANARY} x", "axes": 7}}
    answer = client.post("/api/v1/submissions", json=body)
    assert answer.status_code == 422
    assert CANARY not in answer.text
    assert {tuple(sorted(fault)) for fault in answer.json()["errors"]} == {("loc", "msg", "type")}


@pytest.mark.parametrize(
    "body",
    [
        b'{"revision": "r", "case": {"workload": "resnet50"}, "timeout_s": NaN}',
        b'{"revision": "r", "case": {"workload": "resnet50"}, "timeout_s": 1e999}',
        b'{"revision": "r", "case": {"workload": "resnet50"}, "\\ud800": 1}',
        b'{"revision": "\\ud800", "case": {"workload": "resnet50"}}',
        b'{"revision": "r\\u0000", "case": {"workload": "resnet50"}}',
        b'{"revision": "r"',
        b"\xff\xfe",
        b"",
        b"[" * 50_000,
    ],
)
def test_hostile_json_is_a_problem_and_no_fault(client: TestClient, body: bytes) -> None:
    answer = client.post(
        "/api/v1/submissions", content=body, headers={"content-type": "application/json"}
    )
    assert answer.status_code in (400, 422), answer.text
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_body_that_is_too_large_is_refused_however_it_is_sent(client: TestClient) -> None:
    block = b" " * 2**20

    def stream() -> Any:
        for _ in range(17):
            yield block

    headers = {"content-type": "application/json"}
    for content in (block * 17, stream()):
        answer = client.post("/api/v1/submissions", content=content, headers=headers)
        assert (answer.status_code, answer.json()["type"]) == (413, "too-large")


def test_a_result_of_nearly_the_limit_is_taken(
    client: TestClient, hand: Hand, submit: Callable[..., Any]
) -> None:
    submit()
    lease = hand.must_claim()
    facts = {f"sw.{number:04d}": "x" * (FACTS_B // 2_000 - 7) for number in range(2_000)}
    assert hand.post(lease, result_of(lease, facts=facts)).status_code == 201


def test_a_result_whose_facts_are_too_long_together_is_refused_in_one_sentence(
    client: TestClient, hand: Hand, submit: Callable[..., Any]
) -> None:
    submit()
    lease = hand.must_claim()
    facts = {f"sw.{number:04d}": "x" * 500 for number in range(2_000)}
    answer = hand.post(lease, result_of(lease, facts=facts))
    assert answer.status_code == 422
    assert f"bytes of facts, and {FACTS_B:,} are allowed" in answer.json()["detail"]


def test_a_result_may_be_larger_than_any_other_body(
    client: TestClient, hand: Hand, submit: Callable[..., Any]
) -> None:
    submit()
    lease = hand.must_claim()
    draw = random.Random(0).random
    steps = Trace.of(draw() for _ in range(1_900_000))
    long = a_pass(0.1).model_copy(update={"step_trace": steps})
    result = result_of(lease, replicates=(a_replicate(long, a_pass(0.1)),))
    assert len(result.model_dump_json()) > 8 * 2**20
    assert hand.post(lease, result).status_code == 201


def test_a_result_has_a_limit_too(client: TestClient) -> None:
    path, headers = "/api/v1/jobs/x/attempts/1/result", {"content-type": "application/json"}
    answer = client.post(path, content=b" " * (65 * 2**20), headers=headers)
    assert (answer.status_code, answer.json()["type"]) == (413, "too-large")
