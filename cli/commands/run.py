"""`throughline run`: any command that measures, with a history and a gate."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from cli import exits, foreign_command, foreign_points, interrupts, options
from cli.client import ServiceClient
from cli.commands.gate import GateCommand
from cli.durations import seconds
from cli.gate import forms, order
from cli.gate.run import exit_code
from cli.output import lines
from cli.staging import Staging

COMMAND = GateCommand


def run(
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND...", help="What measures.")],
    *,
    format_name: Annotated[
        str | None, typer.Option("--format", help="Format of its numbers; by default as they look.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="FILE", help="It writes them here; by default to stdout."),
    ] = None,
    repeat: Annotated[
        int, typer.Option(min=1, max=50, help="Processes; each gives one sample.")
    ] = 1,
    timeout: Annotated[
        str, typer.Option(metavar="1h", help="Longest time of a process, which is then ended.")
    ] = "1h",
    revision: Annotated[
        str | None,
        typer.Option("--revision", "-r", help="What is measured; by default the commit here."),
    ] = None,
    source: options.Source = None,
    project: options.Project = None,
    against: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Compare with this checkout; nothing is kept."),
    ] = None,
    budget: Annotated[str, typer.Option(metavar="20m", help="Wall clock of a comparison.")] = "20m",
    max_regression: Annotated[
        str, typer.Option(metavar="2%", help="Change for the worse that may pass.")
    ] = "0",
    margin: Annotated[
        str, typer.Option(metavar="1%", help="What is surely less than this counts as the same.")
    ] = "1%",
    inconclusive: Annotated[
        order.Inconclusive, typer.Option(help="How to end when it could not decide.")
    ] = order.Inconclusive.TWO,
    url: options.Url = options.DEFAULT_URL,
) -> None:
    """Run a command that measures in processes of its own, and keep or compare its numbers.

    They become series of their source, as with `import`. With --against the command runs in turn
    in FOLDER and here, until every benchmark is decided or the budget ends. The exit code is then
    that of `gate`: 0 for a pass, 1 for a regression, 2 if it could not decide, 64 for wrong usage.
    A command that fails ends with 1, its last lines, and nothing kept.
    """
    interrupts.as_ctrl_c()
    try:
        measuring = foreign_command.ForeignCommand(
            tuple(command), format_name, output, seconds(timeout)
        )
        if against is None:
            _keep(measuring, repeat, revision, source, project, url)
            return
        limit = {"max_regression": max_regression, "margin": margin}
        code = _compare(measuring, against, budget, limit, inconclusive)
    except exits.Stop as stop:
        wrong = stop.code is exits.Exit.USAGE
        raise exits.Stop(stop.sentence, exits.Exit.GATE_USAGE if wrong else stop.code) from stop
    raise typer.Exit(code)


def _keep(
    command: foreign_command.ForeignCommand,
    repeat: int,
    revision: str | None,
    source: str | None,
    project: str | None,
    url: str,
) -> None:
    """Measure, and import what came out at the revision that was measured."""
    here = Path.cwd()
    version = foreign_points.named(revision or "HEAD", here)
    runs = []
    for number in range(1, repeat + 1):
        format_name, measured = command.measure(here)
        runs.append(measured)
        if repeat > 1:
            lines.remark(f"Process {number} of {repeat} has ended.")
    kept = (foreign_points.at_revision(point, version) for point in foreign_command.together(runs))
    with ServiceClient(url) as client, Staging(kept) as points:
        new = foreign_points.send(client, source or format_name, project, points)
    lines.say(f"{new} new points at {version.revision}, {points.count - new} known.")


def _compare(
    command: foreign_command.ForeignCommand,
    against: Path,
    budget: str,
    limit: dict[str, str],
    inconclusive: order.Inconclusive,
) -> int:
    """Compare the checkout here with another one, and print what came of it."""
    from cli.gate.checkouts import Checkouts

    if not against.is_dir():
        raise exits.Stop(f"{against} is no folder: name a checkout of the baseline.")
    policy = order.checked({"rules": [{"limits": [limit]}]}, "The limit")
    shares = policy["rules"][0]["limits"][0]
    checkouts = Checkouts(command, against.resolve(), Path.cwd(), **shares)
    decision = checkouts.decide(seconds(budget))
    if checkouts.added:
        lines.remark(f"New here, and compared with nothing: {', '.join(checkouts.added)}.")
    baseline, contender = checkouts.revisions
    told = forms.tally(decision, one_revision=baseline == contender)
    text = forms.as_text(decision, f"{decision.outcome.value.upper()}: {told}")
    sys.stdout.write(text)
    return exit_code(decision.outcome, inconclusive)
