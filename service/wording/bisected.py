"""How a bisection reads: its outcome, and what is next."""

from __future__ import annotations

import math
from collections.abc import Sequence

from service.schemas.bisections import BisectedCommit, BisectionOutcome, RangeCommit
from service.wording import formats

WHOLE = 0.75
"""Share of the change from which on one culprit is taken for the whole of it."""


def outcome_words(
    outcome: BisectionOutcome,
    named: Sequence[RangeCommit],
    probability: float,
    share: float | None,
    processes: int,
) -> str:
    """Say how a bisection ended, with the commits that it names, its probability and its cost."""
    told = f" Probability {probably(probability)}, {processes} processes."
    match outcome:
        case BisectionOutcome.CULPRIT:
            rest = "" if share is None or share >= WHOLE else _rest(share)
            return f"{commit_words(named[-1])} changed it.{rest}{told}"
        case BisectionOutcome.RANGE:
            count = formats.counted(len(named), "commit")
            return (
                f"One of {count} changed it, up to {commit_words(named[-1])}; those between "
                f"cannot be measured.{told}"
            )
        case BisectionOutcome.ENVIRONMENT:
            return f"The ends do not differ today: no commit between them changed it.{told}"
        case BisectionOutcome.NOT_REPRODUCED:
            return f"Both ends are as fast today as before the change: it is gone.{told}"
        case BisectionOutcome.UNDECIDED if named:
            return f"Nothing is sure. {commit_words(named[-1])} is the likeliest.{told}"
        case BisectionOutcome.UNDECIDED:
            return f"Nothing is known after {processes} processes."


def probably(probability: float) -> str:
    """A probability, rounded down: none is certain."""
    return f"{min(math.floor(1_000 * probability) / 10, 99.9):.1f}{formats.NBSP}%"


def _rest(share: float) -> str:
    return f" It makes {formats.share(share)} of the change: another commit made the rest."


def commit_words(commit: RangeCommit | BisectedCommit) -> str:
    """A commit with author and title, where they are known."""
    said = [commit.author, f'"{commit.title}"' if commit.title else ""]
    inside = ", ".join(filter(None, said))
    name = formats.revision(commit.revision)
    return f"{name} ({inside})" if inside else name


def next_words(places: tuple[int, int] | None, commits: Sequence[BisectedCommit]) -> str:
    """Say which pair is measured next; empty if none is."""
    if places is None:
        return ""
    commit, beside = (formats.revision(commits[place].revision) for place in places)
    if places == (len(commits) - 1, 0):
        return f"Measure the bad end {commit} beside the good end {beside}."
    if places[1] == 0:
        return f"Measure commit {places[0]}, {commit}, beside the good end {beside}."
    return f"Measure the likeliest commit {commit} beside {beside}, which comes before it."
