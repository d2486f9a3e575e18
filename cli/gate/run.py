"""Runs a gate: starts the comparison, waits, prints, and turns the outcome into an exit code."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from cli import estimate as cli_estimate
from cli import exits, interrupts
from cli.client import ServiceClient, read
from cli.gate import forms, order
from cli.output.console import Console
from cli.output.lines import remark
from service.schemas import gate as schemas
from service.schemas.comparisons import ComparisonView
from service.wording import formats

_CODES = {
    schemas.Outcome.PASS: exits.Exit.OK,
    schemas.Outcome.REGRESSION: exits.Exit.FAILED,
    schemas.Outcome.INCONCLUSIVE: exits.Exit.USAGE,  # 2: wrong usage of this command is 64
}
_INCONCLUSIVE = {order.Inconclusive.PASS: exits.Exit.OK, order.Inconclusive.FAIL: exits.Exit.FAILED}


def run(
    url: str,
    options: order.GateOptions,
    shown_as: forms.GateFormat,
    output: Path | None,
    inconclusive: order.Inconclusive,
) -> int:
    """Print what came of the comparison, and return the exit code.

    Raises:
        Stop: it could not be asked; wrong usage has the code 64, for 2 says inconclusive.
    """
    try:
        if output is not None:
            _try_out(output)
        comparison, text = _decided(url, options)
        outcome = _outcome(comparison)
        shown = forms.Shown(comparison, text, url, lenient=inconclusive is order.Inconclusive.PASS)
        _print(shown.written(shown_as), output)
    except exits.Stop as stop:
        code = exits.Exit.GATE_USAGE if stop.code is exits.Exit.USAGE else stop.code
        raise exits.Stop(stop.sentence, code) from stop
    if output is not None or shown_as is not forms.GateFormat.TEXT:
        assert comparison.decision is not None
        remark(f"{outcome.value}: {comparison.decision.sentence}")
        remark(shown.address)
    return exit_code(outcome, inconclusive)


def exit_code(outcome: schemas.Outcome, inconclusive: order.Inconclusive) -> int:
    """Give the exit code of an outcome, one that is inconclusive as CI asks for it."""
    if outcome is schemas.Outcome.INCONCLUSIVE:
        return int(_INCONCLUSIVE.get(inconclusive, _CODES[outcome]))
    return int(_CODES[outcome])


def _decided(url: str, options: order.GateOptions) -> tuple[ComparisonView, str]:
    request = options.request()
    budget_s = options.budget_s
    interrupts.as_ctrl_c()  # CI ends a job with SIGTERM; what was to be measured for it stops then
    with ServiceClient(url) as client:
        begun = read(
            ComparisonView, client.send_text("POST", "comparisons", body=request, key=options.key)
        )
        span = formats.duration(budget_s).replace(formats.NBSP, " ")
        remark(
            f"Comparing {begun.baseline} with {begun.contender} for at most {span}: "
            f"{client.url}{begun.page}"
        )
        try:
            if estimate := cli_estimate.of_gate(request, client.catalog()):
                remark(estimate)
            for line in forms.forecast(begun.forecast):
                remark(line)
            text = until_decided(client, begun, Console(stderr=True), budget_s)
        except KeyboardInterrupt:
            read(ComparisonView, client.send_text("POST", "comparisons", begun.id, "cancel"))
            remark("Cancelled, with its jobs.")
            raise
    return read(ComparisonView, text), text


def _outcome(comparison: ComparisonView) -> schemas.Outcome:
    if comparison.decision is None:
        raise exits.Stop(
            f"Comparison {comparison.id} was cancelled, so nothing was decided: "
            "run the gate again.",
            exits.Exit.TIMEOUT,
        )
    return comparison.decision.outcome


def _try_out(output: Path) -> None:
    """Check that the file can be written before anything is measured, and leave it unchanged.

    A pipe or the like may be opened only once, so it is not tried.
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
        raise exits.Stop(_unwritable(output, error)) from error


def _print(text: str, output: Path | None) -> None:
    """Print the answer, or write it to its file; if that fails, print it."""
    if output is not None:
        try:
            output.write_text(f"{text}\n", encoding="utf-8")
            return
        except OSError as error:
            remark(f"{_unwritable(output, error)} This is what it was to hold:")
    sys.stdout.write(f"{text}\n")  # its form has seen to what a terminal obeys


def _unwritable(output: Path, error: OSError) -> str:
    return f"{output} cannot be written: {error.strerror or error}."


LOOK_S = 1.0
PATIENCE_S = 60.0
"""Longest absence of a service, as while it is restarted; also the latest that a decision may
come."""


def until_decided(
    client: ServiceClient, comparison: ComparisonView, console: Console, budget_s: float
) -> str:
    """Report progress until the comparison has ended; return the final answer's text.

    Raises:
        Stop: the service stays away, or does not decide though the budget is spent.
    """
    lines = Lines(console)
    deadline_s = time.monotonic() + budget_s + PATIENCE_S
    heard_at_s = time.monotonic()
    while True:
        try:
            text = client.text("comparisons", comparison.id)
            heard_at_s = time.monotonic()
            comparison = read(ComparisonView, text)
            if comparison.state != "running":
                return text
            lines.show(comparison)
        except exits.Away as away:
            lines.say(f"The service is away; asking again for {PATIENCE_S:g} s.")
            if time.monotonic() - heard_at_s >= PATIENCE_S:
                raise away from None
        if time.monotonic() >= deadline_s:
            raise exits.Stop(
                f"The budget of comparison {comparison.id} is spent and the service has not "
                "decided: look at the service's log.",
                exits.Exit.AWAY,
            )
        time.sleep(LOOK_S)


class Lines:
    """Progress as lines: one for each new pair of a case, and for each new reason to wait."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._said: dict[str, tuple[int, bool]] = {}
        self._last = ""

    def show(self, comparison: ComparisonView) -> None:
        """Print what is new."""
        self.say(comparison.note)
        for case in comparison.so_far.cases:
            stage = (case.pairs, case.settled)
            if stage != self._said.get(case.case_key, (0, False)):
                self._said[case.case_key] = stage
                self._print(f"{case.case_key}: {_words(case)}")

    def say(self, sentence: str) -> None:
        """Print a line, unless it was the last one said."""
        if sentence and sentence != self._last:
            self._print(sentence)
        self._last = sentence

    def _print(self, line: str) -> None:
        self._console.say(line)


def _words(case: schemas.CaseFindingView) -> str:
    pairs = formats.counted(case.pairs, "pair")
    if case.settled:
        return f"{pairs}, {forms.plain(case.verdict)}"
    if not case.metrics:
        return f"{pairs}, going on"
    first = case.metrics[0]
    change, between = formats.metric_change(first)
    return f"{pairs}, {first.metric} {change} ({between}), going on"
