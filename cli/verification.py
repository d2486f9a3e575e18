"""Checks a database's promises and prints what was found."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import orjson
from sqlalchemy.exc import DBAPIError

from cli.exits import Exit, Stop
from cli.output.lines import say
from service.database.failures import explain
from service.database.health import check
from service.database.session import Database
from service.errors import ServiceError
from service.maintenance.verify import CheckOutcome, Event, Finding, VerificationReport
from service.maintenance.verify import verify as check_promises
from service.settings import Settings

_LINES = 60
"""Longest history that is printed to people; JSON has all of it."""


def verify(url: str | None, state_dir: Path) -> VerificationReport:
    """Check the database at ``url``, or the one of the state folder.

    Raises:
        Stop: it cannot be read, or has other tables than this version knows.
    """
    try:
        database = Database(url or Settings(state_dir=state_dir).url)
        try:
            check(database, write=False)
            return check_promises(database)
        finally:
            database.close()
    except ServiceError as error:
        raise Stop(error.detail, Exit.AWAY) from error
    except DBAPIError as error:
        known = explain(error)
        sentence = known.detail if known else f"The database cannot be read: {error.orig}"
        raise Stop(sentence, Exit.AWAY) from error


def as_json(report: VerificationReport) -> str:
    """The whole report as one JSON document."""
    told = {"kept": report.kept, **asdict(report)}
    return orjson.dumps(told, option=orjson.OPT_INDENT_2).decode()


def show(report: VerificationReport) -> None:
    """Print a line for each promise, and under a broken one the history that shows it."""
    say(f"{report.jobs:,} jobs, {report.results:,} results")
    for finding in report.findings:
        say(f"{finding.number:2}  {finding.outcome.value:14}  {finding.promise}")
        if finding.sentence:
            say(f"    {finding.sentence}")
        if finding.outcome is CheckOutcome.BROKEN:
            _show_history(finding)
    for warning in report.warnings:
        say(warning, sys.stderr)


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
