"""Pages joined by cursors give every row once, whatever is added meanwhile."""

from collections.abc import Callable
from typing import Any

import pytest
from builders.service_hand import Hand
from fastapi.testclient import TestClient

pytestmark = pytest.mark.both_databases


def pages(client: TestClient, path: str, limit: int, between: Callable[[], Any]) -> list[Any]:
    """Read a list to its end, doing something between the pages."""
    items: list[Any] = []
    cursor = None
    for _ in range(100):
        answer = client.get(
            f"/api/v1{path}", params={"limit": limit, **({"cursor": cursor} if cursor else {})}
        )
        assert answer.status_code == 200, answer.text
        page = answer.json()
        assert len(page["items"]) <= limit
        items += page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            return items
        between()
    raise AssertionError("the list has no end")


def test_every_list_gives_each_row_once_while_rows_are_added(
    client: TestClient, hand: Hand, submit: Callable[..., Any]
) -> None:
    for number in range(5):
        submit(f"r{number}", axes={"workers": "2"} if number % 2 else {})
        hand.measure((float(number + 1),))

    def add() -> None:
        submit("later")
        hand.measure((9.0,))

    for path in ("/submissions", "/jobs", "/results"):
        before = [item["id"] for item in pages(client, path, 500, add)]
        ids = [item["id"] for item in pages(client, path, 2, add)]
        assert ids == before, path
        assert ids == sorted(ids, reverse=True), path
    every = pages(client, "/series", 500, add)
    assert pages(client, "/series", 1, add) == every
    assert len(every) == 2
    for series in every:
        path = f"/series/{series['id']}/points"
        assert pages(client, path, 1, lambda: None) == pages(client, path, 500, add)


def test_lists_are_filtered(client: TestClient, hand: Hand, submit: Callable[..., Any]) -> None:
    submit("r1")
    hand.measure((1.0,))
    submit("r1", workload="resnet50:train")  # a user's own, of a module with that name
    hand.measure((1.0,))
    submit("r2", workload="unet")

    def found(path: str) -> int:
        return len(client.get(f"/api/v1{path}").json()["items"])

    counts = {
        "/jobs?state=queued": 1,
        "/jobs?revision=r1": 2,
        "/submissions?revision=r2": 1,
        "/submissions?suite=smoke": 0,
        "/results?revision=r1&worker=w1&status=ok&case=resnet50:tiny": 1,
        "/results?status=oom": 0,
        "/series?workload=resnet50": 1,
        "/series?workload=resnet": 0,
        "/series?workload=resnet50:train": 1,
        "/series?metric=step_time": 0,
        "/workers": 1,
    }
    assert {path: found(path) for path in counts} == counts
