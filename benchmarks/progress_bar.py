"""Shows a person where a measurement is: a bar at a terminal, else a line for each phase."""

from __future__ import annotations

import sys
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from benchmarks.contracts import Progress
from benchmarks.terminal import LINES, printable


class ProgressBar:
    """Writes to standard error while its ``with`` block lasts."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._phase = ""
        self._bar: Bar | None = None
        self._task = TaskID(0)
        if sys.stderr.isatty():
            self._bar = Bar(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TextColumn("{task.fields[note]}", markup=False),
                TimeElapsedColumn(),
                console=Console(stderr=True),
                refresh_per_second=4,
            )
            self._task = self._bar.add_task(title, total=1.0, note="")

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, now: Progress) -> None:
        """Show where the measurement is now."""
        if self._bar is not None:
            rate = f" {now.throughput:,.0f} {now.unit}" if now.throughput else ""
            place = f" ({now.replicate}/{now.replicates})" if now.replicates > 1 else ""
            note, title = f"{now.phase}{rate}", self._title + place
            self._bar.update(self._task, completed=now.fraction, note=note, description=title)
        elif now.phase != self._phase:
            self.write(f"{now.phase} ...\n".encode())
        self._phase = now.phase

    def write(self, text: bytes) -> None:
        """Pass on what the measured program wrote, above the bar if there is one."""
        words = text.decode(errors="replace")
        if self._bar is None:
            print(words, end="", file=sys.stderr, flush=True)  # noqa: T201 - this is for a person
        else:
            shown = printable(words, LINES)
            self._bar.console.print(shown, end="", markup=False, highlight=False, soft_wrap=True)
