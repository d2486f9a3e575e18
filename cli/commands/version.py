"""`throughline version`, also as `throughline --version`."""

from __future__ import annotations

from benchmarks.version import installed
from cli.output.lines import say


def version() -> None:
    """Print the installed version."""
    say(installed())
