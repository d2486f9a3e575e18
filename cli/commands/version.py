"""`throughline version`, also as `throughline --version`."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.output.lines import say


def version() -> None:
    """Print the installed version."""
    from benchmarks.version import installed

    say(installed())


def _print(asked: bool) -> None:
    if asked:
        version()
        raise typer.Exit


def options(
    *,
    show: Annotated[
        bool, typer.Option("--version", callback=_print, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Take what stands before a subcommand."""
