"""A revision is found by its name, or by as much of it as no other shares."""

from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

ONE = "24809645175fa7cd2f0e3a4bb1a2d7a7e5b1c0de"
OTHER = "24809645aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
Submit = Callable[..., dict[str, Any]]


def compared(client: TestClient, baseline: str) -> Any:
    return client.get("/api/v1/changes", params={"baseline": baseline, "contender": OTHER})


def test_an_abbreviated_commit_is_found(client: TestClient, submit: Submit) -> None:
    submit(ONE)
    submit(OTHER)
    assert compared(client, ONE[:12]).json()["baseline"] == ONE
    assert compared(client, ONE).json()["baseline"] == ONE


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (ONE[:8], "2 revisions begin so: name more of it."),
        (ONE[:6], "Nothing was ever submitted"),
        (ONE[:12].upper() + "F", "Nothing was ever submitted"),
    ],
    ids=["shared", "too short", "another"],
)
def test_what_names_no_revision_or_several_is_refused(
    client: TestClient, submit: Submit, name: str, why: str
) -> None:
    submit(ONE)
    submit(OTHER)
    answer = compared(client, name)
    assert answer.status_code == 422
    assert why in answer.json()["detail"]


def test_a_report_against_an_unknown_revision_is_refused(
    client: TestClient, submit: Submit
) -> None:
    told = submit(ONE)
    answer = client.get(f"/api/v1/submissions/{told['id']}/report?against=mistyped")
    assert answer.status_code == 422
