"""`throughline bench`: measure one case here and now, without a service."""

from __future__ import annotations

from enum import StrEnum
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from benchmarks import trace_file
from benchmarks.catalog import precision_tiers
from benchmarks.contracts import Status
from cli import interrupts, options, parse_case
from cli.exits import Exit, Stop
from cli.local.measure import read_protocol, set_up
from cli.output import result_panel
from cli.output.lines import say


class Length(StrEnum):
    """The steps of a comparison with fp32 eager training."""

    SHORT = "short"
    LONG = "long"


Account = Annotated[
    bool, typer.Option("--account", help="Of several GPUs: where their scaling goes.")
]


class BenchCommand(TyperCommand):
    """A command whose ``--parity`` may stand alone, wherever it stands: it is short then."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments."""
        whole: list[str] = []
        for word, after in zip_longest(args, args[1:], fillvalue=""):
            alone = word == "--parity" and after not in tuple(Length)
            whole += [word, Length.SHORT] if alone else [word]
        return super().parse_args(ctx, whole)


COMMAND = BenchCommand


def bench(
    workload: Annotated[
        str, typer.Argument(help="What to train: resnet50, or your own as mypkg.bench:build.")
    ],
    settings: Annotated[
        list[str] | None, typer.Argument(metavar="[AXIS=VALUE]...", help="Such as precision=bf16.")
    ] = None,
    *,
    preset: options.Preset = None,
    device: options.Device = None,
    protocol: options.Protocol = None,
    tier: Annotated[
        precision_tiers.Tier | None,
        typer.Option(help="How sure: quick (1 process), standard (3) or gate (5)."),
    ] = None,
    replicates: Annotated[
        int | None,
        typer.Option(min=1, max=50, help="Fresh processes to measure in, one after another."),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(min=0, help="Seed of weights and data order; each further process adds one."),
    ] = 0,
    data_root: options.DataRoot = None,
    profile: Annotated[
        bool, typer.Option("--profile", help="Also profile a few steps, and mark their phases.")
    ] = False,
    trace: Annotated[
        Path | None,
        typer.Option(help="Profile, and keep the Chrome trace in this file (.json or .json.gz)."),
    ] = None,
    parity: Annotated[
        Length | None,
        typer.Option(
            "--parity",
            metavar="[short|long]",
            help="Also hold 20 steps against fp32 eager training; long: and the loss of some "
            "hundred steps, which takes minutes.",
        ),
    ] = None,
    account: Account = False,
    as_json: options.Json = False,
) -> None:
    """Measure one case on this machine, without a service, and print what limits it.

    A worker's runner does it: it waits for an NVIDIA GPU to be idle, flags what went wrong with the
    device, and ends what hangs. With several processes the interval is the one between them.
    The profile is taken after the timed passes of the first process.

    The exit code is 1 if the case failed, or with --parity if it computes something else.
    """
    name, size = parse_case.named(workload)
    case = parse_case.case(name, settings or [], preset or size or None)
    timing = read_protocol(protocol, precision_tiers.timed(tier) if tier else None)
    if trace is not None and (why := trace_file.fault(trace)):
        raise Stop(why)
    profiled = profile or trace is not None
    requested = {"efficiency": True, "phases": profiled, "profile": profiled, "account": account}
    requested |= {"parity": parity is not None, "long_parity": parity is Length.LONG}
    update: dict[str, object] = {switch: True for switch, on in requested.items() if on}
    if replicates:
        update["replicates"] = replicates
    file = trace.absolute() if trace else None
    interrupts.as_ctrl_c()
    with set_up(name, device, data_root, case.gpus) as runner:
        result = runner.measure(case, timing.model_copy(update=update), seed=seed, trace=file)
    if as_json:
        say(result.model_dump_json())
    else:
        result_panel.show(result)
    raise typer.Exit(Exit.OK if result.status is Status.OK else Exit.FAILED)
