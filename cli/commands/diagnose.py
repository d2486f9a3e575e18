"""`throughline diagnose`: what stops a model here, and what makes it faster."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from cli import interrupts, options, parse_case
from cli.durations import seconds
from cli.local import climb as climbing
from cli.local.measure import read_protocol, set_up
from cli.output import climb_report
from cli.output.console import Console, paper
from cli.output.lines import say


def diagnose(
    workload: Annotated[str, typer.Argument(help="What to train, such as resnet50.")],
    settings: Annotated[
        list[str] | None, typer.Argument(metavar="[AXIS=VALUE]...", help="Where to begin.")
    ] = None,
    *,
    budget: Annotated[
        str, typer.Option(metavar="10m", help="Wall clock for all of it, such as 90s or 1h.")
    ] = "10m",
    preset: options.Preset = None,
    device: options.Device = None,
    protocol: Annotated[
        str | None, typer.Option(help="How to time, as JSON; what it leaves out stays short.")
    ] = None,
    data_root: options.DataRoot = None,
    as_json: options.Json = False,
) -> None:
    """Say what stops a case on this machine, try what may lift it, and keep what helped.

    Each case is measured in a fresh process with short windows. The batch is never changed; name
    batch= to begin with another one. The exit code is 1 if the first case could not be measured, or
    if processes of a case do not leave the device.
    """
    first = parse_case.case(workload, settings or [], preset)
    timing = read_protocol(protocol, climbing.BRIEF)
    limit_s = seconds(budget)
    interrupts.as_ctrl_c()
    with set_up(workload, device, data_root) as runner:
        measure = climbing.measurer(runner, timing, first)
        climb = climbing.run(measure, first, limit_s, Console(stderr=True))
    if as_json:
        say(json.dumps(climb.document()))
    else:
        climb_report.show(climb, paper())
    raise typer.Exit(climbing.exit_code(climb))
