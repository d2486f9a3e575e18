"""Histories in, findings out, one JSON line each; no service, no database."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import orjson

from benchmarks.contracts import Direction
from cli.detect_input import HistoryLine, Read, Unreadable, from_csv, from_json_lines, opened
from cli.detect_order import disorder, repeated
from cli.exits import Exit, Stop
from cli.output.lines import say
from service import formats
from service.analysis.detection import alarms as detection_alarms
from service.analysis.detection.change import ChangePoint
from service.analysis.detection.history import History, Refused
from service.analysis.detection.registry import DETECTORS
from service.analysis.detection.scale import between_units
from service.analysis.detection.windows import Judgement

LONG, POINT_S = 10_000, 0.002
"""Points whose replay nobody should have to wait for without a word, and what one of them takes."""


@dataclass(frozen=True, slots=True)
class DetectOptions:
    """The options of `throughline detect`."""

    online: bool
    detector: str
    threshold: float | None


def run(source: str, wanted: DetectOptions, direction: str, *, csv: bool) -> int:
    """Judge every history of ``source``; a refused one is a line of its own and exit code 1.

    ``direction`` is that of the histories that do not say theirs.
    """
    _check(wanted, direction)
    read = from_csv if csv else from_json_lines
    refused = False
    with opened(source) as lines:
        for answer in _answers(read(lines, Direction(direction)), wanted):
            refused |= "error" in answer
            sys.stdout.buffer.write(orjson.dumps(answer, option=orjson.OPT_APPEND_NEWLINE))
    sys.stdout.buffer.flush()
    return Exit.FAILED if refused else Exit.OK


def _check(wanted: DetectOptions, direction: str) -> None:
    if wanted.detector not in DETECTORS:
        raise Stop(f"There is no detector {wanted.detector!r}; there are {', '.join(DETECTORS)}.")
    if wanted.online and wanted.detector != "steps":
        raise Stop("Only the detector steps runs --online.")
    if direction not in tuple(Direction):
        raise Stop(f"The direction is 'higher' or 'lower', not {direction!r}.")
    if wanted.threshold is not None and not 0 < wanted.threshold < float("inf"):
        raise Stop("A threshold is a number above zero.")


def _answers(histories: Iterator[Read], wanted: DetectOptions) -> Iterator[dict[str, Any]]:
    try:
        for read in histories:
            line = read.line
            try:
                history = _history(line)
                if wanted.online and len(history.values) >= LONG:
                    say(_patience(len(history.values)), sys.stderr)
                yield {"id": line.id, **_judged(history, wanted, _warnings(read))}
            except Refused as refusal:
                yield {"id": line.id, "error": str(refusal)}
    except Unreadable as problem:
        raise Stop(str(problem)) from None


def _patience(points: int) -> str:
    least = formats.duration(points * POINT_S)
    count = formats.number(points)
    return f"A history of {count} points is replayed one by one, which takes {least} or more."


def _history(line: HistoryLine) -> History:
    if line.revisions is not None:
        if len(line.revisions) != len(line.values):
            told = f"There are {len(line.revisions)} revisions for {len(line.values)} values."
            raise Refused(told)
        problem = disorder(line.revisions)
        if problem:
            raise Refused(problem)
    return History.of(line.numbers, line.direction, line.groups)


def _warnings(read: Read) -> tuple[str, ...]:
    told = repeated(read.line.revisions or [])
    return (*read.unread, told) if told else read.unread


def _judged(history: History, wanted: DetectOptions, warnings: tuple[str, ...]) -> dict[str, Any]:
    detector, usual = DETECTORS[wanted.detector]
    threshold = usual if wanted.threshold is None else wanted.threshold
    judged = detector(history, threshold)
    judged = replace(judged, warnings=(*warnings, *judged.warnings))
    if wanted.online:
        return replayed(list(detection_alarms.replay(history, threshold)), judged)
    return document(judged)


def replayed(alarms: Sequence[detection_alarms.Alarm], whole: Judgement) -> dict[str, Any]:
    """Alarms as they are printed, with what is odd in the whole history and in what they tell."""
    return {
        "alarms": [{"at": alarm.at, **shown(alarm.change)} for alarm in alarms],
        "warnings": [*whole.warnings, *_units([alarm.change for alarm in alarms])],
    }


def document(judged: Judgement) -> dict[str, Any]:
    """A judgement as it is printed; what is infinite becomes null."""
    return {
        "change_points": [shown(each) for each in judged.change_points],
        "noise": asdict(judged.noise) if judged.noise else None,
        "warnings": [*judged.warnings, *_units(judged.change_points)],
    }


def _units(changes: Sequence[ChangePoint]) -> Iterator[str]:
    """A change of unit is a change of level, and is said to look like the former."""
    for change in changes:
        factor = between_units(change.before, change.after)
        if factor:
            yield (
                f"From value {change.index} on the level is about {factor:g} times what it was: "
                "if the unit changed there, convert one side and judge again."
            )


def shown(change: ChangePoint) -> dict[str, Any]:
    """A change as it is printed, six digits after the point where they can matter."""
    return {
        key: float(f"{value:.6g}") if isinstance(value, float) else value
        for key, value in asdict(change).items()
    }
