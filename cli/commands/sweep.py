"""`throughline sweep`: one case at several values of one axis, and where more brings little."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from benchmarks import contracts
from benchmarks.catalog import precision_tiers
from cli import interrupts, options, parse_case
from cli.exits import Exit, Stop
from cli.local import measure
from cli.output import sweep_page, sweep_report
from cli.output.console import paper
from cli.output.lines import say

MOST_VALUES = 32
INTERRUPTED = "Interrupted; this is what was measured so far."


def sweep(
    workload: Annotated[
        str, typer.Argument(help="What to train: nanogpt, or your own as mypkg.bench:build.")
    ],
    settings: Annotated[
        list[str] | None, typer.Argument(metavar="[AXIS=VALUE]...", help="The same at each value.")
    ] = None,
    *,
    over: Annotated[
        str, typer.Option(metavar="AXIS=VALUE,VALUE...", help="Such as batch=8,16,32,64.")
    ],
    preset: options.Preset = None,
    device: options.Device = None,
    protocol: options.Protocol = None,
    tier: Annotated[
        precision_tiers.Tier,
        typer.Option(help="How sure: quick (1 process), standard (3) or gate (5)."),
    ] = precision_tiers.Tier.QUICK,
    data_root: options.DataRoot = None,
    html: Annotated[
        Path | None, typer.Option(help="Also draw the curve, in this file for a browser.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Measure a case at several values of one axis on this machine, and name the knee.

    The knee is the smallest value from which on throughput is within 5 % of the most. A value that
    fails, such as a batch that does not fit, stands in the table with its reason. The exit code is
    1 if no value could be measured, or not all were tried.
    """
    name, named_preset = parse_case.named(workload)
    axis, values = _values(over)
    size = preset or named_preset or None
    cases = {
        value: parse_case.case(name, [*(settings or []), f"{axis}={value}"], size)
        for value in values
    }
    timing = measure.read_protocol(protocol, precision_tiers.timed(tier))
    if html is not None:
        sweep_page.check(html)
    interrupts.as_ctrl_c()
    with measure.set_up(name, device, data_root) as runner:
        made = measure_each(runner, axis, cases, timing)
    if as_json:
        say(json.dumps(made.document()))
    else:
        sweep_report.show(made, paper())
    if html is not None:  # last: what was measured is told, whatever becomes of the file
        sweep_page.write(html, made)
    raise typer.Exit(_exit_code(made))


def _values(over: str) -> tuple[str, list[str]]:
    axis, _, listed = over.partition("=")
    values = listed.split(",")
    if not axis or not all(values):
        raise Stop(f"{over!r} is no AXIS=VALUE,VALUE..., such as batch=8,16,32,64.")
    if not 2 <= len(values) <= MOST_VALUES or len(set(values)) < len(values):
        raise Stop(f"--over takes 2 to {MOST_VALUES} different values of {axis}.")
    return axis, values


def measure_each(
    runner: measure.LocalRunner,
    axis: str,
    cases: Mapping[str, contracts.Case],
    protocol: contracts.Protocol,
) -> sweep_report.Sweep:
    """Measure each case; one that fails does not end the sweep.

    Raises:
        KeyboardInterrupt: before the first case was measured.
        Stop: the device cannot be used for the first case.
    """
    made = sweep_report.Sweep(axis)
    try:
        for value, case in cases.items():
            from_s = time.monotonic()
            result = runner.measure(case, protocol)
            took_s = time.monotonic() - from_s
            made.points.append(sweep_report.SweepPoint(value, result, took_s))
    except (KeyboardInterrupt, Stop) as error:  # what was measured so far is worth showing
        if not made.points:
            raise
        made.ended = error.sentence if isinstance(error, Stop) else INTERRUPTED
    return made


def _exit_code(made: sweep_report.Sweep) -> Exit:
    if made.ended == INTERRUPTED:
        return Exit.INTERRUPTED
    return Exit.FAILED if made.ended or not made.measured else Exit.OK
