"""`throughline doctor`."""

from __future__ import annotations

from dataclasses import asdict

import orjson
import typer

from cli import options
from cli.exits import Exit
from cli.output.lines import say
from worker import doctor as examination
from worker.doctor import Health, HealthCheck
from worker.settings import Settings


def doctor(
    *,
    device: options.WorkerDevice = "auto",
    state_dir: options.StateDir = options.DEFAULT_STATE_DIR,
    as_json: options.Json = False,
) -> None:
    """Say what is wrong with this machine, and what to do about it, before it measures.

    It reads and changes nothing. Exit code 1 if cases would fail or be wrong here.
    """
    machine = examination.look(Settings(device=device, state_dir=state_dir))
    results = examination.examined(machine)
    if as_json:
        document = [asdict(result) for result in results]
        say(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode())
    else:
        for result in results:
            _show(result)
    failed = any(result.health is Health.ERROR for result in results)
    raise typer.Exit(Exit.FAILED if failed else Exit.OK)


def _show(result: HealthCheck) -> None:
    say(f"{result.health.value:8} {result.subject:14} {result.sentence}")
    if result.remedy:
        say(f"{'':23} {result.remedy}")
