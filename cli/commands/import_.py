"""`throughline import`: the history that other tools have written becomes series here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli import foreign_points, options
from cli.client import ServiceClient
from cli.exits import Exit, Stop
from cli.output.console import paper, table
from cli.output.lines import remark, say
from service.schemas.measured_elsewhere import ForeignPoint
from service.wording import formats as words

if TYPE_CHECKING:
    from cli.formats import FormatRead


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
    by_source: dict[str, list[ForeignPoint]] = {}
    for path in files:
        one = foreign_points.of_file(path, format_name)
        _tell(one, path)
        named = _with_revision(one.points, revision)
        by_source.setdefault(source or one.format, []).extend(named)
    if dry_run:
        _print(by_source)
        return
    with ServiceClient(url) as client:
        for name, points in by_source.items():
            done = foreign_points.send(client, name, project, points)
            say(f"{name}: {done.new:,} new and {done.known:,} known points.")


def _tell(one: FormatRead, path: Path) -> None:
    remark(f"{path}: {words.counted(len(one.points), 'point')} of {one.format}.")
    if one.losses:
        remark(f"{one.format} does not say: {', '.join(one.losses)}.")
    for note in one.notes:
        remark(f"Note: {note}.")


def _with_revision(points: Sequence[ForeignPoint], revision: str | None) -> Iterator[ForeignPoint]:
    nameless = sum(point.revision is None for point in points)
    if nameless and revision is None:
        raise Stop(
            f"{nameless:,} of {words.counted(len(points), 'point')} name no commit: say which one "
            "with --revision, or --revision HEAD for the one checked out here.",
            Exit.USAGE,
        )
    version = foreign_points.named(revision, Path.cwd()) if nameless and revision else None
    for point in points:
        lacks = point.revision is None and version is not None
        yield foreign_points.at_revision(point, version) if lacks and version else point


def _print(by_source: dict[str, list[ForeignPoint]]) -> None:
    drawn = table("source", "benchmark", "metric", "points", "commits", right=["points", "commits"])
    for name, points in by_source.items():
        count = Counter((one.benchmark, one.metric) for one in points)
        for (benchmark, metric), number in sorted(count.items()):
            commits = {
                one.revision for one in points if (one.benchmark, one.metric) == (benchmark, metric)
            }
            drawn.add_row(name, benchmark, metric, f"{number:,}", f"{len(commits):,}")
    paper().print(drawn)
    total = sum(map(len, by_source.values()))
    say(f"{words.counted(total, 'point')} would be imported; nothing was sent.")
