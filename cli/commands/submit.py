"""`throughline submit`: have a suite or a case measured by the workers of a service."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.catalog.precision_tiers import Tier
from cli import estimate, options, parse_case, watch
from cli.client import ServiceClient
from cli.commands import report
from cli.exits import Stop
from cli.output import progress
from cli.output.console import Console
from cli.output.lines import remark, say
from cli.revision import Version, given_or_checked_out
from service.schemas import jobs

LATELY = timedelta(minutes=2)
"""A worker that lives is seen every few seconds."""


def submit(
    what: Annotated[str, typer.Argument(metavar="SUITE|WORKLOAD", help="Such as smoke or unet.")],
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="[AXIS=VALUE]...", help="For a workload, such as precision=bf16."),
    ] = None,
    *,
    revision: options.Revision = None,
    project: options.Project = None,
    preset: Annotated[str | None, typer.Option(help="For a workload: full or tiny.")] = None,
    require: options.Require = None,
    priority: Annotated[int, typer.Option(min=-100, max=100, help="Higher goes first.")] = 0,
    tier: Annotated[
        Tier | None,
        typer.Option(help="How sure: quick (1 process, no history), standard (3) or gate (5)."),
    ] = None,
    replicates: Annotated[
        int | None,
        typer.Option(min=1, max=50, help="Fresh processes a case; a comparison needs two or more."),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="WORKLOAD", help="Of a suite only this workload; may be repeated."),
    ] = None,
    trace: Annotated[
        bool,
        typer.Option("--trace", help="Also profile, and keep each case's trace with its result."),
    ] = False,
    idempotency_key: Annotated[
        str | None, typer.Option(help="The same key submits once, however often CI retries.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Follow it and print its results.")] = False,
    timeout_s: options.Timeout = None,
    url: options.Url = options.DEFAULT_URL,
    as_json: options.Json = False,
) -> None:
    """Submit a suite, or one case of a workload, at a revision.

    By default the revision is the commit that the current folder has checked out, with +dirty when
    tracked files differ from it. With --wait the exit code is 1 if a case failed.
    """
    chosen = parse_case.read(what, settings or (), preset)
    if only and chosen.suite is None:
        raise Stop(f"--only picks workloads of a suite, and {what} is none: leave it out.")
    request = _request(
        chosen,
        given_or_checked_out(revision, Path.cwd()),
        only=only or None,
        priority=priority,
        project=project,
        replicates=replicates,
        requires=parse_case.labels(require) if require else None,
        tier=tier and tier.value,
        trace=trace or None,
    )
    with ServiceClient(url) as client:
        submitted = client.submit(request, idempotency_key)
        for sentence in _remarks(client, request, submitted, tier):
            remark(sentence)
        if not (wait or timeout_s is not None):
            _print_submission(submitted, url, as_json=as_json)
            return
        submission = _followed(client, submitted, timeout_s)
        text = client.report(submission.id)
    if as_json:
        say(text)
    else:
        report.show(text)
    if trace:
        _print_traces(submission, url)
    raise typer.Exit(report.outcome(submission))


def _request(
    chosen: parse_case.RequestedCases, version: Version, **given: object
) -> dict[str, Any]:
    """The request to post; values of None are left out."""
    request: dict[str, Any] = version.request()
    if chosen.case is not None:
        request["case"] = chosen.case.model_dump()
    else:
        request["suite"] = chosen.suite
    return request | {name: value for name, value in given.items() if value is not None}


def _remarks(
    client: ServiceClient, request: Mapping[str, Any], submission: jobs.Submitted, tier: Tier | None
) -> list[str]:
    """List missing workers, cases that were left out, and the time that the work will take."""
    remarks = (
        _lacking(client, request.get("requires", {}), datetime.now(UTC)),
        estimate.left_out(submission),
        estimate.sentence(submission, client.catalog(), request.get("replicates"), tier),
    )
    return [sentence for sentence in remarks if sentence]


def _lacking(client: ServiceClient, requires: Mapping[str, str], now: datetime) -> str | None:
    """Say so if no worker could do the work now; the submission waits."""
    seen = [one for one in client.workers().items if now - one.last_seen_at < LATELY]
    if any(requires.items() <= one.labels.items() for one in seen):
        return None
    labels = " ".join(f"{name}={value}" for name, value in requires.items())
    which = f"no worker with {labels}" if labels and seen else "no worker"
    return f"It will wait: {which} was seen in the last two minutes."


def _print_submission(submission: jobs.SubmissionView, url: str, *, as_json: bool) -> None:
    if as_json:
        say(submission.model_dump_json())
        return
    count = len(submission.cases)
    say(
        f"Submission {submission.id}: {count} {'case' if count == 1 else 'cases'} "
        f"at {submission.revision}."
    )
    say(f"Results, as they come: throughline report {submission.id} --url {url}")


def _followed(
    client: ServiceClient, submission: jobs.SubmissionView, timeout_s: float | None
) -> jobs.SubmissionView:
    again = f"throughline report {submission.id} --wait --url {client.url}"
    remark(f"Submission {submission.id} (again: {again}).")
    view = progress.view(Console(stderr=True))
    return watch.follow(client, submission, view, timeout_s=timeout_s)


def _print_traces(submission: jobs.SubmissionView, url: str) -> None:
    for job in submission.jobs:
        if job.result_id and job.replicate == 1:
            fetch = f"throughline trace {job.result_id} --url {url}"
            remark(f"Trace of {job.case.key}: {fetch}")
