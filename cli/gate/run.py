"""Runs a gate: starts the comparison, waits, prints, and turns the outcome into an exit code."""

from __future__ import annotations

import sys
from pathlib import Path

from cli import estimate as cli_estimate
from cli import interrupts
from cli.client import ServiceClient, read
from cli.durations import seconds
from cli.exits import Exit, Stop
from cli.gate import GateFormat, Inconclusive, follow
from cli.gate.forms import Shown
from cli.gate.order import GateOptions
from cli.output.console import Console
from cli.output.lines import say
from service.schemas.comparisons import ComparisonView
from service.schemas.gate import Outcome
from service.wording import formats

_CODES = {
    Outcome.PASS: Exit.OK,
    Outcome.REGRESSION: Exit.FAILED,
    Outcome.INCONCLUSIVE: Exit.USAGE,  # 2: wrong usage of this command is 64
}
_INCONCLUSIVE = {Inconclusive.PASS: Exit.OK, Inconclusive.FAIL: Exit.FAILED}


def run(
    url: str,
    order: GateOptions,
    shown_as: GateFormat,
    output: Path | None,
    inconclusive: Inconclusive,
) -> int:
    """Print what came of the comparison, and return the exit code.

    Raises:
        Stop: it could not be asked; wrong usage has the code 64, for 2 says inconclusive.
    """
    try:
        if output is not None:
            _try_out(output)
        comparison, text = _decided(url, order)
        outcome = _outcome(comparison)
        shown = Shown(comparison, text, url, lenient=inconclusive is Inconclusive.PASS)
        _print(shown.written(shown_as), output)
    except Stop as stop:
        code = Exit.GATE_USAGE if stop.code is Exit.USAGE else stop.code
        raise Stop(stop.sentence, code) from stop
    if output is not None or shown_as is not GateFormat.TEXT:
        assert comparison.decision is not None
        _remark(f"{outcome.value}: {comparison.decision.sentence}")
        _remark(shown.address)
    if outcome is Outcome.INCONCLUSIVE:
        return int(_INCONCLUSIVE.get(inconclusive, _CODES[outcome]))
    return int(_CODES[outcome])


def _decided(url: str, order: GateOptions) -> tuple[ComparisonView, str]:
    request = order.request()
    budget_s = seconds(order.budget)
    interrupts.as_ctrl_c()  # CI ends a job with SIGTERM; what was to be measured for it stops then
    with ServiceClient(url) as client:
        begun = follow.start(client, request, order.key)
        span = formats.duration(budget_s).replace(formats.NBSP, " ")
        _remark(
            f"Comparing {begun.baseline} with {begun.contender} for at most {span}: "
            f"{client.url}{begun.page}"
        )
        try:
            if estimate := cli_estimate.of_gate(request, client.catalog()):
                _remark(estimate)
            text = follow.until_decided(client, begun, Console(stderr=True), budget_s)
        except KeyboardInterrupt:
            read(ComparisonView, client.cancel_comparison(begun.id))
            _remark("Cancelled, with its jobs.")
            raise
    return read(ComparisonView, text), text


def _outcome(comparison: ComparisonView) -> Outcome:
    if comparison.decision is None:
        raise Stop(
            f"Comparison {comparison.id} was cancelled, so nothing was decided: "
            "run the gate again.",
            Exit.TIMEOUT,
        )
    return comparison.decision.outcome


def _try_out(output: Path) -> None:
    """Open the file before anything is measured for it, and leave all as it was.

    What is neither file nor folder, such as a pipe, may be opened only once.

    Raises:
        Stop: it cannot be written.
    """
    try:
        there = output.exists()
        if there and not (output.is_file() or output.is_dir()):
            return
        target = output.resolve()
        target.open("ab" if there else "xb").close()
        if not there:
            target.unlink()
    except OSError as error:
        raise Stop(_unwritable(output, error)) from error


def _print(text: str, output: Path | None) -> None:
    """Print the answer, or write it to its file; what was measured is never lost for a file."""
    if output is not None:
        try:
            output.write_text(f"{text}\n", encoding="utf-8")
            return
        except OSError as error:
            _remark(f"{_unwritable(output, error)} This is what it was to hold:")
    sys.stdout.write(f"{text}\n")  # its form has seen to what a terminal obeys


def _unwritable(output: Path, error: OSError) -> str:
    return f"{output} cannot be written: {error.strerror or error}."


def _remark(sentence: str) -> None:
    say(sentence, sys.stderr)
