"""Measure one replicate: ``python -m benchmarks resnet50 precision=bf16 layout=channels_last``.

``python -m benchmarks -`` reads a `ProcessSpec` as JSON from standard input instead, as workers do.
Progress goes to stderr; the last line of stdout is the Result as JSON. Exit status 0 says that
there is such a line, whatever became of the measurement; 2 says that the request is wrong, 69 that
the device cannot be used.

With ``--await FD`` it first loads what every case needs, with ``--compiles`` also the compiler, and
writes an `Event` to the descriptor when it begins to; then it waits for a line of JSON, with the
time ``at_s`` (on CLOCK_MONOTONIC) at which a job took it and variables of the
``environment``, and for the `ProcessSpec`. Until then it touches no device.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import math
import os
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn, TextIO

from pydantic import ValidationError

from benchmarks import contracts, lead, trace_file
from benchmarks.catalog import catalog
from benchmarks.exits import NO_DEVICE, NoDevice

LEAVE_S = 5.0
"""Longest wait for threads and exit handlers of the workload once the Result is out."""


def program() -> NoReturn:
    """Be the child process: stdout is the Result's alone, and the process ends once it is out."""
    stdout = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a workload, or a library below it, prints goes where progress goes
    status = main(out=stdout)
    late = threading.Timer(LEAVE_S, os._exit, (status,))
    late.daemon = True
    late.start()
    sys.exit(status)


def main(arguments: Sequence[str] | None = None, out: TextIO | None = None) -> int:
    """Read the request, measure, print the Result to ``out``, by default stdout; return the exit
    code."""
    options = _parser().parse_args(arguments)
    ahead = options.ahead
    waited_s = None if ahead is None else _wait_ahead(ahead, compiles=options.compiles)
    try:
        given = _read() if options.workload == "-" else _from_options(options)
        whole = given.model_copy(update={"case": catalog.normalise(given.case)})
        leads = whole.case.is_of_gang and whole.gang is None
        line = lead.measured(whole) if leads else _measured(whole, waited_s)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        return _refuse(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}")
    except (catalog.UnknownName, catalog.Refused, WrongUsage) as error:
        return _refuse(str(error))
    except NoDevice as error:
        _refuse(str(error))
        return NO_DEVICE
    print(line, file=out, flush=True)
    return 0


class WrongUsage(ValueError):
    """A command line that makes no sense; the message is one sentence that says why."""


def _refuse(sentence: str) -> int:
    print(sentence, file=sys.stderr)
    return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=(__doc__ or "").partition("\n")[0]
    )
    known = ", ".join(catalog.workloads())
    parser.add_argument(
        "workload",
        help=f"{known}, or your own as package.module:build; :preset may follow; - reads a "
        "ProcessSpec from standard input",
    )
    parser.add_argument(
        "axes", nargs="*", metavar="axis=value", help=f"axes: {', '.join(catalog.axes())}"
    )
    parser.add_argument("--preset", default="auto", help="full or tiny; by default what suits")
    parser.add_argument("--device", help="cpu, cuda or cuda:N; by default the first GPU, or cpu")
    parser.add_argument("--protocol", default="{}", help="a Protocol as JSON, for other windows")
    parser.add_argument("--seed", type=int, default=0, help="seed of weights and of input order")
    parser.add_argument("--data-root", type=Path, help="your own ImageFolder or token file")
    parser.add_argument(
        "--trace", type=Path, help="profile, and keep the Chrome trace in this file (.json, .gz)"
    )
    parser.add_argument("--await", type=int, dest="ahead", help=argparse.SUPPRESS)
    parser.add_argument("--compiles", action="store_true", help=argparse.SUPPRESS)
    return parser


def _wait_ahead(events: int, *, compiles: bool) -> float:
    """Load torch and wait for a job; return how long the job then waited, in s.

    The job's first line also names the folders for what it compiles.
    """
    began = contracts.Event(at_s=time.monotonic(), progress=contracts.Progress(phase="build"))
    os.write(events, began.model_dump_json().encode() + b"\n")
    _load(*(["torch._inductor.compile_fx"] if compiles else []))
    line = sys.stdin.buffer.readline()  # empty once the worker is gone; then there is no job either
    gone: dict[str, Any] = {"at_s": math.inf, "environment": {}}
    taken: dict[str, Any] = json.loads(line) if line else gone
    os.environ.update(taken["environment"])
    return time.monotonic() - float(taken["at_s"])


def _read() -> contracts.ProcessSpec:
    return contracts.ProcessSpec.model_validate_json(sys.stdin.buffer.read())


def _from_options(options: argparse.Namespace) -> contracts.ProcessSpec:
    axes: dict[str, str] = {}
    for setting in options.axes:
        axis, equals, value = setting.partition("=")
        if not (axis and equals and value):
            raise WrongUsage(f"Write an axis as axis=value, not {setting!r}.")
        if axis in axes:
            raise WrongUsage(f"The axis {axis!r} is given twice; choose one value.")
        axes[axis] = value
    if options.trace is not None and (why := trace_file.fault(options.trace)):
        raise WrongUsage(f"--trace: {why}")
    workload, preset = catalog.named(options.workload)
    return contracts.ProcessSpec(
        case=contracts.Case(workload=workload, preset=preset or options.preset, axes=axes),
        protocol=contracts.Protocol.model_validate_json(options.protocol),
        **{name: getattr(options, name) for name in ("device", "seed", "data_root", "trace")},
    )


def _load(*more: str) -> None:
    """Import torch, what measures, and ``more``: seconds that a mistyped name need not wait for."""
    # Threads that spin at a barrier take a shared machine's cores from the threads they wait for:
    # on two busy cores a step took five times as long. OpenMP reads this when torch loads it.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # Above all levels: else torch's profiler writes "USDT:" lines, which look like trouble.
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")
    gc.disable()  # collections during the imports took a quarter of their time
    # The first optimizer imports torch._dynamo, compiled or not: none of a first step's seconds.
    for name in ("benchmarks.measure.session", "torch._dynamo", *more):
        importlib.import_module(name)
    gc.enable()


def _measured(spec: contracts.ProcessSpec, waited_s: float | None) -> str:
    """The Result as one line of JSON; ``waited_s`` is for a process that was started ahead."""
    from_s = time.perf_counter()
    _load()
    from benchmarks.measure.device import choose  # noqa: PLC0415
    from benchmarks.measure.progress import Reporter  # noqa: PLC0415
    from benchmarks.measure.session import measure  # noqa: PLC0415

    import_s = time.perf_counter() - from_s
    try:
        device = choose(spec.device, spec.gang.rank if spec.gang else 0)
    except RuntimeError as error:
        raise NoDevice(str(error).partition("\n")[0]) from error
    with Reporter(spec.events_fd, spec.case.key, spec.gang) as reporter:
        return measure(spec, device, reporter, import_s, waited_s).model_dump_json()


if __name__ == "__main__":
    program()
