"""`throughline annotate`: what people write beside the histories."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer

from cli import account, options
from cli.client import ServiceClient
from cli.output.console import paper, table
from cli.output.lines import say
from service.schemas.annotations import AnnotationView
from service.wording import formats

app = typer.Typer(
    help="Write beside the histories, at a revision or a date; list and remove that.",
    no_args_is_help=True,
)
Text = Annotated[str, typer.Argument(metavar="TEXT", help="One sentence.")]
Project = Annotated[
    str | None, typer.Option(help="Show it in this project alone; by default in all.")
]


@app.command("revision")
def annotate_revision(
    revision: Annotated[
        str, typer.Argument(metavar="REVISION", help="Its name, or the beginning of it.")
    ],
    text: Text,
    *,
    project: Project = None,
    actor: account.Actor = None,
    url: options.Url = options.DEFAULT_URL,
    as_json: options.Json = False,
) -> None:
    """Write about a revision."""
    _add({"revision": revision}, text, project, actor, url, as_json=as_json)


@app.command("date")
def annotate_date(
    date: Annotated[
        datetime,
        typer.Argument(
            metavar="DATE", formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M"], help="UTC; 2026-11-20T14:30."
        ),
    ],
    text: Text,
    *,
    project: Project = None,
    actor: account.Actor = None,
    url: options.Url = options.DEFAULT_URL,
    as_json: options.Json = False,
) -> None:
    """Write about a date, such as the day on which a machine was moved."""
    at = date.replace(tzinfo=UTC).isoformat()
    _add({"at": at}, text, project, actor, url, as_json=as_json)


@app.command("list")
def list_annotations(
    *,
    limit: options.Limit = 20,
    url: options.Url = options.DEFAULT_URL,
    as_json: options.Json = False,
) -> None:
    """List what people wrote, the newest first."""
    with ServiceClient(url) as client:
        page = client.annotations(limit=limit)
    if as_json:
        say(page.model_dump_json())
    else:
        _print(page.items)


@app.command("remove")
def remove(
    annotation: Annotated[str, typer.Argument(metavar="ID", help="The annotation's id.")],
    *,
    url: options.Url = options.DEFAULT_URL,
) -> None:
    """Remove an annotation."""
    with ServiceClient(url) as client:
        client.remove_annotation(annotation)
    say("The annotation is removed.")


def _add(
    about: dict[str, str],
    text: str,
    project: str | None,
    actor: str | None,
    url: str,
    *,
    as_json: bool,
) -> None:
    body = about | {"text": text, "actor": account.name_of(actor)}
    with ServiceClient(url) as client:
        made = client.annotate(body | ({"project": project} if project else {}))
    if as_json:
        say(made.model_dump_json())
    else:
        _print([made])


def _print(annotations: Sequence[AnnotationView]) -> None:
    drawn = table("at", "annotation", "by", "id", whole=["at", "id"])
    for column in drawn.columns:
        column.overflow = "fold"
    for one in annotations:
        at = formats.revision(one.revision) if one.revision else formats.moment(one.at)
        where = f" (project {one.project})" if one.project else ""
        drawn.add_row(at, one.text + where, one.actor, one.id)
    paper().print(drawn if annotations else "Nobody has written anything.")
