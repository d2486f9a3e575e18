"""Every page and every answer costs what a reader may pay, whatever a child printed.

Two histories lie beside each other: of plain results, and of results as large as intake allows in
every direction. Each address is asked for in the large one; where that takes long, in the plain one
too, and what both cost is compared.
"""

from __future__ import annotations

import gzip
import re
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from builders.largest import PROCESSES, largest, plain, replicates
from builders.measured import a_pass, a_replicate
from builders.service_hand import Hand, result_of
from builders.traces import a_trace_file
from fastapi.testclient import TestClient

from benchmarks.contracts import Lease, Result, Trace
from benchmarks.contracts.bounds import BESIDE_TRACES_B, TRACE_VALUES
from service import comparisons
from service.auth.permissions import Permission
from service.comparisons import bisection
from service.database.session import Database
from service.findings import pipeline
from service.jobs import attempts

API = "/api/v1"
BEGUN = {
    "unet": datetime(2025, 1, 1, tzinfo=UTC),
    "resnet50": datetime(2026, 1, 1, tzinfo=UTC),
}
"""When each workload's first revision was made: far apart, so that each has a finding."""
STEADY, DROPPED, LARGE = 14, 6, 2
"""Results before and after a change of level, and how many of each side next to it are large."""
SLOWER = 150
"""Times as long as of plain results that an answer may take: these have a thousandth of the values.
A page of 2,000,000 zeros, packed small and fifty times, took more than 2,000 times as long."""
LEAST_S = 0.02
"""What a plain answer is taken to cost at least: two of them, on a busy machine, are luck."""
PAGE_B = 6 * 2**20
DOCUMENT_B = 6 * TRACE_VALUES + 2 * BESIDE_TRACES_B
"""Of the answers that give a whole result back."""
MEMORY_B = 160 * 2**20
"""Beyond what the process had, at most."""
WHOLE = {f"{API}/results/{{result_id}}"}
NOT_WALKED = {
    "/assets/{digest}/{name}",
    "/sign-in",
    *(f"{API}/{path}" for path in ("health", "catalog", "openapi.json")),
}
"""What is the same whatever was measured; administrators' lists hold nothing that a child says."""
LATER = {"finding_id", "comparison_id", "bisection_id"}
IN_TIME = "since=2026-11-01&until=2026-12-01"
SIDES = (
    "by=worker&baseline=w1&contender=w2",
    "by=environment&baseline=sw.torch%3D2.13&contender=sw.torch%3D2.14",
    "by=setting&baseline=precision%3Dfp32&contender=precision%3Dbf16",
    "by=date&baseline=2026-11-20&contender=2026-11-21",
)
"""What the history is compared by; all was measured on one worker and day."""
Make = Callable[[Lease, float, int], Result]


@dataclass(frozen=True)
class History:
    """One workload's results, and a thing of each kind that came of them."""

    workload: str
    ids: dict[str, str]

    def addresses(self, template: str) -> list[str]:
        queries = {
            "/explore": "?series={series_id}&point={series_id}.{result_id}",
            "/explore/figure": "?series={series_id}&x=order&panels=true",
            "/explore/points.csv": "?series={series_id}",
            "/compare": "?baseline={first}&contender={last}",
            "/compare/modules": "?baseline={result_id}&contender={result_id}",
            "/compare/kernels": "?baseline={result_id}&contender={result_id}",
            "/": "?metric=throughput",
            "/live": "?wait_s=0",
            f"{API}/changes": "?baseline={first}&contender={last}",
            f"{API}/series": "?limit=500",
            f"{API}/results": "?limit=500",
            f"{API}/findings": "?limit=500",
        }
        path = template.replace("{revision:path}", "{last}").replace("{worker}", "w1")
        asked = [queries.get(template, "")]
        if template == "/compare":
            asked += [f"?workload={self.workload}&{IN_TIME}&{sides}" for sides in SIDES]
        return [(path + query).format(**self.ids) for query in asked]


def database_of(client: TestClient) -> Database:
    database = client.app.state.database  # type: ignore[attr-defined]
    assert isinstance(database, Database)
    return database


def history(client: TestClient, hand: Hand, workload: str, make: Make, first: int = 0) -> History:
    """Measure a workload that became slower, from some revision on, and read of its things."""
    ids: dict[str, str] = {}
    for number in range(first, STEADY + DROPPED):
        near = abs(number - STEADY + 0.5) < LARGE
        value = 100.0 * (0.85 if number >= STEADY else 1.0) * (1 + 0.001 * (number % 3))
        body = {
            "case": {"workload": workload},
            "revision": f"{workload}-{number:02}",
            "revision_at": (BEGUN[workload] + timedelta(days=number)).isoformat(),
            "trace": True,
        }
        ids |= measured(client, hand, body, (make if near else plain), value, number)
    series = client.get(f"{API}/series?workload={workload}&metric=throughput").json()["items"]
    ids |= {"series_id": series[0]["id"], "first": f"{workload}-{first:02}"}
    ids |= {"last": body["revision"]}
    ids["name"], ids["night"] = f"{workload}-nightly", f"{datetime.now(UTC):%Y-%m-%d}"
    schedule = {"cron": "0 2 * * *", "suite": "smoke", "revision_rule": "date"}
    assert client.put(f"{API}/schedules/{ids['name']}", json=schedule).status_code == 200
    return History(workload, ids)


def judged(client: TestClient, hand: Hand, both: dict[Make, History]) -> None:
    """Compare and bisect two revisions of each workload, and analyse the histories."""
    for make, of in both.items():
        of.ids["comparison_id"] = compared(client, hand, of.workload, make)
        of.ids["bisection_id"] = bisected(client, hand, of.workload, make)
    assert pipeline.look(database_of(client), daily=0).opened
    for found in client.get(f"{API}/findings").json()["items"]:
        own = next(one for one in both.values() if found["first_bad"].startswith(one.workload))
        own.ids["finding_id"] = found["id"]


def measured(
    client: TestClient, hand: Hand, body: dict[str, Any], make: Make, value: float, number: int
) -> dict[str, str]:
    answer = client.post(f"{API}/submissions", json=body)
    assert answer.status_code == 201, answer.text
    lease = hand.must_claim()
    posted = send(hand, lease, make(lease, value, number))
    if number != STEADY:
        return {}
    assert hand.post_trace(lease, a_trace_file()).status_code == 201
    assert hand.post_log(lease, gzip.compress(b"a log")).status_code == 201
    stored = client.get(f"{API}/results?revision={body['revision']}").json()["items"][0]
    whole = client.get(f"{API}/results/{stored['id']}").json()
    return {
        "submission_id": answer.json()["id"],
        "job_id": lease.job_id,
        "result_id": posted,
        "digest": whole["environment"],
    }


def send(hand: Hand, lease: Lease, result: Result) -> str:
    """Post a result as a worker does: as the bytes that it spooled."""
    answer = post(hand, lease, result)
    assert answer.status_code == 201, answer.text[:500]
    return str(answer.json()["id"])


def post(hand: Hand, lease: Lease, result: Result) -> Any:
    where = f"{API}/jobs/{lease.job_id}/attempts/{lease.attempt}/result"
    head = {"Lease-Secret": lease.secret, "Content-Type": "application/json"}
    return hand.client.post(where, content=result.model_dump_json(), headers=head)


def compared(client: TestClient, hand: Hand, workload: str, make: Make) -> str:
    """Compare two revisions, of which one is slower, until it is decided."""
    asked = {"baseline": "old", "contender": "new", "case": {"workload": workload}, "duet": False}
    protocol = {"replicates": 1}
    answer = client.post(f"{API}/comparisons", json=asked | {"protocol": protocol})
    assert answer.status_code == 201, answer.text
    assert paired(client, hand, make) > 2
    return str(answer.json()["id"])


def bisected(client: TestClient, hand: Hand, workload: str, make: Make) -> str:
    """Bisect a range of two commits, of which the second is slower."""
    commits = [{"revision": name} for name in ("old", "middle", "new")]
    body = {"commits": commits, "case": {"workload": workload}}
    answer = client.post(f"{API}/bisections", json=body)
    assert answer.status_code == 201, answer.text
    assert paired(client, hand, make) > 2
    return str(answer.json()["id"])


def paired(client: TestClient, hand: Hand, make: Make) -> int:
    """Measure both sides of what is compared until nothing is asked; give how many jobs."""
    count = 0
    while (lease := hand.claim()) is not None:
        assert hand.start(lease).status_code == 204
        value = (85.0 if lease.spec.revision == "new" else 100.0) * (1 + 0.001 * (count % 3))
        told = make(lease, value, count).model_copy(update={"rejected": ()})
        facts = {"environment": told.environment.model_copy(update={"facts": _facts(told)})}
        one = told.replicates[0]
        side = told.model_copy(update=facts | {"replicates": (one,)})
        other = side if lease.spec.duet else None
        send(hand, lease, side.model_copy(update={"baseline": other}))
        list(comparisons.advance_after(database_of(client), ""))
        list(bisection.advance_after(database_of(client)))
        count += 1
    return count


def _facts(told: Result) -> dict[str, str]:
    """Of one GPU, for a gate compares on nothing else."""
    return dict(list(told.environment.facts.items())[:50]) | {"hw.host": "n1"}


@dataclass(frozen=True)
class Cost:
    """What an answer costs."""

    took_s: float
    size_b: int


def cost(client: TestClient, address: str, times: int = 1) -> Cost:
    """The best of some times, and bytes."""
    took_s = []
    for _ in range(times):
        began_s = time.perf_counter()
        answer = client.get(address)
        took_s.append(time.perf_counter() - began_s)
        assert answer.status_code == 200, f"{address}: {answer.text[:500]}"
        assert "by=" not in address or "Nothing to compare" not in answer.text, address
    return Cost(min(took_s), len(answer.content))


def peak_b(client: TestClient, address: str) -> int:
    """Most memory that an answer takes; it is slower for being watched."""
    tracemalloc.start()
    try:
        client.get(address)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def templates(client: TestClient) -> Iterator[str]:
    for route, permission in client.app.state.permissions.items():  # type: ignore[attr-defined]
        method, _, path = route.partition(" ")
        if method == "GET" and permission in (Permission.READ, Permission.OPEN):
            yield path


@pytest.mark.slow
def test_every_page_and_answer_has_a_bound_whatever_a_child_printed(
    client: TestClient, hand: Hand
) -> None:
    both = {
        plain: history(client, hand, "unet", plain),
        largest: history(client, hand, "resnet50", largest),
    }
    judged(client, hand, both)
    walk(client, [*both.values()], {*templates(client)} - NOT_WALKED)


def test_every_page_of_a_measurement_has_a_bound_whatever_a_child_printed(
    client: TestClient, hand: Hand
) -> None:
    """Without those of findings, comparisons and bisections."""
    both = [
        history(client, hand, "unet", plain, first=STEADY),
        history(client, hand, "resnet50", largest, first=STEADY),
    ]
    known = {*templates(client)} - NOT_WALKED - {"/compare"}
    walk(
        client, both, {one for one in known if not LATER.intersection(re.findall(r"{(\w+)}", one))}
    )


def walk(client: TestClient, both: list[History], asked: set[str]) -> None:
    """Ask for each page of the second history; what takes long is asked of the first one too."""
    wrong = []
    for template in sorted(asked):
        most_b = DOCUMENT_B if template in WHOLE else PAGE_B
        for plainly, largely in zip(*(one.addresses(template) for one in both), strict=True):
            much, most_held_b = cost(client, largely), peak_b(client, largely)
            told = f"{largely}: {much}, {most_held_b} B held"
            if much.size_b > most_b or most_held_b > MEMORY_B:
                wrong.append(f"too large: {told}")
            if much.took_s > SLOWER * LEAST_S:
                little, again = cost(client, plainly, times=2), cost(client, largely)
                if min(much.took_s, again.took_s) > SLOWER * max(little.took_s, LEAST_S):
                    wrong.append(f"too slow: {told}, against {little}")
    assert not wrong, "\n".join(wrong)
    assert len(asked) > 30


@pytest.fixture
def unbounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Intake as it was before there was a bound."""
    monkeypatch.setattr(attempts, "check_size", lambda *_: None)


def zeros(lease: Lease) -> Result:
    """The result of the attack: small as it is sent, and 3 GiB as it is read."""
    trace = Trace.of([0.0] * 2_000_000)
    names = ("step", "stall", "copy", "work")
    timed = a_pass(0.1).model_copy(update={f"{name}_trace": trace for name in names})
    return result_of(lease, replicates=(a_replicate(timed, timed),) * PROCESSES)


def leased(client: TestClient, hand: Hand) -> Lease:
    body = {"case": {"workload": "unet"}, "revision": "r1"}
    assert client.post(f"{API}/submissions", json=body).status_code == 201
    return hand.must_claim()


def test_a_result_that_unpacks_to_gigabytes_is_refused_with_the_bound(
    client: TestClient, hand: Hand
) -> None:
    lease = leased(client, hand)
    answer = post(hand, lease, zeros(lease))
    assert answer.status_code == 422
    assert "800,000,000 values, and 2,000,000 are allowed" in answer.json()["detail"]
    assert client.get(f"{API}/results").json()["items"] == []
    assert send(hand, lease, largest(lease))


@pytest.mark.usefixtures("unbounded")
def test_the_page_of_one_that_was_taken_before_there_was_a_bound_is_cheap_and_says_so(
    client: TestClient, hand: Hand
) -> None:
    lease = leased(client, hand)
    stored = send(hand, lease, zeros(lease))
    paid = cost(client, f"/runs/{stored}")
    assert peak_b(client, f"/runs/{stored}") < MEMORY_B
    assert paid.size_b < PAGE_B
    assert paid.took_s < 30
    assert "more values than a page draws" in client.get(f"/runs/{stored}").text


def test_replicates_that_are_too_much_together_are_read_all_the_same(
    client: TestClient, hand: Hand
) -> None:
    """Each has as many flags as a result may have; put together they have twice as many."""
    body = {"case": {"workload": "unet"}, "revision": "r0", "replicates": 2}
    client.post(f"{API}/submissions", json=body)
    for number in range(2):
        lease = hand.must_claim()
        flags = tuple(f"replicate{number}.flag{n}" for n in range(100))
        send(hand, lease, result_of(lease, (100.0,), flags=flags))
    for one in client.get(f"{API}/results").json()["items"]:
        assert client.get(f"{API}/results/{one['id']}").status_code == 200
        page = client.get(f"/runs/{one['id']}")
        assert page.status_code == 200
        assert "replicate0.flag99" in page.text
        assert "replicate1.flag99" in page.text


@pytest.mark.slow
def test_the_page_of_fifty_replicates_is_no_dearer_than_that_of_one_result(
    client: TestClient, hand: Hand
) -> None:
    """Each may have a fiftieth of what a result by itself may have."""
    body = {"case": {"workload": "unet"}, "revision": "r1", "replicates": PROCESSES}
    client.post(f"{API}/submissions", json=body)
    for one in replicates():
        lease = hand.must_claim()
        timed = one.model_copy(update={"profile": None, "compilation": None})
        stored = send(hand, lease, result_of(lease, (100.0,), replicates=(timed,)))
    paid = cost(client, f"/runs/{stored}")
    assert peak_b(client, f"/runs/{stored}") < MEMORY_B
    assert paid.size_b < PAGE_B
