"""`throughline worker`: measure what a service wants measured."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from cli.options import DEFAULT_STATE_DIR, DEFAULT_URL, StateDir, Url

app = typer.Typer(invoke_without_command=True)
Device = Annotated[
    str, typer.Option(envvar="THROUGHLINE_DEVICE", help="auto, cpu, cuda or cuda:N.")
]
Name = Annotated[
    str,
    typer.Option(
        envvar="THROUGHLINE_WORKER_NAME", help="Unique among workers; by default host and device."
    ),
]


@app.callback()
def worker(
    context: typer.Context,
    *,
    url: Url = DEFAULT_URL,
    device: Device = "auto",
    name: Name = "",
    once: Annotated[bool, typer.Option("--once", help="End when there is no work.")] = False,
    state_dir: StateDir = DEFAULT_STATE_DIR,
) -> None:
    """Take jobs from a service, measure them on this machine, send the results back.

    Ctrl-C lets it finish its job first; a second one has it give the job back at once. The exit
    code is 1 if it cannot work here (no such device, or another worker of its name), 2 if a setting
    is wrong or the service refuses it.
    """
    from cli.settings import child_environment

    if context.invoked_subcommand is not None:
        return
    given = {
        "THROUGHLINE_URL": url,
        "THROUGHLINE_DEVICE": device,
        "THROUGHLINE_WORKER_NAME": name,
        "THROUGHLINE_ONCE": "true" if once else "",
        "THROUGHLINE_STATE_DIR": str(state_dir),
    }
    # The worker becomes this process: signals reach it without a middleman.
    environment = child_environment({key: value for key, value in given.items() if value})
    os.execve(sys.executable, [sys.executable, "-m", "worker"], environment)  # noqa: S606


@app.command("enroll")
def enroll(
    code: Annotated[str, typer.Argument(help="From `throughline token enrolment`.")],
    *,
    url: Url = DEFAULT_URL,
    device: Device = "auto",
    name: Name = "",
    state_dir: StateDir = DEFAULT_STATE_DIR,
) -> None:
    """Fetch this worker's own token, once, and keep it where only this user reads it."""
    from cli import enrolment

    enrolment.enroll(code, url, device, name, state_dir)
