"""Waits for a comparison and says how it gets on."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from cli.client import ServiceClient, read
from cli.exits import Away, Exit, Stop
from cli.output.console import Console
from service.schemas.comparisons import ComparisonView
from service.schemas.gate import CaseFindingView
from service.wording import formats

LOOK_S = 2.0
PATIENCE_S = 60.0
"""How long a service may be away, as while it is restarted; also how late its decision may be."""


def start(client: ServiceClient, request: Mapping[str, Any], key: str | None) -> ComparisonView:
    """Start a comparison; the same ``key`` with the same request starts one."""
    return read(ComparisonView, client.start_comparison(request, key))


def until_decided(
    client: ServiceClient, comparison: ComparisonView, console: Console, budget_s: float
) -> str:
    """Say what is new until it has ended, and return the answer's text as it then is.

    Raises:
        Stop: the service stays away, or does not decide though the budget is spent.
    """
    lines = Lines(console)
    deadline_s = time.monotonic() + budget_s + PATIENCE_S
    heard_at_s = time.monotonic()
    while True:
        try:
            text = client.comparison_by_id(comparison.id)
            heard_at_s = time.monotonic()
            comparison = read(ComparisonView, text)
            if comparison.state != "running":
                return text
            lines.show(comparison)
        except Away as away:
            lines.say(f"The service is away; asking again for {PATIENCE_S:g} s.")
            if time.monotonic() - heard_at_s >= PATIENCE_S:
                raise away from None
        if time.monotonic() >= deadline_s:
            raise Stop(
                f"The budget of comparison {comparison.id} is spent and the service has not "
                "decided: look at the service's log.",
                Exit.AWAY,
            )
        time.sleep(LOOK_S)


class Lines:
    """Progress as lines: one whenever a pair of a case is in, or what is waited for changes."""

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
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)


def _words(case: CaseFindingView) -> str:
    pairs = formats.counted(case.pairs, "pair")
    if case.settled:
        return f"{pairs}, {plain(case.verdict)}"
    if not case.metrics:
        return f"{pairs}, going on"
    first = case.metrics[0]
    change, between = formats.metric_change(first)
    return f"{pairs}, {first.metric} {change} ({between}), going on"


def plain(verdict: str) -> str:
    """A verdict as people write it."""
    return verdict.replace("_", " ")
