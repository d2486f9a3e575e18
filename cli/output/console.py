"""The console, its tables and formats: strangers' words are shown as they are, none is obeyed."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Any, TextIO

from rich import box, console
from rich.table import Table
from rich.text import Text

from benchmarks.terminal import LINES, printable
from cli.exits import Stop

PAPER_WIDTH = 140
"""Columns of what is no terminal: a log or a file has no edge at which words must be cut."""


class Console(console.Console):
    """A terminal or a file; a string is text and never markup, in a table's cells too."""

    def __init__(
        self,
        *,
        file: TextIO | None = None,
        stderr: bool = False,
        width: int | None = None,
        force_terminal: bool | None = None,
        highlight: bool = True,
    ) -> None:
        super().__init__(
            file=file,
            stderr=stderr,
            width=width,
            force_terminal=force_terminal,
            highlight=highlight,
            markup=False,
            emoji=False,
        )

    @property
    def is_roomy(self) -> bool:
        """True where a list has room for more than what names its items."""
        return self.width >= 120

    def render_str(self, text: str, **how: Any) -> Text:
        """Make a string renderable; rich asks for this wherever it is given one."""
        return super().render_str(printable(text, LINES), **how)

    def say(self, text: str, style: str = "") -> None:
        """Print a line without colours of its own; a terminal breaks it where it must."""
        self.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def paper() -> Console:
    """Return the console for tables: the terminal at its width, or a file with room enough."""
    console = Console()
    return console if console.is_terminal else Console(width=max(PAPER_WIDTH, console.width))


def table(*headings: str, right: Collection[str] = (), whole: Collection[str] = ()) -> Table:
    """Make an empty table; columns of ``right`` end at the right, cells of ``whole`` stay whole."""
    made = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    for heading in headings:
        side: Any = "right" if heading in right else "left"
        made.add_column(heading, justify=side, no_wrap=heading in whole)
    return made


class OutputFormat(StrEnum):
    """The formats in which a report or a comparison is printed."""

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
