"""Shows one Result to a person: its figures, what limits it, and what to try."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from benchmarks import contracts
from benchmarks.diagnosis import conclude
from benchmarks.diagnosis.module_times import odd_one
from benchmarks.diagnosis.roofline import Ceilings, placed
from benchmarks.diagnosis.straggler import straggler
from benchmarks.terminal import printable
from cli.output.console import Console
from service.analysis.summary import summarise, summarise_values
from service.wording import formats


def show(result: contracts.Result, console: Console | None = None) -> None:
    """Print a Result for a person."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")  # a command is copied whole
    for name, text in _facts(result):
        grid.add_row(name, text)
    good = result.status is contracts.Status.OK
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
    "scaling_efficiency": "scaling efficiency",
    "peak_memory": "peak memory",
}


def _facts(result: contracts.Result) -> list[tuple[str, str]]:
    """Name and text of each line, in the order in which they are read."""
    facts = []
    if result.status is not contracts.Status.OK:
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
        facts += [("try", suggestion.sentence) for suggestion in result.verdict.suggestions]
    facts += _profiled(result)
    facts += _beside(result)
    if accounts := [one.account for one in result.replicates if one.account]:
        facts.append(("account", _account(accounts)))
    facts += _traced(result)
    if result.padding is not None:
        facts.append(("padding", f"{result.padding:.0%} of a step's input"))
    if result.batches_tried:
        facts.append(("batches tried", _batches(result)))
    if result.flags:
        facts.append(("flags", ", ".join(result.flags)))
    device = formats.hardware(result.environment.comparability())
    facts.append(("measured on", device))
    if result.repro:
        facts.append(("again with", result.repro))
    return facts


TOP = 3
"""Operations and waits that are named; --json has them all."""


def _profiled(result: contracts.Result) -> Iterator[tuple[str, str]]:
    """Give the phases and the profile of the first process's step, where they were asked for."""
    first = result.replicates[0] if result.replicates else None
    if first is None:
        return
    if first.phases is not None:
        spans = (f"{name} {formats.quantity(s, 's')}" for name, s in first.phases.seconds.items())
        yield "phases", first.phases.absent or ", ".join(spans)
    if first.input is not None:
        yield "a sample", formats.sample_cost(first.input)
    if first.profile is not None and first.profile.absent:
        yield "profile", first.profile.absent
    elif first.profile is not None:
        yield from _operations(first.profile, conclude.ceilings_of(result))
    if first.profile is not None and first.profile.memory is not None:
        yield from _memory(first.profile.memory)


def _memory(memory: contracts.Memory) -> Iterator[tuple[str, str]]:
    """Give the peak by category and the largest lines."""
    largest = sorted(memory.categories.items(), key=lambda pair: -pair[1])
    parts = (f"{formats.quantity(b, 'B')} {formats.MEMORY.get(name, name)}" for name, b in largest)
    peak, device = (formats.quantity(b, "B") for b in (memory.peak_b, memory.device_b))
    yield "memory", f"{peak} of {device} at the peak: {', '.join(parts)}"
    for one in memory.lines[:TOP]:
        of = formats.MEMORY.get(one.category, one.category)
        yield "holds", f"{formats.quantity(one.size_b, 'B')} of {of} at {one.source}"


def _operations(profile: contracts.Profile, ceilings: Ceilings | None) -> Iterator[tuple[str, str]]:
    total = sum(profile.seconds.values()) or 1.0
    for operation in profile.operations[:TOP]:
        where = f" at {operation.source}" if operation.source else ""
        share = f"{operation.self_s / total:.0%} in {operation.name}"
        yield "spends", f"{share}{where}{_reached(operation, ceilings)}"
    if profile.layers is not None and (odd := odd_one(profile.layers)) is not None:
        yield "modules", odd.sentence
    for wait in profile.synchronizations[:TOP]:
        yield "waits", f"for the device at {wait.source}: {wait.what}{_rarely(wait)}"
    for copy in profile.copies[:TOP]:
        seconds = formats.quantity(copy.self_s, "s")
        yield "copies", f"{copy.calls:,} x {copy.what} at {copy.source}, {seconds} a step"
    for note in profile.notes:
        yield "profile", note


def _reached(operation: contracts.Operation, ceilings: Ceilings | None) -> str:
    place = placed(operation, ceilings)
    if place is None or place.of_roof is None:
        return ""
    rate, unit = (
        (place.flop_per_s, "FLOP/s") if place.bound == "compute" else (place.moved_b_per_s, "B/s")
    )
    return f", {formats.quantity(rate, unit)}, {place.of_roof:.0%} of the roofline"


def _rarely(wait: contracts.Synchronization) -> str:
    if wait.every == 1:
        return ""
    cost = "" if wait.cost_s is None else f", {formats.quantity(wait.cost_s, 's')} a step"
    return f", every {wait.every} steps{cost}"


def _beside(result: contracts.Result) -> list[tuple[str, str]]:
    """Return the lines on parity and on how much of the device is used, where they are known."""
    lines = []
    if result.parity is not None:
        why = f": {result.parity.reason}" if result.parity.reason else ""
        lines.append(("parity", f"{result.parity.status}{why}"))
    if result.long_parity is not None:
        status = result.long_parity.status.replace("_", " ")
        lines.append(("long parity", f"{status}: {result.long_parity.reason}"))
    if result.efficiency is not None:
        lines.append(("efficiency", formats.efficiency(result.efficiency)))
    return lines


def _account(accounts: Sequence[contracts.Account]) -> str:
    """A step from one GPU alone to the gang, each part with its interval over the launches."""
    clocked = any(one.clock_s is not None for one in accounts)
    parts = {
        "alone": [one.single_s for one in accounts],
        "clock": [one.clock_s or 0.0 for one in accounts] if clocked else [],
        "neighbours": [one.neighbours_s for one in accounts],
        "wrapper": [one.wrapper_s for one in accounts if one.wrapper_s is not None],
        "exchange": [one.exchange_s for one in accounts],
        "residual": [one.residual_s for one in accounts],
    }
    told = [f"{_with_interval(values)} {name}" for name, values in parts.items() if values]
    return f"{', '.join(told)}: {_with_interval([one.gang_s for one in accounts])} a step"


def _traced(result: contracts.Result) -> Iterator[tuple[str, str]]:
    """Give the parts of a gang's exchange, and the rank that the others wait for, if any."""
    traces = [one.gang_trace for one in result.replicates if one.gang_trace is not None]
    told = [trace for trace in traces if not trace.absent]
    if absent := next((trace.absent for trace in traces if trace.absent), ""):
        yield "exchange", absent
    if told:
        parts = {
            "exposed transfer": [one.transfer_s for one in told],
            "exposed wait": [one.wait_s for one in told],
            "contention": [one.contention_s for one in told if one.contention_s is not None],
        }
        spans = [f"{_with_interval(values)} {name}" for name, values in parts.items() if values]
        yield "exchange", f"{', '.join(spans)} a step, mean over ranks"
    if len(told) > 1:  # one launch names nobody
        late = straggler(told)
        yield "straggler", formats.straggler(late) if late else "none"


def _with_interval(values: Sequence[float]) -> str:
    summary = summarise_values(values)
    text = formats.quantity(summary.value, "s")
    if summary.high is None:
        return text
    return f"{text} ± {formats.quantity(summary.high - summary.value, 's')}"


def _batches(result: contracts.Result) -> str:
    unit = f"{result.item}/s"
    return ", ".join(
        f"{one.batch}: {formats.quantity(one.rate, unit)}" for one in result.batches_tried
    )


def _quantity(sample: contracts.Sample) -> str:
    summary = summarise(sample)
    spread = formats.half_width(summary.value, summary.low, summary.high, sample.unit)
    basis = {"replicates": f"over {summary.replicates} processes", "within_run": "within this run"}
    note = f" {spread}  (95 %, {basis[summary.interval]})" if summary.interval in basis else ""
    return formats.quantity(summary.value, sample.unit) + note
