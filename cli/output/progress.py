"""Shows how a submission gets on: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from typing import Protocol, Self

from rich.live import Live
from rich.table import Table
from rich.text import Text

from benchmarks.contracts import FINAL_STATES, JobState
from benchmarks.contracts import Progress as CaseProgress
from cli.output.console import Console
from service.schemas.jobs import JobView, SubmissionView
from service.wording import formats

_QUIET_S = 10.0
"""A case that goes on says so this often in plain lines."""
_WIDTHS = {"state": 9, "phase": 10, "done": 4, "rate": 14}
"""Columns beside the case's name, and how wide each is at least."""
_COLOUR = {
    JobState.SUCCEEDED: "green",
    JobState.FAILED: "red",
    JobState.QUARANTINED: "red",
    JobState.RUNNING: "cyan",
    JobState.LEASED: "cyan",
}


class View(Protocol):
    """Something that shows a submission as it changes; a context manager."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...
    def show(self, submission: SubmissionView) -> None:
        """Show the submission as it is now."""

    def say(self, sentence: str) -> None:
        """Say something beside it, in a line that stays."""


def view(console: Console) -> View:
    """The view that suits where the output goes."""
    return LiveTable(console) if console.is_terminal else PlainLines(console)


class LiveTable:
    """One line a case, redrawn in place, gone when it is over."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, transient=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, submission: SubmissionView) -> None:
        """Redraw."""
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", expand=True)
        table.add_column("case", ratio=1, no_wrap=True)  # what is left, cut where it must be
        for heading, width in _WIDTHS.items():
            table.add_column(heading, min_width=width, no_wrap=True)
        for job in submission.cases:
            phase, _, done, rate = _columns(job.progress)
            if job.state is JobState.SUCCEEDED:
                phase, done = "", "100%"  # the last progress that was told came before the end
            state = Text(job.state.value, style=_COLOUR.get(job.state, "dim"))
            table.add_row(job.case.key, state, phase, done, rate)
        self._live.update(table, refresh=True)

    def say(self, sentence: str) -> None:
        """Print above the table."""
        self._console.say(sentence)


def _columns(progress: CaseProgress | None) -> tuple[str, str, str, str]:
    """Phase, step, share done, rate."""
    if progress is None:
        return "", "", "", ""
    phase = progress.phase
    if progress.replicates > 1:
        phase += f" ({progress.replicate}/{progress.replicates})"
    step = str(progress.step) if progress.step else ""
    rate = formats.quantity(progress.throughput, progress.unit or "") if progress.throughput else ""
    return phase, step, f"{progress.fraction:.0%}", rate


class PlainLines:
    """A line whenever a case changes its state or phase, and now and then while it goes on."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._said: dict[str, tuple[str, float]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def show(self, submission: SubmissionView) -> None:
        """Print what is new."""
        for position, job in enumerate(submission.cases, start=1):
            stage = job.state.value + (f" {job.progress.phase}" if job.progress else "")
            before, at_s = self._said.get(job.group_id, ("queued", 0.0))
            now_s = time.monotonic()
            going = job.state in {JobState.RUNNING, JobState.LEASED}
            if stage != before or (going and now_s - at_s >= _QUIET_S):
                self._said[job.group_id] = (stage, now_s)
                self.say(f"[{position}/{len(submission.cases)}] {job.case.key}: {_words(job)}")

    def say(self, sentence: str) -> None:
        """Print a line."""
        self._console.say(sentence)


def _words(job: JobView) -> str:
    if job.state in FINAL_STATES:
        return f"{job.state.value}{f' ({job.reason})' if job.reason else ''}"
    phase, step, done, rate = _columns(job.progress)
    details = [phase, f"step {step}" if step else "", done, rate]
    return ", ".join([job.state.value, *filter(None, details)])
