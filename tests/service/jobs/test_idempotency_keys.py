"""A submission from CI may be sent again: it is queued once."""

import threading
from typing import Any

import pytest
from fastapi.testclient import TestClient

pytestmark = pytest.mark.both_databases

BODY = {"suite": "smoke", "revision": "abc123"}


def post(client: TestClient, body: Any = BODY, key: str = "build-7", path: str = "") -> Any:
    path = path or "/api/v1/submissions"
    return client.post(path, json=body, headers={"Idempotency-Key": key})


def test_the_same_key_and_body_get_the_same_submission(client: TestClient) -> None:
    first, again = post(client), post(client)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    assert len(client.get("/api/v1/submissions").json()["items"]) == 1


def test_the_same_key_with_another_body_is_refused(client: TestClient) -> None:
    post(client)
    answer = post(client, BODY | {"priority": 1})
    assert (answer.status_code, answer.json()["type"]) == (422, "idempotency-key-reused")
    assert len(client.get("/api/v1/submissions").json()["items"]) == 1


def test_the_order_of_names_in_a_request_says_nothing(client: TestClient) -> None:
    axes, requires = {"precision": "bf16", "workers": "4"}, {"device": "cpu", "pool": "ci"}

    def body(turn: Any) -> Any:
        case = {"workload": "unet", "axes": dict(turn(axes.items()))}
        said = {"revision": "abc123", "case": case, "requires": dict(turn(requires.items()))}
        return dict(turn(said.items()))

    first = post(client, body(list))
    again = post(client, body(lambda items: reversed(list(items))))
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()


def test_the_number_of_replicates_belongs_to_the_request(client: TestClient) -> None:
    post(client, BODY | {"replicates": 3})
    assert post(client, BODY | {"replicates": 3}).status_code == 200
    assert post(client, BODY | {"replicates": 5}).status_code == 422


def test_another_key_is_another_submission(client: TestClient) -> None:
    assert post(client).json()["id"] != post(client, key="build-8").json()["id"]


def test_a_single_job_has_keys_too(client: TestClient) -> None:
    body = {"case": {"workload": "unet"}, "revision": "abc123"}
    first = post(client, body, path="/api/v1/jobs")
    again = post(client, body, path="/api/v1/jobs")
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()


def test_requests_that_meet_are_queued_once(client: TestClient) -> None:
    answers: list[Any] = []
    threads = [threading.Thread(target=lambda: answers.append(post(client))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answer.status_code for answer in answers) == [200, 200, 200, 201]
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert len(client.get("/api/v1/jobs?limit=500").json()["items"]) == 6
