"""`throughline report`: the results of a submission, or of a night."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

import typer

from benchmarks import contracts
from cli import options, watch
from cli.client import ServiceClient, read
from cli.commands import compare
from cli.exits import Exit, Stop
from cli.output import lines, progress, result_table
from cli.output.console import Console, OutputFormat, chosen, paper
from service.schemas.jobs import SubmissionView
from service.schemas.nights import NightReport
from service.schemas.reports import Report
from service.wording import night as words

_LEAST_BAD_FIRST = (Exit.OK, Exit.TIMEOUT, Exit.FAILED)


class NightForm(StrEnum):
    """The forms of the report of a night."""

    TEXT = "text"
    HTML = "html"
    MARKDOWN = "markdown"
    ATOM = "atom"
    JSON = "json"


def report(
    submission: Annotated[
        str | None,
        typer.Argument(help="The submission's id; with --night a date, or the newest night."),
    ] = None,
    *,
    night: Annotated[
        bool, typer.Option("--night", help="What the schedules of a night measured, and showed.")
    ] = False,
    written_as: Annotated[
        NightForm | None, typer.Option("--format", help="Of a night; by default text.")
    ] = None,
    project: Annotated[str | None, typer.Option(help="Of a night, what is of this one.")] = None,
    against: Annotated[
        str | None, typer.Option(metavar="REVISION", help="Compare with this revision.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Follow it until it is finished.")] = False,
    timeout_s: options.Timeout = None,
    markdown: options.Markdown = False,
    url: options.Url = options.DEFAULT_URL,
    as_json: options.Json = False,
) -> None:
    """Print the results of a submission, or the report of a night.

    The exit code is 1 if a case failed, 4 while one is missing. With --against it is 1 as well if a
    case got slower, 4 if one was not compared or is undecided.
    """
    shown_as = chosen(markdown=markdown, as_json=as_json)
    if night and (against is not None or wait):
        raise Stop("A night is read as it is: leave --against and --wait out.", Exit.USAGE)
    if night:
        given = {OutputFormat.MARKDOWN: NightForm.MARKDOWN, OutputFormat.JSON: NightForm.JSON}
        return _show_night(
            url, submission, project, written_as or given.get(shown_as, NightForm.TEXT)
        )
    if submission is None or written_as is not None or project is not None:
        raise Stop("Name a submission, or ask for a --night.", Exit.USAGE)
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
        lines.say(text.rstrip("\n"))
    code = outcome(submitted)
    if against is not None:
        compared = compare.outcome(read(Report, document).changes)
        code = max(code, compared, key=_LEAST_BAD_FIRST.index)
    raise typer.Exit(code)


def _show_night(url: str, night: str | None, project: str | None, form: NightForm) -> None:
    with ServiceClient(url) as client:
        document = client.text("nights", night or "newest", project=project)
        address = client.url
    if form is NightForm.JSON:
        return lines.say(document)
    told = words.account(read(NightReport, document))
    match form:
        case NightForm.TEXT:
            said = words.text(told)
        case NightForm.MARKDOWN:
            said = words.as_markdown(told, address)
        case NightForm.HTML:
            said = words.as_html(told, address)
        case NightForm.ATOM:
            said = words.atom([(datetime.now(UTC), told)], address)
    return lines.say(said.rstrip("\n"))


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
        lines.remark(f"Not finished: {left} of {len(states)} cases are missing.")
        return Exit.TIMEOUT
    return Exit.OK
