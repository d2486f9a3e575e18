"""`throughline detect`: where the level of a history changed, without a service."""

from __future__ import annotations

from typing import Annotated

import typer


def detect(
    source: Annotated[
        str, typer.Argument(metavar="FILE", help="JSON lines or CSV; - reads standard input.")
    ] = "-",
    *,
    online: Annotated[
        bool, typer.Option("--online", help="Replay point by point: what is announced, and when.")
    ] = False,
    detector: Annotated[
        str, typer.Option(help="Which detector: steps, or a fixed ratio.")
    ] = "steps",
    threshold: Annotated[
        float | None,
        typer.Option(help="The detector's threshold; its default serves every series."),
    ] = None,
    csv: Annotated[
        bool, typer.Option("--csv", help="Read CSV; by default as the file's name says.")
    ] = False,
    direction: Annotated[
        str,
        typer.Option(help="Which way is better where a history does not say: higher or lower."),
    ] = "lower",
) -> None:
    """Print where the level of each history changed, as JSON lines.

    A line of the input has the values of one history, in the order of their revisions; optional are
    id, direction, groups (the machine behind each value) and revisions. CSV has one row per point
    with the columns value and id, or one column per history; group and revision are optional.

    A history that cannot be judged has an error in its line, and the exit code is 1. Input that is
    no history is wrong usage (2).
    """
    from cli import detect as detecting

    wanted = detecting.DetectOptions(online, detector, threshold)
    reads_csv = csv or source.lower().endswith(".csv")
    raise typer.Exit(detecting.run(source, wanted, direction, csv=reads_csv))
