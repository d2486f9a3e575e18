"""`throughline submit`: have a suite or a case measured by the workers of a service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.catalog.precision_tiers import Tier
from benchmarks.contracts import meets
from cli import estimate, options, parse_case, watch
from cli.client import ServiceClient
from cli.commands import report
from cli.commit_range import UNASKED, commits_of
from cli.exits import Stop
from cli.output import lines, progress
from cli.output.console import Console
from cli.revision import Version, given_or_checked_out
from cli.submit_commits import submit_each
from service.schemas import jobs
from service.wording import formats, waiting

Settings = Annotated[
    list[str] | None,
    typer.Argument(metavar="[AXIS=VALUE]...", help="For a workload, such as precision=bf16."),
]
Range = Annotated[
    str | None,
    typer.Option(
        "--range",
        metavar="A..B",
        help="Submit each commit after A up to B by itself, along first parents, the oldest first.",
    ),
]
PrecisionTier = Annotated[
    Tier | None,
    typer.Option(help="How sure: quick (1 process, no history), standard (3) or gate (5)."),
]
Replicates = Annotated[
    int | None,
    typer.Option(min=1, max=50, help="Fresh processes a case; a comparison needs two or more."),
]
Only = Annotated[
    list[str] | None,
    typer.Option(metavar="WORKLOAD", help="Of a suite only this workload; may be repeated."),
]


def submit(
    what: Annotated[str, typer.Argument(metavar="SUITE|WORKLOAD", help="Such as smoke or unet.")],
    settings: Settings = None,
    *,
    revision: options.Revision = None,
    commits: Range = None,
    again: Annotated[
        bool,
        typer.Option("--again", help="With --range: also what was submitted before, or cancelled."),
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help=f"With --range: also more than {UNASKED} commits.")
    ] = False,
    project: options.Project = None,
    preset: Annotated[str | None, typer.Option(help="For a workload: full or tiny.")] = None,
    require: options.Require = None,
    priority: Annotated[int, typer.Option(min=-100, max=100, help="Higher goes first.")] = 0,
    tier: PrecisionTier = None,
    replicates: Replicates = None,
    only: Only = None,
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
    tracked files differ from it. With --wait the exit code is 1 if a case failed. --range submits
    pushed commits; those that a --range with the same options submitted before are skipped.
    """
    given = {
        "only": only or None,
        "priority": priority,
        "project": project,
        "replicates": replicates,
        "requires": parse_case.labels(require) if require else None,
        "tier": tier and tier.value,
        "trace": trace or None,
    }
    chosen = _chosen(what, settings, preset, only)
    if commits is None and (again or yes):
        raise Stop("--again and --yes say how to submit a --range: name one.")
    follows = wait or timeout_s is not None
    if commits is not None:
        _refuse_beside_range(revision=revision, idempotency_key=idempotency_key, wait=follows)
        versions = commits_of(commits, Path.cwd(), sure=yes)
        requests = [_request(chosen, version, **given) for version in versions]
        _submit_range(requests, tier, url, again=again, as_json=as_json)
        return
    request = _request(chosen, given_or_checked_out(revision, Path.cwd()), **given)
    with ServiceClient(url) as client:
        submitted = client.submit(request, idempotency_key)
        for sentence in _remarks(client, request, submitted, tier):
            lines.remark(sentence)
        if not follows:
            _print_submission(submitted, url, as_json=as_json)
            return
        submission = _followed(client, submitted, timeout_s)
        text = client.report(submission.id)
    _print_results(submission, text, url, trace=trace, as_json=as_json)
    raise typer.Exit(report.outcome(submission))


def _chosen(
    what: str, settings: Sequence[str] | None, preset: str | None, only: Sequence[str] | None
) -> parse_case.RequestedCases:
    chosen = parse_case.read(what, settings or (), preset)
    if only and chosen.suite is None:
        raise Stop(f"--only picks workloads of a suite, and {what} is none: leave it out.")
    return chosen


def _refuse_beside_range(**given: object) -> None:
    """Refuse options of one submission beside a range, which makes several."""
    for name, value in given.items():
        if value:
            option = name.replace("_", "-")
            raise Stop(f"--{option} is of one submission, and --range makes several: leave it out.")


def _submit_range(
    requests: Sequence[Mapping[str, Any]],
    tier: Tier | None,
    url: str,
    *,
    again: bool,
    as_json: bool,
) -> None:
    """Submit each commit of a range; one line for each that is submitted now."""
    made: list[jobs.Submitted] = []
    with ServiceClient(url) as client:
        for submitted in submit_each(client, requests, again=again):
            made.append(submitted)
            if not as_json:
                lines.say(_submission_line(submitted))
        if made:
            for sentence in _remarks(client, requests[0], made[0], tier):
                lines.remark(f"Each of them: {sentence}" if len(made) > 1 else sentence)
    if as_json:
        lines.say(f"[{','.join(submitted.model_dump_json() for submitted in made)}]")
    lines.remark(f"{len(made)} of {formats.counted(len(requests), 'commit')} submitted.")


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
    seen = [one for one in client.workers().items if now - one.last_seen_at < waiting.AWAY]
    able = [one for one in seen if meets(one.labels, requires)]
    if any(one.drain is None for one in able):
        return None
    if able:
        return f"It will wait. {waiting.why_queued(able, requires, now - waiting.AWAY, now)}"
    labels = " ".join(f"{name}={value}" for name, value in requires.items())
    which = f"no worker with {labels}" if labels and seen else "no worker"
    return f"It will wait: {which} was seen in the last two minutes."


def _print_submission(submission: jobs.SubmissionView, url: str, *, as_json: bool) -> None:
    if as_json:
        lines.say(submission.model_dump_json())
        return
    lines.say(_submission_line(submission))
    lines.say(f"Results, as they come: throughline report {submission.id} --url {url}")


def _submission_line(submission: jobs.SubmissionView) -> str:
    cases = formats.counted(len(submission.cases), "case")
    return f"Submission {submission.id}: {cases} at {submission.revision}."


def _print_results(
    submission: jobs.SubmissionView, text: str, url: str, *, trace: bool, as_json: bool
) -> None:
    if as_json:
        lines.say(text)
    else:
        report.show(text)
    if trace:
        _print_traces(submission, url)


def _followed(
    client: ServiceClient, submission: jobs.SubmissionView, timeout_s: float | None
) -> jobs.SubmissionView:
    again = f"throughline report {submission.id} --wait --url {client.url}"
    lines.remark(f"Submission {submission.id} (again: {again}).")
    view = progress.view(Console(stderr=True))
    return watch.follow(client, submission, view, timeout_s=timeout_s)


def _print_traces(submission: jobs.SubmissionView, url: str) -> None:
    for job in submission.jobs:
        if job.result_id and job.replicate == 1:
            fetch = f"throughline trace {job.result_id} --url {url}"
            lines.remark(f"Trace of {job.case.key}: {fetch}")
