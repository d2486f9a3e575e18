"""How a report or a comparison is printed."""

from enum import StrEnum

from cli.console import Console
from cli.exits import Stop

PAPER_WIDTH = 140
"""Columns of what is no terminal: a log or a file has no edge at which words must be cut."""


class Form(StrEnum):
    """The forms that there are."""

    TABLE = "table"
    MARKDOWN = "markdown"
    JSON = "json"


def chosen(*, markdown: bool, as_json: bool) -> Form:
    """Read the two switches.

    Raises:
        Stop: both were given.
    """
    if markdown and as_json:
        raise Stop("Choose one of --markdown and --json.")
    return Form.MARKDOWN if markdown else Form.JSON if as_json else Form.TABLE


def paper() -> Console:
    """What tables are printed on: the terminal at its width, or a file with room enough."""
    console = Console()
    return console if console.is_terminal else Console(width=max(PAPER_WIDTH, console.width))
