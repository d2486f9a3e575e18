"""`throughline up`: the first command that anyone runs."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.options import DEFAULT_STATE_DIR, Revision, StateDir


def up(
    *,
    once: Annotated[
        bool, typer.Option("--once", help="End when the suite is in; exit code 1 if a case failed.")
    ] = False,
    suite: Annotated[str, typer.Option(help="What to measure first.")] = "smoke",
    revision: Revision = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(
            min=1, max=65_535, help="Port to listen on; by default 8765 or the next free."
        ),
    ] = None,
    state_dir: StateDir = DEFAULT_STATE_DIR,
) -> None:
    """Start a service and a worker here, measure the smoke suite, show it, and go on serving.

    Each NVIDIA GPU gets a worker; without one the CPU does, with small presets. Run again, it
    continues the same history. One up at a time uses a state folder; each process logs into its
    folder logs. Ctrl-C stops everything that it started, after the case that is being measured; a
    second one gives that case back at once.
    """
    from cli import up as starting
    from cli.local.state_dir import StateFolder

    plan = starting.Plan(StateFolder(state_dir), host, port, suite, revision, once)
    raise typer.Exit(starting.run(plan))
