"""The formats in which a report or a comparison is printed."""

from enum import StrEnum

from cli.exits import Stop
from cli.output.console import Console

ROOMY = 120
"""Columns of a terminal from which on a list has room for more than what names its items."""
PAPER_WIDTH = 140
"""Columns of what is no terminal: a log or a file has no edge at which words must be cut."""


class OutputFormat(StrEnum):
    """The forms that there are."""

    TABLE = "table"
    MARKDOWN = "markdown"
    JSON = "json"


def chosen(*, markdown: bool, as_json: bool) -> OutputFormat:
    """Read the two switches.

    Raises:
        Stop: both were given.
    """
    if markdown and as_json:
        raise Stop("Choose one of --markdown and --json.")
    return (
        OutputFormat.MARKDOWN if markdown else OutputFormat.JSON if as_json else OutputFormat.TABLE
    )


def paper() -> Console:
    """Return the console for tables: the terminal at its width, or a file with room enough."""
    console = Console()
    return console if console.is_terminal else Console(width=max(PAPER_WIDTH, console.width))
