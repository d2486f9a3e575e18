"""`throughline compare`: two revisions side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from pydantic import BaseModel
from rich.text import Text

from benchmarks.contracts import Result
from benchmarks.diagnosis import kernel_changes
from cli import exits, options, revision
from cli.client import ServiceClient, read
from cli.output import console as output
from cli.output import kernel_table, lines
from service.schemas import series
from service.wording import formats

_COLOUR = {"faster": "green", "slower": "red"}


def compare(
    base: Annotated[str, typer.Argument(help="The revision to compare with.")],
    contender: Annotated[str, typer.Argument(help="The revision under test.")],
    *,
    suite: Annotated[str | None, typer.Option(help="Only the cases of this suite.")] = None,
    project: Annotated[str | None, typer.Option(help="Only the histories of this project.")] = None,
    metric: Annotated[
        str | None, typer.Option(help="By default throughput; without it the commonest metric.")
    ] = None,
    kernels: Annotated[
        bool,
        typer.Option("--kernels", help="Also show the kernels of each case, and which changed."),
    ] = False,
    markdown: options.Markdown = False,
    url: options.Url = options.DEFAULT_URL,
    as_json: options.Json = False,
) -> None:
    """Compare two revisions case by case.

    It reads what was measured before, without the tier quick and without gates. The exit code is 1
    if a case got slower; else 4 if one lacks a result of either revision, or may have got slower
    and was not measured well enough. A case that is not clear otherwise leaves it at 0.
    """
    shown_as = output.chosen(markdown=markdown, as_json=as_json)
    if kernels and shown_as is not output.OutputFormat.TABLE:
        raise exits.Stop("--kernels is shown as a table only.")
    with ServiceClient(url) as client:
        text, compared = _comparison(client, (base, contender), suite, project, metric)
        if shown_as is output.OutputFormat.MARKDOWN:
            between = (compared.baseline, compared.contender)
            text = client.comparison(*between, suite, project, metric, "markdown")
        shown = _profiles(client, compared.changes) if kernels else []
    if shown_as is output.OutputFormat.TABLE:
        show(compared.changes, compared.baseline, compared.contender, output.paper())
        for case, before, after in shown:
            full = kernel_changes.of_full(before, after)
            kernel_table.show(case, before.profile, after.profile, output.paper(), full)
    else:
        lines.say(text.rstrip("\n"))
    raise typer.Exit(outcome(compared.changes))


class _StoredProfile(BaseModel):
    """A result as the service gives it, and the ids of all results of its point."""

    result: Result
    parts: tuple[str, ...]


def _profiles(
    client: ServiceClient, changes: Sequence[series.RevisionChange]
) -> list[tuple[str, Result, Result]]:
    """The case of each change that has both sides, with the runs that were profiled."""
    both = ((one.case.key, one.baseline, one.contender) for one in changes)
    return [
        (case, _profiled(client, before.result_id), _profiled(client, after.result_id))
        for case, before, after in both
        if before is not None and after is not None
    ]


def _profiled(client: ServiceClient, result_id: str) -> Result:
    """A point's first process, which has the profile where one was asked for."""
    stored = read(_StoredProfile, client.text("results", result_id))
    if stored.parts[:1] not in ((), (result_id,)):
        stored = read(_StoredProfile, client.text("results", stored.parts[0]))
    return stored.result


def _comparison(
    client: ServiceClient,
    names: tuple[str, str],
    suite: str | None,
    project: str | None,
    metric: str | None,
) -> tuple[str, series.Changes]:
    """Compare by the names as given; if the service does not know them, by git's commits of these
    names."""
    try:
        text = client.comparison(*names, suite, project, metric)
    except exits.Away:
        raise
    except exits.Stop:
        commits = [revision.commit_named(name, Path.cwd()) or name for name in names]
        if commits == [*names]:
            raise
        text = client.comparison(commits[0], commits[1], suite, project, metric)
    return text, read(series.Changes, text)


def outcome(changes: Sequence[series.RevisionChange]) -> exits.Exit:
    """Print how many cases are unclear, undecided or missing, and return the exit code."""
    verdicts = Counter(change.verdict for change in changes)
    undecided = sum(change.undecided for change in changes)
    if unclear := verdicts[series.ChangeVerdict.UNCLEAR] - undecided:
        lines.remark(f"Not clear: {unclear} of {len(changes)} cases; the notes say why.")
    if undecided:
        lines.remark(
            f"Not decided: {undecided} of {len(changes)} cases; the notes say what it takes."
        )
    if missing := verdicts[series.ChangeVerdict.MISSING]:
        lines.remark(f"Not compared: {missing} of {len(changes)} cases lack a result.")
    if verdicts[series.ChangeVerdict.SLOWER]:
        return exits.Exit.FAILED
    return exits.Exit.TIMEOUT if missing or undecided or not changes else exits.Exit.OK


def show(
    changes: Sequence[series.RevisionChange], baseline: str, contender: str, console: output.Console
) -> None:
    """Print one line a case."""
    if not changes:
        console.print(formats.NOTHING_TO_COMPARE, highlight=False, soft_wrap=True)
        return
    before, after = formats.revision(baseline), formats.revision(contender)
    right = (before, after, "change", "95 % interval")
    drawn = output.table("case", *right, "verdict", right=right, whole=("verdict",))
    drawn.columns[0].min_width = 22
    several = len({change.project for change in changes}) > 1
    for change in changes:
        drawn.add_row(*_cells(change, several=several))
    console.print(drawn)
    for note in dict.fromkeys(change.note for change in changes if change.note):
        said = sorted({change.verdict for change in changes if change.note == note})
        console.print(f"{' and '.join(said)}: {note}", style="dim", highlight=False)
    for left_out in sorted({change.left_out for change in changes} - {""}):
        line = (
            f"Some 95 % intervals are without {left_out}: the history does not say how they differ."
        )
        console.print(line, style="dim", highlight=False)


def _cells(change: series.RevisionChange, *, several: bool) -> tuple[str | Text, ...]:
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


def _measured(estimate: series.SeriesPoint | None, unit: str) -> str:
    if estimate is None:
        return formats.DASH
    spread = formats.half_width(estimate.value, estimate.low, estimate.high, unit)
    return f"{formats.quantity(estimate.value, unit)} {spread}".strip()
