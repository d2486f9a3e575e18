"""`throughline demo`: a history to look around in, without a GPU and without waiting for nights."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from cli import interrupts
from cli.client import ServiceClient
from cli.demo.fill import NOTICE, fill
from cli.local import ports
from cli.local.state_dir import StateFolder
from cli.local.supervisor import Ensemble
from cli.output.console import Console
from service.database.migrate import upgrade
from service.database.session import Database

HOST = "127.0.0.1"
_LOOK_S = 1.0


def demo(
    *,
    port: Annotated[
        int | None,
        typer.Option(
            min=1, max=65_535, help="Port to listen on; by default 8765 or the next free."
        ),
    ] = None,
) -> None:
    """Serve a simulated history, and our own results beside it, to look around in.

    Thirty nights of two simulated GPUs, and the ladder as it was measured on an NVIDIA H200. Each
    page says which is which. Only this machine reaches it, and anybody on it may change things. It
    lives in a temporary folder, which goes with Ctrl-C; a database of yours is not touched.
    """
    interrupts.as_ctrl_c()
    say = Console(stderr=True).say
    chosen = ports.choose(HOST, port)
    with TemporaryDirectory(prefix="throughline-demo-") as name:
        url = f"sqlite:///{name}/demo.sqlite3"
        say("Simulating thirty nights; this takes some ten seconds.")
        logging.disable()  # what is found there is no news to anybody's terminal
        upgrade(url)
        database = Database(url)
        fill(database)
        database.close()
        settings = {
            "THROUGHLINE_ACCESS": "open",
            "THROUGHLINE_DATABASE_URL": url,
            "THROUGHLINE_NOTICE": NOTICE,
        }
        serve_until_interrupted(Ensemble(StateFolder(Path(name)), HOST, chosen, settings), say)


def serve_until_interrupted(ensemble: Ensemble, say: Callable[[str], None]) -> None:
    """Run the service; Ctrl-C ends it, which is how a demo ends well."""
    try:
        ensemble.start_service()
        with ServiceClient(ensemble.url, "") as client:
            ensemble.await_service(client)
        say(f"Dashboard: {ensemble.url}/ (Ctrl-C ends it, and removes everything)")
        while True:
            time.sleep(_LOOK_S)
            ensemble.check()
    except KeyboardInterrupt:
        return
    finally:
        ensemble.stop(say, at_once=True)
