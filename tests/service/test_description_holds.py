"""What the OpenAPI document says is what happens: schemathesis asks every call.

The short form is part of every run and always asks the same, one that is marked slow three times as
much. The longest one, with other questions:
``THROUGHLINE_FUZZ_EXAMPLES=2000 pytest tests/service/test_description_holds.py``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
import schemathesis
from builders.service_hand import Hand
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import load_all_checks, not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

pytestmark = pytest.mark.both_databases

EXAMPLES = int(os.environ.get("THROUGHLINE_FUZZ_EXAMPLES", "0"))
PER_CALL = [2, pytest.param(EXAMPLES or 6, marks=pytest.mark.slow)]
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
load_all_checks()


@schemathesis.serializer("application/gzip")
def as_it_is(_: Any, value: bytes) -> bytes:
    """A trace's body; what is generated is hardly ever one."""
    return value


@pytest.fixture
def known(client: TestClient, hand: Hand, submit: Callable[..., Any]) -> dict[str, str]:
    """Things that are there, so that not every question is about nothing."""
    submission = submit("r1")
    hand.measure()
    submit("r1", "unet")
    lease = hand.must_claim()
    assert hand.start(lease).status_code == 204
    result = client.get("/api/v1/results").json()["items"][0]
    stored = client.get(f"/api/v1/results/{result['id']}").json()
    return {
        "job_id": lease.job_id,
        "number": str(lease.attempt),
        "Lease-Secret": lease.secret,
        "submission_id": submission["id"],
        "result_id": result["id"],
        "series_id": client.get("/api/v1/series").json()["items"][0]["id"],
        "digest": stored["environment"],
        "name": "nightly",
        "worker": "w1",
        "revision": "r1",
        "baseline": "r1",
        "contender": "r1",
    }


def with_known(case: Any, known: dict[str, str]) -> Any:
    """The case, about things that are there."""
    for parameters in (case.path_parameters, case.headers, case.query):
        for name in known.keys() & (parameters or {}).keys():
            parameters[name] = known[name]
    return case


def send(client: TestClient, case: Any) -> Any:
    asked = case.as_transport_kwargs(base_url="http://testserver")
    return client.request(
        asked["method"],
        asked["url"],
        params=asked.get("params"),
        headers=dict(asked.get("headers") or {}),
        content=asked.get("data"),
        json=asked.get("json"),
        cookies=None,
    )


@pytest.mark.parametrize("per_call", PER_CALL)
def test_every_call_answers_as_its_description_says(
    client: TestClient, known: dict[str, str], per_call: int
) -> None:
    schema = schemathesis.openapi.from_dict(client.get("/api/v1/openapi.json").json())
    for found in schema.get_all_operations():
        operation = found.ok()
        cases = st.one_of(*(operation.as_strategy(generation_mode=mode) for mode in GenerationMode))

        @settings(
            max_examples=per_call,
            derandomize=not EXAMPLES,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(case=cases, about_known=st.booleans())
        def ask(case: Any, about_known: bool) -> None:
            told = send(client, with_known(case, known) if about_known else case)
            case.validate_response(told, checks=CHECKS)

        ask()
