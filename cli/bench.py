"""Runs a benchmark as a child process, as a worker would, and shows its Result."""

from __future__ import annotations

import os
import subprocess
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from benchmarks import trace_file
from benchmarks.contracts import Case, Profile, Protocol, Result, Sample, Status
from benchmarks.diagnosis.merge import merge
from benchmarks.exits import NO_DEVICE
from benchmarks.terminal import printable
from cli import parse_case
from cli.exits import Exit, Stop
from cli.local.child_output import read_until_exit, rest
from cli.local.local_device import Rig
from cli.output.console import Console
from cli.settings import our_packages
from service import formats
from service.analysis.summary import summarise
from service.reports import efficiency
from worker.child import die_with_parent, process_tree
from worker.child.output import Output
from worker.child.process_tree import Tree
from worker.child.workspace import environment_in
from worker.device.conditions import Sampling
from worker.device.preflight import flagged
from worker.device.telemetry import attach
from worker.result_builder import exited, fault_of, nothing_left, read_result
from worker.supervisor import listed


class TookTooLong(Stop):
    """A child was stopped because its time was up."""


class NoResult(Stop):
    """A child ended without a Result: its status, and the sentence that says how."""

    def __init__(self, status: Status, sentence: str) -> None:
        super().__init__(sentence, Exit.FAILED)
        self.status = status


class DeviceHeld(Stop):
    """Processes of an earlier child do not leave the device: a next one would share it."""


def measure(
    rig: Rig,
    arguments: Sequence[str],
    replicates: int = 1,
    seed: int = 0,
    *,
    protocol: Protocol | None = None,
    trace: Path | None = None,
    limit_s: float | None = None,
) -> Result:
    """Measure one case in ``replicates`` fresh processes; the children draw their own progress.

    They are the children that a worker would start: each with the next seed, on an idle device that
    is watched meanwhile, and cool again before the next one.

    Args:
        rig: what they are run on.
        arguments: workload, axes and options, as `python -m benchmarks` takes them.
        replicates: how many processes.
        seed: of the first one.
        protocol: how to time; what it asks for beside timing, only the first process does.
        trace: where the first process keeps its profiler's trace.
        limit_s: seconds for each process, and for the wait until its device is idle.

    Raises:
        TookTooLong: a child was not done in time.
        DeviceHeld: what a child left behind does not leave the device.
        Stop: a child refused the case, or has no device.
    """
    protocol = protocol or Protocol()
    results: list[Result] = []
    first_c = rig.conditions.temperature_c()
    for number in range(replicates):
        timed = protocol.of_replicate(number + 1)
        own = timed.model_dump_json(exclude_defaults=True)
        command = [*rig.settings.command, *arguments, f"--seed={seed + number}"]
        command += [f"--protocol={own}"] if own != "{}" else []
        command += [f"--trace={trace}"] if trace and number == 0 else []
        if results:
            rig.conditions.cool(first_c, rig.settings.cool_limit_s, _always)
        try:
            results.append(_watched(rig, command, limit_s))
        except NoResult as died:  # as a Result, so that what was measured before it is kept
            case = results[0].case if results else _case(arguments)
            now = datetime.now(UTC)
            results.append(nothing_left(case, timed, died.status, died.sentence, now))
        if results[-1].status is not Status.OK:
            break
    return merge(results)


def _watched(rig: Rig, command: Sequence[str], limit_s: float | None) -> Result:
    """Run one child and return its Result, with the telemetry of its GPU if it used one."""
    from_s = time.monotonic()
    if pids := rig.conditions.remaining(_always):
        raise DeviceHeld(
            f"Processes {listed(pids)} of the last measurement hold the device, and the next one "
            "would measure beside them: see whether the driver is stuck.",
            Exit.FAILED,
        )
    flags = rig.conditions.await_idle(_always)
    waited_s = time.monotonic() - from_s
    with rig.conditions.sampling() as sampling:
        try:
            left_s = None if limit_s is None else max(0.0, limit_s - waited_s)
            result = _one(rig, command, left_s, sampling)
        except subprocess.TimeoutExpired as error:
            raise TookTooLong(f"It was not done after {limit_s:.0f} s.", Exit.TIMEOUT) from error
    if result.environment.facts.get("hw.device") == "cpu":
        return result  # a torch without CUDA leaves the GPU that was watched alone
    return flagged(attach(result, sampling.readings()), flags)


def _always() -> bool:
    return True


def _one(rig: Rig, command: Sequence[str], limit_s: float | None, sampling: Sampling) -> Result:
    """Run one child; however it ends, nothing that it started outlives it."""
    mark = uuid.uuid4().hex
    environment = environment_in(rig.folder, rig.settings) | our_packages()
    marked = environment | {process_tree.MARK: mark}
    with closing(Output(rig.settings.output_limit_b)) as printed:
        try:
            child = subprocess.Popen(
                [*die_with_parent.tied(), *command], env=marked, stdout=printed.theirs
            )
        finally:
            os.close(printed.theirs)
        with child:
            tree = Tree.of(child.pid, mark)
            try:
                sampling.begin(tree)
                read_until_exit(child, printed, limit_s)
            finally:
                try:
                    process_tree.end(tree, 0.0, rig.settings.kill_patience_s)
                finally:
                    child.kill()  # a second Ctrl-C ends it too; does nothing to one that has ended
        return _read(child.returncode, rest(printed))


def _read(returncode: int, printed: bytes) -> Result:
    if returncode in (Exit.USAGE, NO_DEVICE):
        raise Stop("Nothing was measured.")  # the child has said why
    if returncode != 0:
        raise NoResult(*exited(returncode, "its last lines above say why."))
    try:
        return read_result(printed)
    except ValidationError as error:
        raise NoResult(Status.GARBAGE, fault_of(error)) from error


def _case(arguments: Sequence[str]) -> Case:
    """The case that a child was asked for, which it did not live to tell."""
    workload, *settings = (word for word in arguments if not word.startswith("--"))
    given = [word.partition("=")[2] for word in arguments if word.startswith("--preset=")]
    name, preset = parse_case.named(workload)
    return parse_case.case(name, settings, given[-1] if given else preset or None)


def read_protocol(text: str | None, base: Protocol | None = None) -> Protocol:
    """``base`` with the fields that ``text`` names as JSON.

    Raises:
        Stop: it is no Protocol; the sentence says which field is wrong.
    """
    base = base or Protocol()
    try:
        given = Protocol.model_validate_json(text or "{}")
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, fault["loc"]))
        raise Stop(": ".join(filter(None, [place, fault["msg"]]))) from error
    return base.model_copy(update=given.model_dump(include=given.model_fields_set))


def check_trace(file: Path) -> None:
    """Find out before it costs time whether a trace can be kept in ``file``.

    Raises:
        Stop: it cannot.
    """
    if why := trace_file.fault(file):
        raise Stop(why)


def exit_code(result: Result) -> Exit:
    """Zero only for a case that was measured."""
    return Exit.OK if result.status is Status.OK else Exit.FAILED


def show(result: Result, console: Console | None = None) -> None:
    """Print a Result for a person."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")  # a command is copied whole
    for name, text in _facts(result):
        grid.add_row(name, text)
    good = result.status is Status.OK
    # As a string it would be markup, and :train: a train.
    title = Text(printable(result.case.key))
    panel = Panel(grid, title=title, border_style="green" if good else "red")
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
    of = {"peak_memory": f", {formats.peak_memory_of(result.environment.comparability())}"}
    facts += [
        (label, _quantity(samples[metric]) + of.get(metric, ""))
        for metric, label in _METRICS.items()
        if metric in samples
    ]
    if result.verdict is not None:
        facts.append(("limited by", f"{result.verdict.bottleneck}: {result.verdict.sentence}"))
        facts += [("try", told.sentence) for told in result.verdict.suggestions]
    facts += _profiled(result)
    facts += _beside(result)
    if result.flags:
        facts.append(("flags", ", ".join(result.flags)))
    device = formats.hardware(result.environment.comparability())
    facts.append(("measured on", device))
    if result.repro:
        facts.append(("again with", result.repro))
    return facts


TOP = 3
"""Operations and waits that are named; --json has them all."""


def _profiled(result: Result) -> Iterator[tuple[str, str]]:
    """Give the phases and the profile of the first process's step, where they were asked for."""
    first = result.replicates[0] if result.replicates else None
    if first is None:
        return
    if first.phases is not None:
        spans = (f"{name} {formats.quantity(s, 's')}" for name, s in first.phases.seconds.items())
        yield "phases", first.phases.absent or ", ".join(spans)
    if first.profile is not None and first.profile.absent:
        yield "profile", first.profile.absent
    elif first.profile is not None:
        yield from _operations(first.profile)


def _operations(profile: Profile) -> Iterator[tuple[str, str]]:
    total = sum(profile.seconds.values()) or 1.0
    for told in profile.operations[:TOP]:
        where = f" at {told.source}" if told.source else ""
        yield "spends", f"{told.self_s / total:.0%} in {told.name}{where}"
    for wait in profile.synchronizations[:TOP]:
        yield "waits", f"for the device at {wait.source}: {wait.what}"
    for note in profile.notes:
        yield "profile", note


def _beside(result: Result) -> list[tuple[str, str]]:
    """Return the lines on parity and on how much of the device is used, where they are known."""
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
