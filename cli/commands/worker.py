"""`throughline worker`: measure what a service wants measured."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from pydantic import TypeAdapter, ValidationError

from benchmarks.contracts import Revision
from cli import exits, options
from cli.client import ServiceClient
from cli.output import lines
from cli.settings import child_environment
from worker.device import nvml
from worker.settings import Settings
from worker.state_dir import write_durably
from worker.targets.commands import BuildFailed
from worker.targets.definitions import BadTargets
from worker.targets.target import builds_of

app = typer.Typer(invoke_without_command=True)
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
    url: options.Url = options.DEFAULT_URL,
    device: options.WorkerDevice = "auto",
    gpus: Annotated[
        str,
        typer.Option(
            envvar="THROUGHLINE_GPUS",
            help="GPUs to offer together, such as 0,1; on a CPU as many processes.",
        ),
    ] = "",
    name: Name = "",
    once: Annotated[bool, typer.Option("--once", help="End when there is no work.")] = False,
    state_dir: options.StateDir = options.DEFAULT_STATE_DIR,
) -> None:
    """Take jobs from a service, measure them on this machine, send the results back.

    Ctrl-C lets it finish its job first; a second one has it give the job back at once. The exit
    code is 1 if it cannot work here (no such device, or another worker of its name), 2 if a setting
    is wrong or the service refuses it.
    """
    if context.invoked_subcommand is not None:
        return
    given = {
        "THROUGHLINE_URL": url,
        "THROUGHLINE_DEVICE": device,
        "THROUGHLINE_GPUS": gpus,
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
    url: options.Url = options.DEFAULT_URL,
    device: options.WorkerDevice = "auto",
    name: Name = "",
    state_dir: options.StateDir = options.DEFAULT_STATE_DIR,
) -> None:
    """Fetch this worker's own token, once, and keep it where only this user reads it."""
    settings = _settings(device, name, state_dir)
    path = settings.enrolled_token
    try:  # before the code is used up
        path.parent.mkdir(parents=True, exist_ok=True)
        write_durably(path, path.read_bytes() if path.exists() else b"")
        with ServiceClient(url) as client:
            write_durably(path, client.enroll(code, settings.name).encode())
    except OSError as error:
        raise exits.Stop(f"{path} cannot be written ({error.strerror}).") from error
    lines.say(f"This is the worker {settings.name} now; its token is in {path}.")
    lines.say(f"Start it: throughline worker --url {url} --name {settings.name} --device {device}")


@app.command("build")
def build(
    revision: Annotated[
        str,
        typer.Argument(help="A commit of one of its targets, or versions such as torch==2.12.0."),
    ],
    *,
    targets: Annotated[
        Path, typer.Option(envvar="THROUGHLINE_TARGETS", help="The file of targets.")
    ],
    state_dir: options.StateDir = options.DEFAULT_STATE_DIR,
) -> None:
    """Build a revision here, as a worker does when a job names it, and print its folder.

    One that could not be built before is tried again, which jobs do once a day.
    The exit code is 1 if it cannot be built, 2 if the file is wrong.
    """
    settings = Settings(targets=targets, state_dir=state_dir)
    try:
        checked = TypeAdapter(Revision).validate_python(revision)
        began_s = time.monotonic()
        folder = builds_of(settings, targets).folder_of(checked, anew=True)
    except ValidationError as error:
        raise exits.Stop(f"The revision {error.errors()[0]['msg']}.") from error
    except BadTargets as error:
        raise exits.Stop(str(error)) from error
    except (BuildFailed, OSError) as error:
        raise exits.Stop(str(error), exits.Exit.FAILED) from error
    if folder is None:
        raise exits.Stop(
            f"{revision} names no commit: give its id, or seven digits of it at least; or versions "
            "such as torch==2.12.0."
        )
    lines.remark(f"It was ready after {time.monotonic() - began_s:.1f} s.")
    lines.say(str(folder))


def _settings(device: str, name: str, state_dir: Path) -> Settings:
    """The settings that the worker will have here."""
    try:
        settings = Settings(device=device, worker_name=name, state_dir=state_dir)
        return settings.on_machine(device == "auto" and bool(nvml.devices()))
    except ValidationError as error:
        if ("device",) not in [problem["loc"] for problem in error.errors()]:
            raise
        raise exits.Stop(f"{device!r} is no device: auto, cpu, cuda or cuda:N.") from error
    except nvml.DriverFailed as failed:
        raise exits.Stop(
            f"{failed} Or name the device with --device.", exits.Exit.FAILED
        ) from failed
