"""The console for tables and lines: strangers' words are shown as they are, none is obeyed."""

from __future__ import annotations

from typing import Any, TextIO

from rich import console
from rich.text import Text

from benchmarks.terminal import LINES, printable


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

    def render_str(self, text: str, **how: Any) -> Text:
        """Make a string renderable; rich asks for this wherever it is given one."""
        return super().render_str(printable(text, LINES), **how)
