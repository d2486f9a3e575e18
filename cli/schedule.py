"""Shows and changes schedules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.table import Table

from cli import jobs, parse_case
from cli.client import ServiceClient
from cli.output import output_format
from cli.output.lines import say
from cli.service_answers import ScheduleView
from service import formats

_NARROW = ("schedule", "cron", "suite", "next")
_ROOMY = ("schedule", "project", "cron", "time zone", "suite", "revision", "requires", "next")
_WHOLE = {"schedule": 24, "cron": 20, "next": 20}
"""Columns that are not broken over lines, unless a cell of theirs has more characters: what `fire`
and `delete` take must be read, and in 80 columns there is room for these three."""


@dataclass(frozen=True)
class ScheduleOptions:
    """A schedule as it was typed."""

    cron: str
    timezone: str
    suite: str
    revision_rule: str
    requires: tuple[str, ...]
    enabled: bool
    project: str | None = None


def show_list(url: str, *, as_json: bool) -> None:
    """Print every schedule."""
    with ServiceClient(url) as client:
        found = client.schedules()
    if as_json:
        say(found.model_dump_json())
    else:
        _print(found.items)


def put(url: str, name: str, schedule: ScheduleOptions, *, as_json: bool) -> None:
    """Make or replace a schedule and print it."""
    body: dict[str, object] = {
        "cron": schedule.cron,
        "timezone": schedule.timezone,
        "suite": schedule.suite,
        "revision_rule": schedule.revision_rule,
        "requires": parse_case.labels(schedule.requires),
        "enabled": schedule.enabled,
    }
    if schedule.project is not None:
        body["project"] = schedule.project
    with ServiceClient(url) as client:
        made = client.set_schedule(name, body)
    if as_json:
        say(made.model_dump_json())
    else:
        _print([made])


def delete(url: str, name: str) -> None:
    """Forget a schedule."""
    with ServiceClient(url) as client:
        client.delete_schedule(name)
    say(f"The schedule {name} is gone; what it has submitted stays.")


def fire(url: str, name: str, *, as_json: bool) -> None:
    """Submit a schedule's suite now and print the submission."""
    with ServiceClient(url) as client:
        submission = client.fire(name)
    if as_json:
        say(submission.model_dump_json())
        return
    say(f"Submission {submission.id} at revision {submission.revision}.")


def _print(schedules: Sequence[ScheduleView]) -> None:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    paper = output_format.paper()
    lines = [_cells(schedule) for schedule in schedules]
    headings = list(_ROOMY if paper.width >= jobs.ROOMY else _NARROW)
    if "project" in headings and not any(schedule.project for schedule in schedules):
        headings.remove("project")
    for heading in headings:
        whole = all(len(line[heading]) <= _WHOLE.get(heading, 0) for line in lines)
        table.add_column(heading, no_wrap=whole, overflow="fold")
    for line in lines:
        table.add_row(*(line[heading] for heading in headings))
    paper.print(table if schedules else "There are no schedules.")


def _cells(schedule: ScheduleView) -> dict[str, str]:
    due = formats.moment(schedule.next_due_at) if schedule.next_due_at else "never"
    return {
        "schedule": schedule.name,
        "project": schedule.project,
        "cron": schedule.cron,
        "time zone": schedule.timezone,
        "suite": schedule.suite,
        "revision": schedule.revision_rule,
        "requires": " ".join(f"{label}={value}" for label, value in schedule.requires.items()),
        "next": due if schedule.enabled else "disabled",
    }
