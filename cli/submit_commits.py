"""Submits a suite or a case at several commits, each once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cli.client import ServiceClient
from cli.output.lines import remark
from service.schemas.jobs import Submitted


def submit_each(
    client: ServiceClient, requests: Sequence[Mapping[str, Any]], *, again: bool
) -> Iterator[Submitted]:
    """Submit each request, and yield the answer; the same one from before is said and skipped.

    ``again`` submits everything, also what was submitted before and cancelled.
    """
    for request in requests:
        submitted, before = client.submit_once(request, None if again else _key(request))
        if before:
            remark(
                f"{submitted.revision} was submitted before, as {submitted.id}: skipped. "
                "--again submits it again."
            )
        else:
            yield submitted


def _key(request: Mapping[str, Any]) -> str:
    """Name a request by all that it says; the service keeps the key apart for each project."""
    said = json.dumps(request, sort_keys=True)
    return f"range-{hashlib.sha256(said.encode()).hexdigest()}"
