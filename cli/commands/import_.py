"""`throughline import`: the history that other tools have written becomes series here."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli import exits, foreign_points, options
from cli.client import ServiceClient
from cli.output import console, lines
from cli.revision import Version
from cli.staging import Staging
from service.schemas.measured_elsewhere import ForeignPoint
from service.wording import formats as words

if TYPE_CHECKING:
    from cli.formats import Reading


def import_(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="What the tool wrote.")],
    *,
    format_name: Annotated[
        str | None, typer.Option("--format", help="Its format; by default as the file looks.")
    ] = None,
    source: options.Source = None,
    revision: Annotated[
        str | None,
        typer.Option(
            "--revision",
            "-r",
            help="Of points that name none; HEAD: the commit that is checked out here.",
        ),
    ] = None,
    project: options.Project = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be imported.")] = False,
    url: options.Url = options.DEFAULT_URL,
) -> None:
    """Import what other tools measured: each benchmark becomes a series, judged like the others.

    The same files may be imported again: points that are known change nothing.
    """
    with ExitStack() as closing:
        by_source: dict[str, Staging] = {}
        for path in files:
            reading = _begun(path, format_name)
            name = source or reading.format
            if name not in by_source:
                by_source[name] = closing.enter_context(Staging())
            _stage(by_source[name], reading, path, revision)
        if dry_run:
            _print(by_source)
            return
        with ServiceClient(url) as client:
            for name, points in by_source.items():
                new = foreign_points.send(client, name, project, points)
                lines.say(f"{name}: {new:,} new and {points.count - new:,} known points.")


def _begun(path: Path, format_name: str | None) -> Reading:
    from cli import formats

    with foreign_points.readable():
        return formats.begin(path, format_name)


def _stage(points: Staging, reading: Reading, path: Path, revision: str | None) -> None:
    """Put all points of a file with the others, before any is sent."""
    before, nameless = points.count, points.nameless
    try:
        with foreign_points.readable():
            for point in _with_revision(reading.points, revision):
                points.add(point)
    except sqlite3.OperationalError as error:
        raise exits.Stop(
            f"The points do not fit into the folder for temporary files ({error}): set TMPDIR."
        ) from error
    count, nameless = points.count - before, points.nameless - nameless
    _tell(reading, path, count)
    if nameless:
        raise exits.Stop(
            f"{nameless:,} of {words.counted(count, 'point')} name no commit: say which one "
            "with --revision, or --revision HEAD for the one checked out here.",
            exits.Exit.USAGE,
        )


def _tell(one: Reading, path: Path, count: int) -> None:
    lines.remark(f"{path}: {words.counted(count, 'point')} of {one.format}.")
    if one.losses:
        lines.remark(f"{one.format} does not say: {', '.join(one.losses)}.")
    for note in one.notes:
        lines.remark(f"Note: {note}.")


def _with_revision(points: Iterable[ForeignPoint], revision: str | None) -> Iterator[ForeignPoint]:
    version: Version | None = None
    for point in points:
        if point.revision is None and revision:
            version = version or foreign_points.named(revision, Path.cwd())
            yield foreign_points.at_revision(point, version)
        else:
            yield point


def _print(by_source: dict[str, Staging]) -> None:
    drawn = console.table(
        "source", "benchmark", "metric", "points", "commits", right=["points", "commits"]
    )
    for name, points in by_source.items():
        for benchmark, metric, number, commits in points.benchmarks():
            drawn.add_row(name, benchmark, metric, f"{number:,}", f"{commits:,}")
    console.paper().print(drawn)
    total = sum(points.count for points in by_source.values())
    lines.say(f"{words.counted(total, 'point')} would be imported; nothing was sent.")
