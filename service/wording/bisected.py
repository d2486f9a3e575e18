"""How a bisection reads: its outcome, and what is next."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from benchmarks.contracts.pins import pins_of
from service.schemas import bisections as schemas
from service.wording import formats

WHOLE = 0.75
"""Share of the change from which on one culprit is taken for the whole of it."""


def noun_of(revision: str) -> str:
    """Name what lies between two such revisions."""
    return "release" if pins_of(revision) else "commit"


def listing_words(revision: str) -> str:
    """Say what a bisection waits for whose range nobody has listed yet."""
    return f"It begins once a worker has listed the {noun_of(revision)}s between the ends."


def outcome_words(
    outcome: schemas.BisectionOutcome,
    named: Sequence[schemas.RangeCommit],
    probability: float,
    share: float | None,
    processes: int,
    others: Sequence[tuple[Sequence[schemas.RangeCommit], float]] = (),
    noun: str = "commit",
) -> str:
    """Say how a bisection ended, with the commits that it names, its probability and its cost.

    ``others`` made the rest: the commits of each, one or a range, and its share of the change.
    """
    told = f" Probability {probably(probability)}, {processes} processes."
    rest = "" if share is None or (share >= WHOLE and not others) else _rest(share, others, noun)
    match outcome:
        case schemas.BisectionOutcome.CULPRIT:
            return f"{commit_words(named[-1])} changed it.{rest}{told}"
        case schemas.BisectionOutcome.RANGE:
            count = formats.counted(len(named), noun)
            return (
                f"One of {count} changed it, up to {commit_words(named[-1])}; those between "
                f"cannot be measured.{rest if others else ''}{told}"
            )
        case schemas.BisectionOutcome.ENVIRONMENT:
            return f"The ends do not differ today: no {noun} between them changed it.{told}"
        case schemas.BisectionOutcome.NOT_REPRODUCED:
            return f"Both ends are as fast today as before the change: it is gone.{told}"
        case schemas.BisectionOutcome.UNDECIDED if named:
            return f"Nothing is sure. {commit_words(named[-1])} is the likeliest.{told}"
        case schemas.BisectionOutcome.UNDECIDED:
            return f"Nothing is known after {processes} processes."


def probably(probability: float) -> str:
    """A probability, rounded down: none is certain."""
    return f"{min(math.floor(1_000 * probability) / 10, 99.9):.1f}{formats.NBSP}%"


def _rest(
    share: float, others: Sequence[tuple[Sequence[schemas.RangeCommit], float]], noun: str
) -> str:
    made = f" It makes {formats.share(share)} of the change"
    if not others:
        return f"{made}: another {noun} may have made the rest."
    return "".join([made, *(f", {_made(*one)}" for one in others), "."])


def _made(commits: Sequence[schemas.RangeCommit], share: float) -> str:
    last = commit_words(commits[-1])
    several = f"{len(commits)} {noun_of(commits[-1].revision)}s"
    who = last if len(commits) == 1 else f"one of {several} up to {last}"
    return f"{who} {formats.share(share)}"


def roll_words(before: Mapping[str, str], after: Mapping[str, str], case_key: str) -> str:
    """Say which packages moved with a culprit, and how to search among the releases of one.

    Empty if none moved. A worker may say anything: what is no version is left out.
    """
    moved = {
        name: (f"{name}=={before[name]}", f"{name}=={after[name]}")
        for name in sorted(before.keys() & after.keys(), key=lambda one: (one != "torch", one))
        if before[name] != after[name]
    }
    rolls = {name: ends for name, ends in moved.items() if all(map(pins_of, ends))}
    if not rolls:
        return ""
    told = (f"{name} moved from {before[name]} to {after[name]}" for name in rolls)
    good, bad = (end.partition("+")[0] for end in next(iter(rolls.values())))
    search = f" Search the release: throughline bisect {good}..{bad} {case_key}"
    return f"A dependency roll: {', '.join(told)}.{search if good != bad else ''}"


def commit_words(commit: schemas.RangeCommit | schemas.BisectedCommit) -> str:
    """A commit with author and title, where they are known."""
    said = [commit.author, f'"{commit.title}"' if commit.title else ""]
    inside = ", ".join(filter(None, said))
    name = formats.revision(commit.revision)
    return f"{name} ({inside})" if inside else name


def next_words(
    places: tuple[int, int] | None,
    commits: Sequence[schemas.BisectedCommit],
    stage: schemas.BisectionStage = schemas.BisectionStage.SEARCH,
) -> str:
    """Say which pair is measured next; empty if none is."""
    if places is None:
        return ""
    commit, beside = (formats.revision(commits[place].revision) for place in places)
    noun = noun_of(commits[0].revision)
    if stage is schemas.BisectionStage.REST:
        return f"Measure {noun} {places[0]}, {commit}, beside {beside}: who made the rest?"
    if places == (len(commits) - 1, 0):
        return f"Measure the bad end {commit} beside the good end {beside}."
    if places[1] == 0:
        return f"Measure {noun} {places[0]}, {commit}, beside the good end {beside}."
    return f"Measure the likeliest {noun} {commit} beside {beside}, which comes before it."
