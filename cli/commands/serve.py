"""`throughline serve`: the service alone."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Literal

import typer

from cli import options
from cli.local import ports
from cli.settings import child_environment


def serve(
    *,
    host: Annotated[
        str, typer.Option(envvar="THROUGHLINE_HOST", help="Address to listen on.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(envvar="THROUGHLINE_PORT", min=1, max=65_535, help="Port to listen on.")
    ] = 8765,
    role: Annotated[
        Literal["all", "web", "analysis"],
        typer.Option(
            envvar="THROUGHLINE_ROLE",
            help="web: without the process that analyses results; analysis: that process alone.",
        ),
    ] = "all",
    state_dir: options.StateDir = options.DEFAULT_STATE_DIR,
) -> None:
    """Run the service alone: workers and people reach it over HTTP.

    The database is THROUGHLINE_DATABASE_URL, or SQLite in the state folder. It must be migrated:
    see `throughline migrate`. On an address that others reach it starts only once there is a token
    of an administrator (see `throughline token create`), or with THROUGHLINE_ACCESS=open.
    """
    if role != "analysis":
        ports.choose(host, port)
    given = {
        "THROUGHLINE_HOST": host,
        "THROUGHLINE_PORT": str(port),
        "THROUGHLINE_ROLE": role,
        "THROUGHLINE_STATE_DIR": str(state_dir),
    }
    # The service becomes this process: signals reach it without a middleman.
    os.execve(sys.executable, [sys.executable, "-m", "service"], child_environment(given))  # noqa: S606
