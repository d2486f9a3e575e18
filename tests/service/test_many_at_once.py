"""More requests at once than threads, connections or writers: they take turns, and none fails."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from builders.service_hand import Hand
from fastapi.testclient import TestClient

pytestmark = pytest.mark.both_databases

MANY = 40


def at_once(count: int, call: Callable[[int], Any]) -> list[Any]:
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(call, range(count)))


def test_many_writers_take_turns(client: TestClient) -> None:
    started_s = time.monotonic()
    names = [f"w{number}" for number in range(MANY)]
    answers = at_once(
        MANY, lambda n: client.put(f"/api/v1/workers/{names[n]}", json={"name": names[n]})
    )
    assert {answer.status_code for answer in answers} == {200}
    assert time.monotonic() - started_s < 20
    assert len(client.get("/api/v1/workers").json()["items"]) == MANY


def test_claims_and_readers_and_writers_do_not_lock_each_other_out(
    client: TestClient, hand: Hand, submit: Callable[..., Any]
) -> None:
    def call(number: int) -> int:
        match number % 4:
            case 0:
                return 200 if hand.claim(wait_s=1.0) else 204
            case 1:
                submit(f"r{number}")
                return 201
            case 2:
                return int(client.get("/api/v1/jobs").status_code)
        return int(client.get("/api/v1/health").status_code)

    counts = at_once(MANY, call)
    assert counts.count(201) == MANY // 4
    assert set(counts) <= {200, 201, 204}
    taken = counts[::4].count(200)
    while hand.claim() is not None:
        taken += 1
    assert taken == MANY // 4
