"""`throughline`: the subcommands put together, and every ending turned into an exit code.

A subcommand is one file in `cli/commands/`, imported once it is called: `throughline --help` must
not wait for a database or for torch.
"""

from __future__ import annotations

import sys
from importlib import import_module
from keyword import iskeyword
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from cli.exits import EXIT_CODES, Exit, Stop
from cli.output import lines
from cli.output.lines import remark
from cli.settings import wrong_settings

COMMANDS = {
    "up": "Start a service and a worker here, measure the smoke suite, show it, and go on serving.",
    "demo": "Serve a simulated history, and our own results beside it, to look around in.",
    "serve": "Run the service alone: workers and people reach it over HTTP.",
    "worker": "Take jobs from a service, measure them on this machine, send the results back.",
    "doctor": "Say what is wrong with this machine, and what to do about it, before it measures.",
    "bench": "Measure one case on this machine, without a service, and print what limits it.",
    "diagnose": "Say what stops a case on this machine, try what may lift it, and keep what "
    "helped.",
    "sweep": "Measure a case at several values of one axis on this machine, and name the knee.",
    "submit": "Submit a suite, or one case of a workload, at a revision.",
    "report": "Print the results of a submission, or the report of a night.",
    "trace": "Fetch the profiler's Chrome trace of a result that was submitted with --trace.",
    "compare": "Compare two revisions case by case.",
    "best": "Print the fastest case of each workload on each kind of hardware.",
    "gate": "Measure two revisions in turn on one device until every case is decided or the budget "
    "ends.",
    "bisect": "Search the commit that changed a case, or that a finding is about, pair by pair.",
    "import": "Import what other tools measured: each benchmark becomes a series, judged like the "
    "others.",
    "export": "Write the points of series, measured or imported, in a format of another tool.",
    "run": "Run a command that measures in processes of its own, and keep or compare its numbers.",
    "detect": "Print where the level of each history changed, as JSON lines.",
    "jobs": "List, show and cancel jobs.",
    "workers": "List workers; drain one, so that it gets no job, and resume it.",
    "findings": "List and show findings, and act on them.",
    "thresholds": "List, set and remove thresholds of findings.",
    "annotate": "Write beside the histories, at a revision or a date; list and remove that.",
    "outbox": "List what was sent to other programs, the newest first, or send something.",
    "schedule": "List, set, delete and fire schedules.",
    "token": "Make, list, renew and end tokens, where the service's database is.",
    "migrate": "Bring the database up to date: THROUGHLINE_DATABASE_URL, or SQLite in the state "
    "folder.",
    "backup": "Copy the database to a file while the service goes on, and check the copy.",
    "restore": "Make the database out of a backup; one that is there is never overwritten.",
    "verify": "Check that a database keeps the promises about jobs and results; changes nothing.",
    "version": "Print the installed version.",
}
"""The first sentence of each subcommand's own help, shown without importing it."""


class Subcommands(TyperGroup):
    """Lists subcommands from the table above, and imports the one that is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the subcommand that the first argument names."""
        name, _, rest = super().resolve_command(ctx, args)
        return name, load(name or ""), rest


def load(name: str) -> Any:
    """The subcommand in `cli.commands.NAME`: a group ``app``, or a function named as the file.

    A file cannot be named like a keyword of Python: `import_.py` has ``import``.
    """
    named = f"{name}_" if iskeyword(name) else name
    module = import_module(f"cli.commands.{named}")
    parent = typer.Typer(pretty_exceptions_enable=False)
    parent.callback()(lambda: None)
    if hasattr(module, "app"):
        parent.add_typer(module.app, name=name)
    else:
        parent.command(name, cls=getattr(module, "COMMAND", None))(getattr(module, named))
    return typer.main.get_group(parent).commands[name]


app = typer.Typer(
    name="throughline",
    cls=Subcommands,
    help="Measures how fast PyTorch trains on your own GPUs, keeps the history, says what changed.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _name, _summary in COMMANDS.items():
    app.command(_name, help=_summary)(lambda: None)


def _print_version(asked: bool) -> None:
    if asked:
        load("version").callback()
        raise typer.Exit


@app.callback()
def options(
    *,
    show: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Take what stands before a subcommand."""


def main() -> None:
    """Run the command line; an expected error is one sentence on stderr and its exit code."""
    lines.show_on_any_terminal()
    try:
        try:
            app(prog_name="throughline")
        finally:
            lines.flush()
    except OSError as error:
        if not lines.was_lost(error):
            raise
        lines.give_up(error)
        sys.exit(Exit.FAILED)
    except Stop as stop:
        remark(stop.sentence)
        sys.exit(stop.code)
    except ValueError as error:
        if not (sentence := wrong_settings(error)):
            raise
        remark(sentence)
        sys.exit(Exit.USAGE)
