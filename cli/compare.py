"""Shows two revisions side by side."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.table import Table
from rich.text import Text

from cli import revision
from cli.client import ServiceClient, read
from cli.exits import Away, Exit, Stop
from cli.output import output_format
from cli.output.console import Console
from cli.output.lines import say
from cli.output.output_format import OutputFormat
from cli.service_answers import ChangeView, ComparisonView, Estimate
from service import formats

_COLOUR = {"faster": "green", "slower": "red"}


@dataclass(frozen=True)
class Within:
    """The suite and the project that a comparison is limited to; None for all."""

    suite: str | None
    project: str | None


def run(url: str, baseline: str, contender: str, within: Within, shown_as: OutputFormat) -> Exit:
    """Print the comparison; a case that got slower fails, and so does one that nobody can tell."""
    with ServiceClient(url) as client:
        text = _comparison(client, baseline, contender, within)
        found = read(ComparisonView, text)
        if shown_as is OutputFormat.MARKDOWN:
            text = client.comparison(
                *(found.baseline, found.contender, within.suite, within.project), "markdown"
            )
    if shown_as is OutputFormat.TABLE:
        show(found.changes, found.baseline, found.contender, output_format.paper())
    else:
        say(text.rstrip("\n"))
    return outcome(found.changes)


def _comparison(client: ServiceClient, baseline: str, contender: str, within: Within) -> str:
    """Ask by the names as given; if the service does not know them, by the commits git knows."""
    try:
        return client.comparison(baseline, contender, within.suite, within.project)
    except Away:
        raise
    except Stop:
        given, here = (baseline, contender), Path.cwd()
        commits = [revision.commit_named(name, here) or name for name in given]
        if commits == [baseline, contender]:
            raise
        return client.comparison(commits[0], commits[1], within.suite, within.project)


def outcome(changes: Sequence[ChangeView]) -> Exit:
    """Print how many cases are unclear, undecided or missing, and return the exit code."""
    found = Counter(change.verdict for change in changes)
    undecided = sum(change.undecided for change in changes)
    if unclear := found["unclear"] - undecided:
        _remark(f"Not clear: {unclear} of {len(changes)} cases; the notes say why.")
    if undecided:
        _remark(f"Not decided: {undecided} of {len(changes)} cases; the notes say what it takes.")
    if found["missing"]:
        _remark(f"Not compared: {found['missing']} of {len(changes)} cases lack a result.")
    if found["slower"]:
        return Exit.FAILED
    return Exit.TIMEOUT if found["missing"] or undecided or not changes else Exit.OK


def _remark(sentence: str) -> None:
    say(sentence, sys.stderr)


def show(changes: Sequence[ChangeView], baseline: str, contender: str, console: Console) -> None:
    """Print one line a case."""
    if not changes:
        console.print(formats.NOTHING_TO_COMPARE, highlight=False, soft_wrap=True)
        return
    before, after = formats.revision(baseline), formats.revision(contender)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    table.add_column("case", min_width=22)
    for heading in (before, after, "change", "95 % interval"):
        table.add_column(heading, justify="right")
    table.add_column("verdict", no_wrap=True)
    several = len({change.project for change in changes}) > 1
    for change in changes:
        table.add_row(*_cells(change, several=several))
    console.print(table)
    for note in dict.fromkeys(change.note for change in changes if change.note):
        said = sorted({change.verdict for change in changes if change.note == note})
        console.print(f"{' and '.join(said)}: {note}", style="dim", highlight=False)


def _cells(change: ChangeView, *, several: bool) -> tuple[str | Text, ...]:
    interval, owner = "", change.project if several else ""
    if change.change_low is not None and change.change_high is not None:
        interval = f"{formats.change(change.change_low)} to {formats.change(change.change_high)}"
    return (
        f"{change.case.key} of the project {owner}" if owner else change.case.key,
        _measured(change.baseline, change.unit),
        _measured(change.contender, change.unit),
        formats.DASH if change.change is None else formats.change(change.change),
        interval,
        Text(change.verdict, style=_COLOUR.get(change.verdict, "")),
    )


def _measured(estimate: Estimate | None, unit: str) -> str:
    if estimate is None:
        return formats.DASH
    spread = formats.half_width(estimate.value, estimate.low, estimate.high, unit)
    return f"{formats.quantity(estimate.value, unit)} {spread}".strip()
