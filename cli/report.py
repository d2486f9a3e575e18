"""Shows what came of a submission."""

from __future__ import annotations

import math
import sys

from benchmarks.contracts import FINAL_STATES, JobState
from cli import compare, effects, watch
from cli.client import ServiceClient, read
from cli.exits import Exit
from cli.output import output_format, progress, result_table
from cli.output.console import Console
from cli.output.lines import say
from cli.output.output_format import OutputFormat
from cli.service_answers import AdviceView, ReportView, SubmissionView

_LEAST_BAD_FIRST = (Exit.OK, Exit.TIMEOUT, Exit.FAILED)


def run(
    url: str, submission_id: str, against: str | None, shown_as: OutputFormat, wait_s: float
) -> Exit:
    """Print the report, after waiting for ``wait_s`` at most.

    Raises:
        Stop: there is no such submission, or the wait ran out of time.
    """
    with ServiceClient(url) as client:
        submission = client.submission(submission_id)
        if wait_s > 0:
            view = progress.view(Console(stderr=True))
            limit_s = None if math.isinf(wait_s) else wait_s
            submission = watch.follow(client, submission, view, timeout_s=limit_s)
        form_asked = "markdown" if shown_as is OutputFormat.MARKDOWN else "json"
        told = client.report(submission_id, against, form_asked)
        found = told
        if against is not None and form_asked != "json":  # what to end with is not read off a text
            found = client.report(submission_id, against)
    if shown_as is OutputFormat.TABLE:
        show(read(ReportView, told), output_format.paper())
    else:
        say(told.rstrip("\n"))
    if against is None:
        return outcome(submission)
    compared = compare.outcome(read(ReportView, found).changes)
    return max(outcome(submission), compared, key=_LEAST_BAD_FIRST.index)


def show(report: ReportView, console: Console) -> None:
    """Print the table, what may be tried next, and what changed if that was asked for."""
    result_table.show(report.rows, console)
    for told in report.advice:
        _advise(told, console)
    for each in report.effects:
        effects.show(each, console)
    if report.against is not None:
        compare.show(report.changes, report.against, report.revision, console)


def _advise(told: AdviceView, console: Console) -> None:
    lines = [f"Worth a try at {told.case.key}:", *(f"  {one.sentence}" for one in told.suggestions)]
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def outcome(submission: SubmissionView) -> Exit:
    """A failed case is a failure at any time; a missing one is not yet a success."""
    states = [job.state for job in submission.jobs]
    if any(state in FINAL_STATES and state is not JobState.SUCCEEDED for state in states):
        return Exit.FAILED
    if not submission.finished:
        left = sum(state not in FINAL_STATES for state in states)
        say(f"Not finished: {left} of {len(states)} cases are missing.", sys.stderr)
        return Exit.TIMEOUT
    return Exit.OK
