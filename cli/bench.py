"""Runs a benchmark as a child process, as a worker would, and shows its Result."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence

from pydantic import ValidationError
from rich.console import Console
from rich.panel import Panel
from rich.table import Table

from benchmarks.contracts import Protocol, Result, Sample, Status
from benchmarks.merge import merge
from cli.exits import Exit, Stop
from cli.settings import our_packages
from service import efficiency, formats
from service.summary import summarise
from worker import launch
from worker.outcome import read_result
from worker.settings import Settings
from worker.workspace import environment_in, workspace


def measure(
    arguments: Sequence[str],
    replicates: int,
    seed: int = 0,
    protocol: str | None = None,
    *,
    parity: bool = False,
) -> Result:
    """Measure one case in ``replicates`` fresh processes; the children draw their own progress.

    They are the children that a worker would start: each with the next seed, in one folder for
    temporary files and compiler caches, which is removed afterwards.

    Raises:
        Stop: a child did not print a Result.
    """
    settings = Settings()
    results: list[Result] = []
    with workspace() as folder:
        environment = environment_in(folder, settings) | our_packages()
        for number in range(replicates):
            command = [*settings.command, *arguments, f"--seed={seed + number}"]
            command += _timing(protocol, number + 1, parity=parity)
            results.append(_one(command, environment))
            if results[-1].status is not Status.OK:
                break
    return merge(results)


def _timing(told: str | None, number: int, *, parity: bool) -> list[str]:
    """The protocol of process ``number``, as an argument; what is no protocol the child refuses."""
    try:
        asked = Protocol.model_validate_json(told or "{}")
    except ValidationError:
        return [f"--protocol={told}"]
    asked = asked.model_copy(update={"parity": True} if parity else {}).of_replicate(number)
    said = asked.model_dump_json(exclude_unset=True)
    return [] if said == "{}" else [f"--protocol={said}"]


def _one(command: Sequence[str], environment: Mapping[str, str]) -> Result:
    child = subprocess.run(
        [*launch.tied(), *command], env=environment, stdout=subprocess.PIPE, check=False
    )
    if child.returncode == Exit.USAGE:
        raise Stop("Nothing was measured.")  # the child has said why
    if child.returncode != 0:
        raise Stop(_ending(child.returncode), Exit.FAILED)
    try:
        return read_result(child.stdout)
    except ValueError as error:
        raise Stop(
            "The benchmark ended well, but its last line on stdout is no Result.", Exit.FAILED
        ) from error


def _ending(returncode: int) -> str:
    if returncode < 0:
        return f"The benchmark was killed by signal {-returncode}; if it was 9, memory ran out."
    return f"The benchmark ended with exit code {returncode}; its last lines above say why."


def exit_code(result: Result) -> Exit:
    """Zero only for a case that was measured."""
    return Exit.OK if result.status is Status.OK else Exit.FAILED


def show(result: Result, console: Console | None = None) -> None:
    """Print a Result for a person."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    for name, text in _facts(result):
        grid.add_row(name, text)
    good = result.status is Status.OK
    panel = Panel(grid, title=result.case.key, border_style="green" if good else "red")
    console = console or Console()
    console.print(panel)
    if not good and result.log_tail:
        console.print(result.log_tail.rstrip(), markup=False, highlight=False, style="dim")


_METRICS = {
    "throughput": "throughput",
    "throughput_synth": "without the loader",
    "step_time": "step time",
    "input_stall": "input stall",
    "first_step_time": "first step",
    "peak_memory": "peak memory",
}


def _facts(result: Result) -> list[tuple[str, str]]:
    """Name and text of each line, in the order in which they are read."""
    facts = []
    if result.status is not Status.OK:
        facts.append((result.status.value, result.reason))
    samples = {sample.metric: sample for sample in result.samples}
    facts += [
        (label, _quantity(samples[metric]))
        for metric, label in _METRICS.items()
        if metric in samples
    ]
    if result.verdict is not None:
        facts.append(("limited by", f"{result.verdict.bottleneck}: {result.verdict.sentence}"))
    facts += _beside(result)
    if result.flags:
        facts.append(("note", ", ".join(result.flags)))
    device = formats.hardware(result.environment.comparability())
    facts.append(("measured on", device))
    if result.repro:
        facts.append(("again with", result.repro))
    return facts


def _beside(result: Result) -> list[tuple[str, str]]:
    """Whether the numbers are right, and how much of the device they use."""
    found = []
    if result.parity is not None:
        why = f": {result.parity.reason}" if result.parity.reason else ""
        found.append(("parity", f"{result.parity.status}{why}"))
    if result.efficiency is not None:
        found.append(("efficiency", efficiency.sentence(result.efficiency)))
    return found


def _quantity(sample: Sample) -> str:
    """A metric's mean over replicates with its interval, and what that rests on."""
    told = summarise(sample)
    spread = formats.half_width(told.value, told.low, told.high, sample.unit)
    basis = {"replicates": f"over {told.replicates} processes", "within_run": "within this run"}
    note = f" {spread}  (95 %, {basis[told.interval]})" if told.interval in basis else ""
    return formats.quantity(told.value, sample.unit) + note
