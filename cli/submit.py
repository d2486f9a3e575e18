"""Submits to a service and, if wanted, waits and shows what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from cli import progress, report, wanted, watch
from cli.answers import ReportView, SubmissionView
from cli.exits import Exit
from cli.revision import given_or_checked_out
from cli.service_client import ServiceClient, read


@dataclass(frozen=True)
class Order:
    """What was asked for on the command line."""

    what: str
    settings: Sequence[str]
    revision: str | None
    preset: str | None
    requires: Sequence[str]
    priority: int
    replicates: int | None
    key: str | None


def run(url: str, order: Order, *, wait: bool, timeout_s: float | None, as_json: bool) -> Exit:
    """Submit ``order`` and print its id, or with ``wait`` its results."""
    request = _request(order)
    with ServiceClient(url) as client:
        submission = client.submit(request, order.key)
        if not wait:
            _print_submission(submission, url, as_json=as_json)
            return Exit.OK
        view = progress.view(Console(stderr=True))
        submission = watch.follow(client, submission, view, timeout_s=timeout_s)
        told = client.report(submission.id)
    if as_json:
        print(told)
    else:
        report.show(read(ReportView, told), Console())
    return report.outcome(submission)


def _request(order: Order) -> dict[str, Any]:
    chosen = wanted.read(order.what, order.settings, order.preset)
    version = given_or_checked_out(order.revision, Path.cwd())
    request: dict[str, Any] = {"revision": version.revision, "priority": order.priority}
    if chosen.case is not None:
        request["case"] = chosen.case.model_dump()
    else:
        request["suite"] = chosen.suite
    if version.revision_at is not None:
        request["revision_at"] = version.revision_at.isoformat()
    if order.replicates is not None:
        request["replicates"] = order.replicates
    if order.requires:
        request["requires"] = wanted.labels(order.requires)
    return request


def _print_submission(submission: SubmissionView, url: str, *, as_json: bool) -> None:
    if as_json:
        print(submission.model_dump_json())
        return
    count = len(submission.jobs)
    print(
        f"Submission {submission.id}: {count} {'case' if count == 1 else 'cases'} "
        f"at {submission.revision}."
    )
    print(f"Results, as they come: throughline report {submission.id} --url {url}")
