"""`throughline`: the subcommands put together, and every ending turned into an exit code.

A subcommand is one file in `cli/commands/`, which imports what is heavy only once it is called:
`throughline --help` must not wait for a database or for torch.
"""

from __future__ import annotations

import sys

import typer

from cli.commands import (
    backup,
    bench,
    compare,
    detect,
    diagnose,
    findings,
    gate,
    jobs,
    migrate,
    report,
    schedule,
    serve,
    submit,
    token,
    trace,
    up,
    verify,
    version,
)
from cli.commands import worker as worker_command
from cli.exits import EXIT_CODES, Exit, Stop
from cli.output import lines
from cli.output.lines import say
from cli.settings import wrong_settings

app = typer.Typer(
    name="throughline",
    help="Measures how fast PyTorch trains on your own GPUs, keeps the history, says what changed.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.callback()(version.options)
app.command("up")(up.up)
app.command("serve")(serve.serve)
app.add_typer(worker_command.app, name="worker")
app.command("bench")(bench.bench)
app.command("diagnose")(diagnose.diagnose)
app.command("submit")(submit.submit)
app.command("report")(report.report)
app.command("trace")(trace.trace)
app.command("compare")(compare.compare)
app.command("gate", cls=gate.GateCommand)(gate.gate)
app.command("detect")(detect.detect)
app.add_typer(jobs.app, name="jobs")
app.add_typer(findings.app, name="findings")
app.add_typer(schedule.app, name="schedule")
app.add_typer(token.app, name="token")
app.command("migrate")(migrate.migrate)
app.command("backup")(backup.backup)
app.command("restore")(backup.restore)
app.command("verify")(verify.verify)
app.command("version")(version.version)


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
        say(stop.sentence, sys.stderr)
        sys.exit(stop.code)
    except ValueError as error:
        if not (told := wrong_settings(error)):
            raise
        say(told, sys.stderr)
        sys.exit(Exit.USAGE)
