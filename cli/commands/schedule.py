"""`throughline schedule`: suites that are measured at set times."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.options import DEFAULT_URL, Json, Project, Url

app = typer.Typer(help="List, set, delete and fire schedules.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="The schedule's name.")]


@app.command("list")
def list_schedules(*, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """List schedules with the time that each is due next."""
    from cli import schedule

    schedule.show_list(url, as_json=as_json)


@app.command("set")
def set_schedule(
    name: Name,
    *,
    cron: Annotated[str, typer.Option(help="Five fields, such as '0 2 * * *'.")],
    suite: Annotated[str, typer.Option(help="What to measure.")],
    timezone: Annotated[str, typer.Option(help="Such as Europe/Zurich.")] = "UTC",
    revision_rule: Annotated[
        str,
        typer.Option(help="date: named after the day; latest: the newest known; fixed:REVISION."),
    ] = "date",
    require: Annotated[
        list[str] | None,
        typer.Option(metavar="LABEL=VALUE", help="What the worker must be, such as device=cuda."),
    ] = None,
    project: Project = None,
    enabled: Annotated[bool, typer.Option("--enabled/--disabled", help="Whether it fires.")] = True,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Make a schedule, or replace the one of that name."""
    from cli import schedule

    requires = tuple(require or ())
    wanted = schedule.ScheduleOptions(
        cron, timezone, suite, revision_rule, requires, enabled, project
    )
    schedule.put(url, name, wanted, as_json=as_json)


@app.command("delete")
def delete(name: Name, *, url: Url = DEFAULT_URL) -> None:
    """Forget a schedule; what it has submitted stays."""
    from cli import schedule

    schedule.delete(url, name)


@app.command("fire")
def fire(name: Name, *, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """Submit a schedule's suite now, whenever it is due."""
    from cli import schedule

    schedule.fire(url, name, as_json=as_json)
