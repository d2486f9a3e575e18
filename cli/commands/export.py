"""`throughline export`: the points of series, in a format that other tools read."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from cli import options
from cli.client import ServiceClient, read
from cli.exits import Stop
from cli.output.lines import remark
from service.schemas.jobs import Listing
from service.schemas.measured_elsewhere import ForeignPoint
from service.schemas.series import Series
from service.wording.formats import counted

SERIES, POINTS = 500, 1_000
"""Of one answer."""


def export(
    *,
    format_name: Annotated[
        str, typer.Option("--format", help="The format, such as csv or jsonl.")
    ] = "csv",
    case: Annotated[
        str | None, typer.Option(metavar="KEY", help="Only this case or benchmark, by its key.")
    ] = None,
    metric: Annotated[str | None, typer.Option(help="Only this metric.")] = None,
    source: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only what was imported from this source.")
    ] = None,
    project: options.Project = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="By default stdout."),
    ] = None,
    url: options.Url = options.DEFAULT_URL,
) -> None:
    """Write the points of series, measured or imported, in a format of another tool.

    What is excluded or was disturbed is left out. A measured point has its value and interval; an
    imported one is as it came. A file that is there is not overwritten.
    """
    from cli import formats

    if output is not None and output.exists():
        raise Stop(f"{output} exists already; nothing is overwritten.")
    with ServiceClient(url) as client:
        points = list(_points(client, source, case=case, metric=metric, project=project))
    if not points:
        asked = "--case, --metric, --source and --project"
        raise Stop(f"No series has a point that counts: check {asked}.")
    try:
        if output is None:
            formats.write(points, format_name, sys.stdout.buffer)
        else:
            with output.open("xb") as stream:
                formats.write(points, format_name, stream)
    except formats.FormatError as error:
        if output is not None:
            output.unlink(missing_ok=True)
        raise Stop(error.sentence) from error
    except OSError as error:
        if output is None:
            raise
        raise Stop(f"{output} cannot be written: {error.strerror}.") from error
    remark(f"{counted(len(points), 'point')} written.")


def _points(
    client: ServiceClient, source: str | None, **filters: str | None
) -> Iterator[ForeignPoint]:
    """Fetch the points of all series that meet the filters, series by series."""
    cursor: str | None = None
    while True:
        text = client.text("series", **filters, limit=SERIES, cursor=cursor)
        page = read(Listing[Series], text)
        for series in page.items:
            if source is not None and series.source != source:
                continue
            yield from _of_series(client, series.id)
        cursor = page.next_cursor
        if cursor is None:
            return


def _of_series(client: ServiceClient, series_id: str) -> Iterator[ForeignPoint]:
    cursor: str | None = None
    while True:
        text = client.text("series", series_id, "export", limit=POINTS, cursor=cursor)
        page = read(Listing[ForeignPoint], text)
        yield from page.items
        cursor = page.next_cursor
        if cursor is None:
            return
