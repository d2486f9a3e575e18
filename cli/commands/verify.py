"""`throughline verify`."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from typing import Annotated

import orjson
import typer

from cli import options
from cli.database import opened
from cli.output.lines import remark, say
from service.history.artifacts import store_of
from service.maintenance import verify as verifying
from service.maintenance.verify import CheckOutcome, Event, Finding, VerificationReport
from service.settings import Settings


class VerifyFormat(StrEnum):
    """The formats in which the report is printed."""

    TEXT = "text"
    JSON = "json"


def verify(
    *,
    database: options.Database = None,
    format_: Annotated[
        VerifyFormat, typer.Option("--format", help="Text for people, or one JSON document.")
    ] = VerifyFormat.TEXT,
    state_dir: options.StateDir = options.DEFAULT_STATE_DIR,
) -> None:
    """Check that a database keeps the promises about jobs and results; changes nothing.

    It reads in one transaction and may run beside the service. Exit code 1 if a promise is broken:
    then the shortest history that shows it is printed. Exit code 3 if the database cannot be read.
    """
    settings = Settings(state_dir=state_dir)
    with opened(database or settings.url, write=False) as opened_database:
        report = verifying.verify(opened_database, store_of(settings, database))
    if format_ is VerifyFormat.JSON:
        document = {"kept": report.kept, **asdict(report)}
        say(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode())
    else:
        _show(report)
    raise typer.Exit(0 if report.kept else 1)


_LINES = 60
"""Longest history that is printed to people; JSON has all of it."""


def _show(report: VerificationReport) -> None:
    """Print a line for each promise, and under a broken one the history that shows it."""
    say(f"{report.jobs:,} jobs, {report.results:,} results")
    for finding in report.findings:
        say(f"{finding.number:2}  {finding.outcome.value:14}  {finding.promise}")
        if finding.sentence:
            say(f"    {finding.sentence}")
        if finding.outcome is CheckOutcome.BROKEN:
            _show_history(finding)
    for warning in report.warnings:
        remark(warning)


def _show_history(finding: Finding) -> None:
    assert finding.shortest is not None
    history = finding.shortest.history
    for event in history[:_LINES]:
        say(f"      {_line(event)}")
    if len(history) > _LINES:
        say(f"      ... {len(history) - _LINES} more")
    if finding.breaches > 1:
        say(f"    Broken {finding.breaches} times; this is the shortest history. Others:")
    for sentence in finding.others:
        say(f"    {sentence}")


def _line(event: Event) -> str:
    who = "job" if event.attempt is None else f"attempt {event.attempt}"
    by = f" by {event.worker}" if event.worker else ""
    why = f": {event.reason}" if event.reason else ""
    step = f"{event.before or '-'} -> {event.after}"
    return f"{event.at:%Y-%m-%d %H:%M:%S.%f}  {who}: {step}{by}{why}"
