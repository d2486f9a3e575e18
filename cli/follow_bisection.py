"""Follows a bisection on the service until it ends."""

from __future__ import annotations

import time

from cli.client import ServiceClient, read
from cli.exits import Away, Exit
from cli.output.console import Console
from service.schemas import bisections
from service.wording import formats
from service.wording.bisected import noun_of, probably

LOOK_S = 2.0
PATIENCE_S = 60.0
"""Longest absence of a service, as while it is restarted."""


def until_ended(client: ServiceClient, begun: bisections.BisectionView, console: Console) -> str:
    """Say what each pair showed until the bisection has ended; return the last answer's text.

    Raises:
        Away: the service stays away.
    """
    told = ToldProbes(console)
    heard_at_s = time.monotonic()
    while True:
        try:
            text = client.text("bisections", begun.id)
            heard_at_s = time.monotonic()
            view = read(bisections.BisectionView, text)
            told.show(view)
            if view.state is not bisections.BisectionState.RUNNING:
                return text
        except Away as away:
            told.say(f"The service is away; asking again for {PATIENCE_S:g} s.")
            if time.monotonic() - heard_at_s >= PATIENCE_S:
                raise away from None
        time.sleep(LOOK_S)


def range_words(view: bisections.BisectionView) -> str:
    """Count the commits or releases of a range, or name the ends of one that nobody listed yet."""
    if view.stage is bisections.BisectionStage.COMMITS:
        return f"{view.good}..{view.bad}"
    return formats.counted(len(view.commits) - 1, noun_of(view.good))


def exit_of(view: bisections.BisectionView) -> Exit:
    """0 if a commit or a range is named, 1 if no commit is to blame, 4 if nothing is sure."""
    if view.outcome in bisections.BLAMED:
        return Exit.OK
    if view.outcome in (
        bisections.BisectionOutcome.ENVIRONMENT,
        bisections.BisectionOutcome.NOT_REPRODUCED,
    ):
        return Exit.FAILED
    return Exit.TIMEOUT


class ToldProbes:
    """Progress as lines: one for each pair that was measured, and for what is next."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown = 0
        self._last = ""

    def show(self, view: bisections.BisectionView) -> None:
        """Print what is new."""
        ended = [probe for probe in view.probes if not probe.under_way]
        for probe in ended[self._shown :]:
            self.say(probe_words(probe, view))
        if len(ended) > self._shown:
            self.say(leading_words(view))
        self._shown = len(ended)
        self.say(view.next)

    def say(self, sentence: str) -> None:
        """Print a line, unless it was the last one said."""
        if sentence and sentence != self._last:
            self._console.say(sentence)
            self._last = sentence


def probe_words(probe: bisections.ProbeView, view: bisections.BisectionView) -> str:
    """Say in a line what a pair showed."""
    commit, beside = (
        formats.revision(view.commits[place].revision) for place in (probe.commit, probe.beside)
    )
    if probe.difference is None:
        return f"Pair {probe.number + 1}: {commit} beside {beside}: {probe.note}"
    worse = "worse" if probe.difference >= 0 else "better"
    size = formats.share(abs(probe.difference))
    return f"Pair {probe.number + 1}: {commit} is {size} {worse} than {beside}."


def leading_words(view: bisections.BisectionView) -> str:
    """The commit that leads, and how probable that none is the culprit.

    Once a culprit is verified: that, and the commit that leads for the rest of the change.
    """
    rest = view.stage is bisections.BisectionStage.REST
    known = {view.last, *(one.last for one in view.others)} if rest else set()
    leading = max(
        (commit for commit in view.commits if commit.place not in known),
        key=lambda commit: commit.probability,
    )
    likeliest = f"{formats.revision(leading.revision)} ({probably(leading.probability)})"
    cost = f"{view.processes} of {view.most_processes} processes."
    if not rest or view.last is None:
        none = f"no {noun_of(view.commits[0].revision)}: {probably(view.environment)}"
        return f"Likeliest: {likeliest}; {none}; {cost}"
    verified = formats.revision(view.commits[view.last].revision)
    return f"Verified: {verified}. Likeliest for the rest: {likeliest}; {cost}"
