"""Submits to a service and, if wanted, waits and shows what came of it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks.catalog.precision_tiers import Tier
from cli import estimate, parse_case, report, trace, watch
from cli.client import ServiceClient, read
from cli.exits import Exit, Stop
from cli.output import output_format, progress
from cli.output.console import Console
from cli.output.lines import say
from cli.revision import given_or_checked_out
from cli.service_answers import CatalogView, ReportView, SubmissionView

LATELY = timedelta(minutes=2)
"""A worker that lives is seen every few seconds."""


@dataclass(frozen=True)
class SubmitOptions:
    """The options of a submission on the command line."""

    what: str
    settings: Sequence[str]
    revision: str | None
    preset: str | None
    requires: Sequence[str]
    priority: int
    replicates: int | None
    key: str | None
    only: Sequence[str] = ()
    tier: Tier | None = None
    trace: bool = False
    project: str | None = None


def run(
    url: str, order: SubmitOptions, *, wait: bool, timeout_s: float | None, as_json: bool
) -> Exit:
    """Submit ``order`` and print its id, or with ``wait`` its results."""
    request = _request(order)
    with ServiceClient(url) as client:
        submission = client.submit(request, order.key)
        if lacking := _lacking(client, request.get("requires", {}), datetime.now(UTC)):
            say(lacking, sys.stderr)
        for remark in _remarks(submission, client.catalog(), order):
            say(remark, sys.stderr)
        if not wait:
            _print_submission(submission, url, as_json=as_json)
            return Exit.OK
        again = f"throughline report {submission.id} --wait --url {client.url}"
        say(f"Submission {submission.id} (again: {again}).", sys.stderr)
        view = progress.view(Console(stderr=True))
        submission = watch.follow(client, submission, view, timeout_s=timeout_s)
        told = client.report(submission.id)
    if as_json:
        say(told)
    else:
        report.show(read(ReportView, told), output_format.paper())
    for remark in trace.where(submission, url) if order.trace else ():
        say(remark, sys.stderr)
    return report.outcome(submission)


def _remarks(submission: SubmissionView, known: CatalogView, order: SubmitOptions) -> list[str]:
    told = (
        estimate.left_out(submission),
        estimate.sentence(submission, known, order.replicates, order.tier),
    )
    return [remark for remark in told if remark]


def _lacking(client: ServiceClient, requires: Mapping[str, str], now: datetime) -> str | None:
    """Say so when nobody is there who could do the work; it waits, and that is no error."""
    seen = [one for one in client.workers().items if now - one.last_seen_at < LATELY]
    if any(requires.items() <= one.labels.items() for one in seen):
        return None
    labels = " ".join(f"{name}={value}" for name, value in requires.items())
    which = f"no worker with {labels}" if labels and seen else "no worker"
    return f"It will wait: {which} was seen in the last two minutes."


def _request(order: SubmitOptions) -> dict[str, Any]:
    chosen = parse_case.read(order.what, order.settings, order.preset)
    version = given_or_checked_out(order.revision, Path.cwd())
    request: dict[str, Any] = {"revision": version.revision, "priority": order.priority}
    if chosen.case is not None:
        request["case"] = chosen.case.model_dump()
    else:
        request["suite"] = chosen.suite
    if order.project is not None:
        request["project"] = order.project
    if order.only:
        if chosen.suite is None:
            raise Stop(
                f"--only picks workloads of a suite, and {order.what} is none: leave it out."
            )
        request["only"] = list(order.only)
    if version.revision_at is not None:
        request["revision_at"] = version.revision_at.isoformat()
    if order.replicates is not None:
        request["replicates"] = order.replicates
    if order.tier is not None:
        request["tier"] = order.tier.value
    if order.trace:
        request["trace"] = True
    if order.requires:
        request["requires"] = parse_case.labels(order.requires)
    return request


def _print_submission(submission: SubmissionView, url: str, *, as_json: bool) -> None:
    if as_json:
        say(submission.model_dump_json())
        return
    count = len(submission.jobs)
    say(
        f"Submission {submission.id}: {count} {'case' if count == 1 else 'cases'} "
        f"at {submission.revision}."
    )
    say(f"Results, as they come: throughline report {submission.id} --url {url}")
