"""`throughline schedule`: suites that are measured at set times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from cli import durations, options, parse_case
from cli.client import ServiceClient
from cli.output.console import paper, table
from cli.output.lines import say
from service.schemas.jobs import ScheduleView
from service.wording import formats

_NARROW = ("schedule", "cron", "suite", "next")
_ROOMY = (
    *("schedule", "project", "cron", "time zone"),
    *("suite", "revision", "explores", "requires", "next"),
)
_WHOLE = {"schedule": 24, "cron": 20, "next": 20}
"""Columns that stay on one line up to this width: `fire` and `delete` need the whole name. 80
columns have room for these three."""

app = typer.Typer(help="List, set, delete and fire schedules.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="The schedule's name.")]


@app.command("list")
def list_schedules(
    *, url: options.Url = options.DEFAULT_URL, as_json: options.Json = False
) -> None:
    """List schedules with the time that each is due next."""
    with ServiceClient(url) as client:
        schedules = client.schedules()
    if as_json:
        say(schedules.model_dump_json())
    else:
        _print(schedules.items)


@app.command("set")
def set_schedule(
    name: Name,
    *,
    cron: Annotated[str, typer.Option(help="Five fields, such as '0 2 * * *'.")],
    suite: Annotated[str, typer.Option(help="What to measure.")],
    timezone: Annotated[str, typer.Option(help="Such as Europe/Zurich.")] = "UTC",
    revision_rule: Annotated[
        str,
        typer.Option(
            help="date: named after the day; latest: the newest known; fixed:REVISION; "
            "ref:TARGET:REF, such as ref:nanogpt:main: where workers see it."
        ),
    ] = "date",
    again: Annotated[
        bool, typer.Option("--again", help="Measure a commit of a ref in every slot, not once.")
    ] = False,
    require: options.Require = None,
    explore: Annotated[
        str | None,
        typer.Option(
            help="Time of the devices, such as 20m, that each slot spends on cases near the "
            "fastest ones."
        ),
    ] = None,
    project: options.Project = None,
    enabled: Annotated[bool, typer.Option("--enabled/--disabled", help="Whether it fires.")] = True,
    url: options.Url = options.DEFAULT_URL,
    as_json: options.Json = False,
) -> None:
    """Make a schedule, or replace the one of that name."""
    body: dict[str, object] = {
        "cron": cron,
        "timezone": timezone,
        "suite": suite,
        "revision_rule": revision_rule,
        "requires": parse_case.labels(require or ()),
        "again": again,
        "enabled": enabled,
        "explore_s": durations.within("--explore", explore, 1.0, 86_400.0) if explore else 0.0,
    }
    if project is not None:
        body["project"] = project
    with ServiceClient(url) as client:
        made = client.set_schedule(name, body)
    if as_json:
        say(made.model_dump_json())
    else:
        _print([made])


@app.command("delete")
def delete(name: Name, *, url: options.Url = options.DEFAULT_URL) -> None:
    """Forget a schedule; what it has submitted stays."""
    with ServiceClient(url) as client:
        client.delete_schedule(name)
    say(f"The schedule {name} is gone; what it has submitted stays.")


@app.command("fire")
def fire(
    name: Name, *, url: options.Url = options.DEFAULT_URL, as_json: options.Json = False
) -> None:
    """Submit a schedule's suite now, whenever it is due."""
    with ServiceClient(url) as client:
        submission = client.fire(name)
    if as_json:
        say(submission.model_dump_json())
    else:
        say(f"Submission {submission.id} at revision {submission.revision}.")


def _print(schedules: Sequence[ScheduleView]) -> None:
    console = paper()
    lines = [_cells(schedule) for schedule in schedules]
    headings = list(_ROOMY if console.is_roomy else _NARROW)
    if "project" in headings and not any(schedule.project for schedule in schedules):
        headings.remove("project")
    if "explores" in headings and not any(schedule.explore_s for schedule in schedules):
        headings.remove("explores")
    drawn = table(
        *headings,
        whole=[
            heading
            for heading, most in _WHOLE.items()
            if all(len(line[heading]) <= most for line in lines)
        ],
    )
    for column in drawn.columns:
        column.overflow = "fold"
    for line in lines:
        drawn.add_row(*(line[heading] for heading in headings))
    console.print(drawn if schedules else "There are no schedules.")
    for schedule in schedules:
        if schedule.note:
            console.say(f"{schedule.name}: {schedule.note}")


def _cells(schedule: ScheduleView) -> dict[str, str]:
    due = formats.moment(schedule.next_due_at) if schedule.next_due_at else "never"
    return {
        "schedule": schedule.name,
        "project": schedule.project,
        "cron": schedule.cron,
        "time zone": schedule.timezone,
        "suite": schedule.suite,
        "revision": schedule.revision_rule,
        "explores": formats.duration(schedule.explore_s) if schedule.explore_s else "",
        "requires": " ".join(f"{label}={value}" for label, value in schedule.requires.items()),
        "next": due if schedule.enabled else "disabled",
    }
