"""Cases whose newest measurement failed: since when, on which workers, and when that is over."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from builders.service_hand import FACTS, Hand
from fastapi.testclient import TestClient

from benchmarks.contracts import Status
from service.history.failing import FailingCase, failing_cases

pytestmark = pytest.mark.both_databases
NOW = datetime.now(UTC).replace(microsecond=0)
OK, WRONG, OOM = Status.OK, Status.PARITY_FAIL, Status.OOM
Measure = Callable[..., str]


@pytest.fixture
def measure(client: TestClient, hand: Hand) -> Measure:
    """Measure one case, so many days ago, at a revision of that day or of another one."""
    hands = {hand.name: hand}

    def measured(
        days: float, status: Status, worker: str = hand.name, of: int | None = None, **more: object
    ) -> str:
        if worker not in hands:
            hands[worker] = Hand(client, name=worker)
            hands[worker].introduce()
        at, made = NOW - timedelta(days=days), int(days) if of is None else of
        body = {
            "case": {"workload": "resnet50"},
            "revision": f"d{made}",
            "revision_at": (NOW - timedelta(days=made)).isoformat(),
            "requires": {"worker": worker},
        }
        answer = client.post("/api/v1/submissions", json=body)
        assert answer.status_code == 201, answer.text
        return hands[worker].measure((9.0, 10.0, 11.0), status=status, measured_at=at, **more)

    return measured


def failing(client: TestClient) -> list[FailingCase]:
    with client.app.state.database.reading() as session:  # type: ignore[attr-defined]
        return list(failing_cases(session, NOW).values())


def test_a_case_fails_since_the_first_failure_after_it_was_measured_well(
    client: TestClient, measure: Measure
) -> None:
    measure(9, WRONG)
    measure(5, OK)
    measure(3, WRONG)
    newest = measure(2, OOM)
    (one,) = failing(client)
    assert (one.first.revision, one.revisions) == ("d3", 2)
    assert (one.newest.result_id, one.newest.status) == (newest, OOM)
    assert one.series_id in {
        series["id"] for series in client.get("/api/v1/series?metric=throughput").json()["items"]
    }
    measure(1, OK)
    assert failing(client) == []


def test_a_revision_that_is_measured_well_later_fails_no_more(
    client: TestClient, measure: Measure
) -> None:
    measure(2, WRONG)
    measure(1, OK, of=4)  # an older revision, which says nothing of the newer one
    assert len(failing(client)) == 1
    measure(1, OK, of=2)
    assert failing(client) == []


def test_what_fails_on_one_worker_is_told_until_others_go_on_without_it(
    client: TestClient, measure: Measure
) -> None:
    for worker in ("a", "b"):
        measure(3, OK, worker)
    measure(2, OOM, "a")
    measure(2, OK, "b")
    (one,) = failing(client)
    assert one.workers == ("a",)
    measure(1, OK, "b")
    assert failing(client) == []


def test_other_hardware_is_another_case(client: TestClient, measure: Measure) -> None:
    measure(2, WRONG)
    measure(1, OK, facts=FACTS | {"hw.cpu.model": "Another CPU"})
    assert len(failing(client)) == 1


@pytest.mark.parametrize("why", ["taken_out", "long_ago", "never_supported"])
def test_what_is_no_failure_of_now_is_not_told(
    client: TestClient, measure: Measure, why: str
) -> None:
    status = Status.UNSUPPORTED if why == "never_supported" else WRONG
    result = measure(8 if why == "long_ago" else 1, status)
    if why == "taken_out":
        said = {"reason": "The reference was wrong.", "actor": "ada"}
        assert client.put(f"/api/v1/results/{result}/exclusion", json=said).is_success
    assert failing(client) == []


def test_what_was_supported_once_is_told(client: TestClient, measure: Measure) -> None:
    measure(2, OK)
    measure(1, Status.UNSUPPORTED)
    assert len(failing(client)) == 1


def test_pages_mark_a_value_that_is_older_than_a_failure(
    client: TestClient, measure: Measure
) -> None:
    measure(3, OK)
    measure(2, WRONG)
    newest = measure(1, WRONG)
    (one,) = failing(client)
    for path in ("/", "/cases", "/cases?show=failing", f"/series/{one.series_id}"):
        text = client.get(path).text
        assert f'<a href="/runs/{newest}"' in text, path
        assert "2 revisions in a row" in text
    assert f'<a href="/series/{one.series_id}">' in client.get(f"/runs/{newest}").text
    assert 'href="/cases?show=failing">1 case fails</a>' in client.get("/").text
    measure(0, OK)
    assert "in a row" not in client.get("/").text
    assert "Nothing matches" in client.get("/cases?show=failing").text
