"""What was measured on a disturbed device: in its history, hollow, and deciding nothing."""

import csv
from collections.abc import Callable
from typing import Any

import pytest
from builders import long_series as long
from builders.service_hand import Hand
from fastapi.testclient import TestClient

from service.database.session import Database
from service.findings.bad_nodes import compare_nodes

API = "/api/v1"
Submit = Callable[..., dict[str, Any]]


@pytest.fixture
def history(submit: Submit, hand: Hand) -> str:
    """A series of two revisions: one sound result, and two disturbed ones of the newer revision."""
    for revision, flags in (("r1", ()), ("r2", ("throttled", "full.tail")), ("r2", ("throttled",))):
        submit(revision)
        hand.measure((100.0, 101.0, 99.0) if revision == "r1" else (80.0, 81.0, 79.0), flags=flags)
    [series] = hand.client.get(f"{API}/series?metric=throughput").json()["items"]
    return str(series["id"])


@pytest.mark.both_databases(slow="postgresql")
def test_a_disturbed_point_says_so_wherever_its_series_is_read(
    client: TestClient, history: str
) -> None:
    points = client.get(f"{API}/series/{history}").json()["points"]
    assert [(p["revision"], p["disturbed"], p["excluded"]) for p in points] == [
        ("r1", "", False), ("r2", "throttled", False), ("r2", "throttled", False),
    ]  # fmt: skip
    listed = client.get(f"{API}/series/{history}/points").json()["items"]
    assert [point["disturbed"] for point in listed] == ["", "throttled", "throttled"]
    analysis = client.get(f"{API}/series/{history}/analysis").json()
    assert analysis["disturbed"] == 2
    assert "2 of 3 points were measured on a disturbed device (throttled)" in str(analysis)
    page = client.get(f"/series/{history}").text
    assert page.count(">disturbed<") == 2
    assert "Hollow points are not analysed" in page
    table = csv.DictReader(client.get(f"/series/{history}/points.csv").text.splitlines())
    assert [row["disturbed"] for row in table] == ["", "throttled", "throttled"]


def test_a_disturbed_result_is_compared_with_nothing(client: TestClient, history: str) -> None:
    assert history
    told = client.get(f"{API}/changes?baseline=r1&contender=r2").json()["changes"]
    assert [(each["verdict"], each["note"]) for each in told] == [
        ("missing", "No result of the contender (on a disturbed device: throttled) in the history.")
    ]


def test_a_sound_result_of_the_revision_is_compared_in_its_place(
    client: TestClient, history: str, submit: Submit, hand: Hand
) -> None:
    assert history
    submit("r2")
    hand.measure((99.0, 100.0, 101.0))
    [told] = client.get(f"{API}/changes?baseline=r1&contender=r2").json()["changes"]
    assert (told["verdict"], told["contender"]["value"]) == ("unclear", 100.0)


@pytest.mark.both_databases
def test_a_report_names_the_flags_and_holds_what_was_disturbed_against_nothing(
    client: TestClient, hand: Hand
) -> None:
    cases = [{"workload": "resnet50"}, {"workload": "resnet50", "axes": {"precision": "bf16"}}]
    answer = client.post(f"{API}/submissions", json={"cases": cases, "revision": "r1"})
    path = f"{API}/submissions/{answer.json()['id']}/report"
    hand.measure()
    hand.measure(flags=("full.tail", "other_processes"))
    plain, fast = client.get(path).json()["rows"]
    assert (plain["flags"], plain["disturbed"]) == ([], "")
    assert (fast["flags"], fast["disturbed"]) == (
        ["full.tail", "other_processes"],
        "other_processes",
    )
    assert fast["speedup"] is None
    text = client.get(path, params={"format": "markdown"}).text
    assert "ok (full.tail, other\\_processes), counts for nothing" in text


@pytest.mark.parametrize(
    ("disturbed", "counts"), [("throttled", True), ("throttled, other_processes", False)]
)
def test_only_a_device_that_holds_itself_back_tells_of_its_node(
    database: Database, disturbed: str, counts: bool
) -> None:
    with database.writing() as session:
        long.prepare(session, ("w", "x"))
        sound = dict.fromkeys(range(10), 100.0)
        long.add(session, sound, worker="w")
        held = dict.fromkeys(range(10), 90.0)
        long.add(session, held, worker="x", place=1, minutes=1, disturbed=disturbed)
        [kind] = compare_nodes(session)
        assert ("x" in kind.by_worker) == counts
