"""`throughline gate`: measure two revisions against each other, and answer with an exit code."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from cli import options
from cli.exits import Exit
from cli.gate.forms import GateFormat
from cli.gate.order import GateOptions, Inconclusive
from cli.gate.run import run


class GateCommand(TyperCommand):
    """A command whose wrong usage ends with 64: its 2 says that a gate could not decide."""

    def make_context(self, *arguments: Any, **named: Any) -> Any:
        """Read the arguments; the library's errors of usage carry the exit code 2."""
        try:
            return super().make_context(*arguments, **named)
        except Exception as error:
            if getattr(error, "exit_code", None) == Exit.USAGE:
                error.exit_code = int(Exit.GATE_USAGE)  # type: ignore[attr-defined]
            raise


COMMAND = GateCommand


Baseline = Annotated[
    str | None,
    typer.Option(
        help="The revision to compare with; by default where this branch left the main branch."
    ),
]


PullRequest = Annotated[
    str | None,
    typer.Option(
        metavar="FORGE:REPOSITORY#NUMBER",
        help="The pull request to be told; by default the one that CI runs for.",
    ),
]


PolicyFile = Annotated[
    Path | None, typer.Option(help="TOML or JSON file with limits per case: docs/gate.md.")
]
PushChanges = Annotated[
    bool,
    typer.Option(
        "--push-changes",
        help="Push the changes of tracked files to origin, on no branch, and gate those.",
    ),
]


def gate(
    *,
    baseline: Baseline = None,
    contender: Annotated[
        str | None,
        typer.Option(help="The revision under test; by default the commit checked out here."),
    ] = None,
    suite: Annotated[str | None, typer.Option(help="Measure the cases of this suite.")] = None,
    case: Annotated[
        list[str] | None,
        typer.Option(metavar="'WORKLOAD AXIS=VALUE ...'", help="Measure this case; repeatable."),
    ] = None,
    max_regression: Annotated[
        str | None,
        typer.Option(metavar="2%", help="Slowdown that may pass; by default none that is sure."),
    ] = None,
    margin: Annotated[
        str | None,
        typer.Option(metavar="1%", help="What is surely less than this counts as the same."),
    ] = None,
    budget: Annotated[
        str, typer.Option(metavar="20m", help="Wall clock for all of it, waiting included.")
    ] = "20m",
    policy: PolicyFile = None,
    require: options.Require = None,
    worker: Annotated[str | None, typer.Option(help="The worker that measures all.")] = None,
    project: options.Project = None,
    duet: Annotated[
        bool,
        typer.Option("--duet/--no-duet", help="Measure both in turn, or each by itself."),
    ] = True,
    shown_as: Annotated[
        GateFormat, typer.Option("--format", help="How to print it.")
    ] = GateFormat.TEXT,
    output: Annotated[
        Path | None, typer.Option(help="Write it to this file instead of stdout.")
    ] = None,
    inconclusive: Annotated[
        Inconclusive, typer.Option(help="How to end when it could not decide.")
    ] = Inconclusive.TWO,
    idempotency_key: Annotated[
        str | None, typer.Option(help="The same key starts one, however often CI retries.")
    ] = None,
    pull_request: PullRequest = None,
    push_changes: PushChanges = False,
    url: options.Url = options.DEFAULT_URL,
) -> None:
    """Measure two revisions in turn on one device until every case is decided or the budget ends.

    The exit code is 0 for a pass, 1 for a regression, 2 if it could not decide, 64 for wrong usage
    (such as a revision that no worker has), 4 if somebody cancelled the comparison. Ctrl-C and
    SIGTERM cancel it with its jobs; the same key then starts another one.
    """
    order = GateOptions(
        baseline,
        contender,
        suite,
        tuple(case or ()),
        max_regression,
        margin,
        policy,
        budget,
        tuple(require or ()),
        worker,
        idempotency_key,
        project,
        duet,
        pull_request,
        push_changes,
    )
    raise typer.Exit(run(url, order, shown_as, output, inconclusive))
