"""`throughline verify`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from cli.options import DEFAULT_STATE_DIR, Database, StateDir
from cli.output.lines import say


class VerifyFormat(StrEnum):
    """The formats in which the report is printed."""

    TEXT = "text"
    JSON = "json"


def verify(
    *,
    database: Database = None,
    format_: Annotated[
        VerifyFormat, typer.Option("--format", help="Text for people, or one JSON document.")
    ] = VerifyFormat.TEXT,
    state_dir: StateDir = DEFAULT_STATE_DIR,
) -> None:
    """Check that a database keeps the promises about jobs and results; changes nothing.

    It reads in one transaction and may run beside the service. Exit code 1 if a promise is broken:
    then the shortest history that shows it is printed. Exit code 3 if the database cannot be read.
    """
    from cli import verification

    report = verification.verify(database, state_dir)
    if format_ is VerifyFormat.JSON:
        say(verification.as_json(report))
    else:
        verification.show(report)
    raise typer.Exit(0 if report.kept else 1)
