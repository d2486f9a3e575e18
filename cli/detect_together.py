"""Histories of one suite, put on one axis so that they can be judged together."""

from __future__ import annotations

from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from cli.detect_input import HistoryLine
from service.analysis.detection.history import History, Refused
from service.analysis.detection.together import Member


def members(lines: Sequence[HistoryLine], histories: Sequence[History]) -> list[Member]:
    """The histories of one suite with the position of each value.

    Positions follow the revisions, if all lines have them. Otherwise the newest values of all
    histories belong together. An id ``what@where`` names a measure and its place.

    Raises:
        Refused: two histories have their revisions in different orders.
    """
    places = _positions([line.revisions for line in lines])
    made = []
    for number, line in enumerate(lines):
        history, positions = histories[number], places[number]
        measure, _, place = str(number if line.id is None else line.id).partition("@")
        count = len(history.values)
        made.append(Member(history, positions or tuple(range(-count, 0)), measure, place))
    return made


def _positions(revisions: Sequence[Sequence[str] | None]) -> list[tuple[int, ...] | None]:
    known = [names for names in revisions if names is not None]
    if len(known) < len(revisions):
        return [None] * len(revisions)
    order = _order(known)
    return [tuple(order[name] for name in names) for names in known]


def _order(histories: Sequence[Sequence[str]]) -> dict[str, int]:
    """The number of each revision in an order that all histories share."""
    after: TopologicalSorter[str] = TopologicalSorter()
    pairs = {pair for names in histories for pair in pairwise(dict.fromkeys(names))}
    for name in sorted({name for names in histories for name in names}):
        after.add(name)
    for earlier, later in sorted(pairs):
        after.add(later, earlier)
    try:
        return {name: number for number, name in enumerate(after.static_order())}
    except CycleError as fault:
        names = " and ".join(repr(name) for name in sorted(set(fault.args[1]))[:2])
        raise Refused(f"Histories of one suite have {names} in different orders.") from None
