"""`throughline report`: the results of a submission."""

from __future__ import annotations

import math
from typing import Annotated

import typer

from benchmarks import contracts
from cli import options, watch
from cli.client import ServiceClient, read
from cli.commands import compare
from cli.exits import Exit
from cli.output import progress, result_table
from cli.output.console import Console, OutputFormat, chosen, paper
from cli.output.lines import remark, say
from service.schemas.jobs import SubmissionView
from service.schemas.reports import Report

_LEAST_BAD_FIRST = (Exit.OK, Exit.TIMEOUT, Exit.FAILED)


def report(
    submission: Annotated[str, typer.Argument(help="The submission's id.")],
    *,
    against: Annotated[
        str | None, typer.Option(metavar="REVISION", help="Compare with this revision.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Follow it until it is finished.")] = False,
    timeout_s: options.Timeout = None,
    markdown: options.Markdown = False,
    url: options.Url = options.DEFAULT_URL,
    as_json: options.Json = False,
) -> None:
    """Print the results of a submission.

    The exit code is 1 if a case failed, 4 while one is missing. With --against it is 1 as well if a
    case got slower, 4 if one was not compared or is undecided.
    """
    shown_as = chosen(markdown=markdown, as_json=as_json)
    wait_s = timeout_s if timeout_s is not None else (float("inf") if wait else 0.0)
    with ServiceClient(url) as client:
        submitted = _submission(client, submission, wait_s)
        form = "markdown" if shown_as is OutputFormat.MARKDOWN else "json"
        text = document = client.report(submission, against, form)
        if against is not None and form != "json":  # the exit code is not read off a text
            document = client.report(submission, against)
    if shown_as is OutputFormat.TABLE:
        show(text)
    else:
        say(text.rstrip("\n"))
    code = outcome(submitted)
    if against is not None:
        compared = compare.outcome(read(Report, document).changes)
        code = max(code, compared, key=_LEAST_BAD_FIRST.index)
    raise typer.Exit(code)


def _submission(client: ServiceClient, submission_id: str, wait_s: float) -> SubmissionView:
    submission = client.submission(submission_id)
    if wait_s <= 0:
        return submission
    view = progress.view(Console(stderr=True))
    limit_s = None if math.isinf(wait_s) else wait_s
    return watch.follow(client, submission, view, timeout_s=limit_s)


def show(text: str) -> None:
    """Print a report's JSON for a person: the table, advice, effects, and any changes."""
    report, console = read(Report, text), paper()
    result_table.show(report.rows, console)
    for advice in report.advice:
        console.say(f"Worth a try at {advice.case.key}:")
        for suggestion in advice.suggestions:
            console.say(f"  {suggestion.sentence}")
    for effects in report.effects:
        result_table.show_effects(effects, console)
    if report.against is not None:
        compare.show(report.changes, report.against, report.revision, console)


def outcome(submission: SubmissionView) -> Exit:
    """Exit code of a submission: a failed case at any time is a failure; a missing one is no
    success."""
    states = [job.state for job in submission.cases]
    if any(
        state in contracts.FINAL_STATES and state is not contracts.JobState.SUCCEEDED
        for state in states
    ):
        return Exit.FAILED
    if not submission.finished:
        left = sum(state not in contracts.FINAL_STATES for state in states)
        remark(f"Not finished: {left} of {len(states)} cases are missing.")
        return Exit.TIMEOUT
    return Exit.OK
