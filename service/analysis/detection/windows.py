"""A whole history, window by window, so that new points cost what they are.

Windows overlap: each analyses ``STRIDE`` points of its own with ``CONTEXT`` on both sides. A window
whose context is complete is never analysed again by an appended point, so the distant past stands,
the work per point is bounded, and the outcome is that of a full analysis by construction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from service.analysis.detection import change
from service.analysis.detection.history import History, Scale, transform
from service.analysis.detection.segment_model import THRESHOLD
from service.analysis.detection.support import NONE, Supports, within
from service.analysis.detection.window import explain_window
from service.analysis.statement import Statement

STRIDE, CONTEXT = 192, 96
"""Half a year of nights, and more context than evidence reaches (60 points)."""
SAME = 10
"""Points by which one change may be placed apart: by two windows on either side of their border, or
as points come in."""
LEAST_POINTS = 10
"""Two levels of five points; fewer hold no change that could be seen."""


@dataclass(frozen=True, slots=True)
class Detection:
    """The changes and the noise found in a history."""

    change_points: tuple[change.ChangePoint, ...]
    noise: change.Noise | None
    """None if there are too few points to tell."""
    warnings: tuple[Statement, ...] = ()
    settled: tuple[tuple[change.ChangePoint, ...], ...] = ()
    """Change points of the windows that no appended point touches; pass them on to ``extend``."""
    newest: tuple[change.ChangePoint, ...] = ()
    """Those of the newest window, which more points may move."""
    points: int = 0


def detect(history: History, threshold: float = THRESHOLD, supports: Supports = NONE) -> Detection:
    """Analyse a whole history; ``supports`` say what is known of its places from elsewhere."""
    return extend(Detection((), None), history, threshold, supports)


def extend(
    before: Detection, history: History, threshold: float = THRESHOLD, supports: Supports = NONE
) -> Detection:
    """Analyse a history that ``before`` analysed up to some point, after points were appended.

    Equals ``detect`` of the whole; one more point costs one window however long the past is. What
    changes the past (a late point, a new unit, zeros in a history that had none, a support) needs
    ``detect``.
    """
    return resume(before.settled, history, 0, threshold, complete(before), supports)


def complete(before: Detection) -> Changes | None:
    """The newest window's changes, if it had all the points that it will ever rest on."""
    return before.newest if before.points == end_needed(len(before.settled)) else None


def resume(
    settled: Sequence[Changes],
    tail: History,
    first: int,
    threshold: float = THRESHOLD,
    known: Changes | None = None,
    supports: Supports = NONE,
) -> Detection:
    """Analyse a history of whose beginning only the settled windows' changes are at hand.

    ``tail`` begins with point ``first`` of the history, which is at most
    ``first_needed(len(settled))``. ``known`` are the changes of the next window to settle, if it
    was the newest one when it was `complete`. ``supports`` count from the history's first point.
    """
    count = first + len(tail.values)
    if count < LEAST_POINTS:
        return Detection((), None, (Statement.of("few_points", points=count, least=LEAST_POINTS),))
    windows = list(settled)
    while end_needed(len(windows)) < count:
        number = len(windows)
        if known is None:
            known = _window_changes(tail, first, number, threshold, supports)[0]
        windows.append(tuple(one for one in known if one.index < (number + 1) * STRIDE + SAME))
        known = None
    newest, noise, warnings = _window_changes(tail, first, len(windows), threshold, supports)
    return Detection(joined([*windows, newest]), noise, warnings, tuple(windows), newest, count)


def first_needed(window: int) -> int:
    """The first point that a window rests on."""
    return max(0, window * STRIDE - CONTEXT)


def end_needed(window: int) -> int:
    """The point after the last one that a settled window rests on."""
    return (window + 1) * STRIDE + CONTEXT


Changes = tuple[change.ChangePoint, ...]
WindowAnalysis = tuple[Changes, change.Noise, tuple[Statement, ...]]


def _window_changes(
    history: History, first: int, number: int, threshold: float, supports: Supports
) -> WindowAnalysis:
    """The changes that one window knows of, from a seam's width before its own points on."""
    begin = number * STRIDE
    start = first_needed(number)
    end = min(first + len(history.values), end_needed(number))
    y, scale = transform(history.values[start - first : end - first])
    groups = None if history.groups is None else history.groups[start - first : end - first]
    inside = within(supports, start, end)
    explained = explain_window(y, groups, threshold, inside)
    changes = change.described(explained, scale, history.direction, threshold, inside)
    mine = tuple(
        replace(one, index=one.index + start)
        for one in changes
        if one.index + start >= begin - SAME
    )
    noise = change.noise_in(explained, scale, history.group_names, threshold)
    return mine, noise, _warnings(scale)


def joined(windows: list[tuple[change.ChangePoint, ...]]) -> tuple[change.ChangePoint, ...]:
    """All windows' changes in order, each once: of two beside a border the stronger one."""
    kept: list[change.ChangePoint] = []
    for number, changes in enumerate(windows):
        border, earlier = number * STRIDE, len(kept)
        for one in changes:
            rival = kept[-1] if 0 < len(kept) == earlier else None  # of an earlier window
            beside = rival is not None and abs(rival.index - border) <= SAME
            if rival and beside and one.index - rival.index <= SAME:
                if one.evidence > rival.evidence:
                    kept[-1] = one
                    earlier -= 1
            else:
                kept.append(one)
    return tuple(kept)


def _warnings(scale: Scale) -> tuple[Statement, ...]:
    if scale.logarithmic:
        return ()
    return (Statement.of("no_ratios", size=scale.size),)
