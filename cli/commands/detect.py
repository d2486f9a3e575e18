"""`throughline detect`: where the level of a history changed, without a service."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import orjson
import typer

from benchmarks.contracts import Direction
from cli import detect_input, detect_order, detect_together
from cli.exits import Exit, Stop
from cli.output.lines import remark
from service.analysis.detection import alarms as detection_alarms
from service.analysis.detection.change import ChangePoint
from service.analysis.detection.history import History, Refused, between_units
from service.analysis.detection.registry import DETECTORS
from service.analysis.detection.segment_model import THRESHOLD
from service.analysis.detection.together import detect_together as judge
from service.analysis.detection.windows import Detection
from service.wording import formats, statements


def detect(
    source: Annotated[
        str, typer.Argument(metavar="FILE", help="JSON lines or CSV; - reads standard input.")
    ] = "-",
    *,
    online: Annotated[
        bool, typer.Option("--online", help="Replay point by point: what is announced, and when.")
    ] = False,
    together: Annotated[
        bool,
        typer.Option(
            "--together", help="Judge histories of one suite with each other as witnesses."
        ),
    ] = False,
    detector: Annotated[
        str, typer.Option(help="Which detector: steps, or a fixed ratio.")
    ] = "steps",
    threshold: Annotated[
        float | None,
        typer.Option(help="The detector's threshold; its default serves every series."),
    ] = None,
    csv: Annotated[
        bool, typer.Option("--csv", help="Read CSV; by default as the file's name says.")
    ] = False,
    direction: Annotated[
        str,
        typer.Option(help="Which way is better where a history does not say: higher or lower."),
    ] = "lower",
) -> None:
    """Print where the level of each history changed, as JSON lines.

    A line of the input has the values of one history, in the order of their revisions; optional are
    id, direction, groups (the machine behind each value), revisions and suite. CSV has one row per
    point with the columns value and id, or one column per history; group and revision are optional.

    A history that cannot be analysed has an error in its line, and the exit code is 1. Input that
    is no history is wrong usage (2).
    """
    options = DetectOptions(online, detector, threshold, together)
    reads_csv = csv or source.lower().endswith(".csv")
    raise typer.Exit(run(source, options, direction, csv=reads_csv))


LONG, POINT_S = 10_000, 0.002
"""Length of a history whose replay is announced, and the time that one point takes."""


@dataclass(frozen=True, slots=True)
class DetectOptions:
    """The options of `throughline detect`."""

    online: bool
    detector: str
    threshold: float | None
    together: bool = False


def run(source: str, options: DetectOptions, direction: str, *, csv: bool) -> int:
    """Analyse every history of ``source``; a refused one is a line of its own and exit code 1.

    Histories without a direction have ``direction``.
    """
    _check(options, direction)
    read = detect_input.from_csv if csv else detect_input.from_json_lines
    refused = False
    answers = _answers_together if options.together else _answers
    with detect_input.opened(source) as lines:
        for answer in answers(read(lines, Direction(direction)), options):
            refused |= "error" in answer
            sys.stdout.buffer.write(orjson.dumps(answer, option=orjson.OPT_APPEND_NEWLINE))
    sys.stdout.buffer.flush()
    return Exit.FAILED if refused else Exit.OK


def _check(options: DetectOptions, direction: str) -> None:
    if options.detector not in DETECTORS:
        raise Stop(f"There is no detector {options.detector!r}; there are {', '.join(DETECTORS)}.")
    if options.online and options.detector != "steps":
        raise Stop("Only the detector steps runs --online.")
    if options.together and (options.online or options.detector != "steps"):
        raise Stop("--together is for whole histories and the detector steps.")
    if direction not in tuple(Direction):
        raise Stop(f"The direction is 'higher' or 'lower', not {direction!r}.")
    if options.threshold is not None and not 0 < options.threshold < float("inf"):
        raise Stop("A threshold is a number above zero.")


def _answers(
    histories: Iterator[detect_input.Read], options: DetectOptions
) -> Iterator[dict[str, Any]]:
    try:
        for read in histories:
            line = read.line
            try:
                history = _history(line)
                if options.online and len(history.values) >= LONG:
                    remark(_patience(len(history.values)))
                yield {"id": line.id, **_analysed(history, options, _warnings(read))}
            except Refused as refusal:
                yield {"id": line.id, "error": str(refusal)}
    except detect_input.Unreadable as problem:
        raise Stop(str(problem)) from None


def _answers_together(
    histories: Iterator[detect_input.Read], options: DetectOptions
) -> Iterator[dict[str, Any]]:
    """One answer for each history, in their order; those of one suite are judged together."""
    try:
        reads = list(histories)
    except detect_input.Unreadable as problem:
        raise Stop(str(problem)) from None
    answers: dict[int, dict[str, Any]] = {}
    suites: dict[str | None, list[tuple[int, History]]] = {}
    for at, read in enumerate(reads):
        try:
            suites.setdefault(read.line.suite, []).append((at, _history(read.line)))
        except Refused as refusal:
            answers[at] = {"error": str(refusal)}
    for some in suites.values():
        answers |= dict(_judged([(at, reads[at], history) for at, history in some], options))
    for at, read in enumerate(reads):
        yield {"id": read.line.id, **answers[at]}


def _judged(
    some: Sequence[tuple[int, detect_input.Read, History]], options: DetectOptions
) -> Iterator[tuple[int, dict[str, Any]]]:
    threshold = THRESHOLD if options.threshold is None else options.threshold
    try:
        members = detect_together.members(
            [read.line for _, read, _ in some], [history for _, _, history in some]
        )
    except Refused as refusal:
        yield from ((at, {"error": str(refusal)}) for at, _, _ in some)
        return
    detections = judge(members, threshold)
    for (at, read, _), detection in zip(some, detections, strict=True):
        yield at, document(detection, _warnings(read))


def _patience(points: int) -> str:
    least = formats.duration(points * POINT_S)
    count = formats.number(points)
    return f"A history of {count} points is replayed one by one, which takes {least} or more."


def _history(line: detect_input.HistoryLine) -> History:
    if line.revisions is not None:
        if len(line.revisions) != len(line.values):
            counts = f"{len(line.revisions)} revisions for {len(line.values)} values"
            raise Refused(f"There are {counts}.")
        problem = detect_order.disorder(line.revisions)
        if problem:
            raise Refused(problem)
    return History.of(line.numbers, line.direction, line.groups)


def _warnings(read: detect_input.Read) -> tuple[str, ...]:
    warning = detect_order.repeated(read.line.revisions or [])
    return (*read.unread, warning) if warning else read.unread


def _analysed(
    history: History, options: DetectOptions, warnings: tuple[str, ...]
) -> dict[str, Any]:
    detector, default = DETECTORS[options.detector]
    threshold = default if options.threshold is None else options.threshold
    analysed = detector(history, threshold)
    if options.online:
        return replayed(list(detection_alarms.replay(history, threshold)), analysed, warnings)
    return document(analysed, warnings)


def replayed(
    alarms: Sequence[detection_alarms.Alarm], whole: Detection, warnings: Sequence[str] = ()
) -> dict[str, Any]:
    """The printed alarms, with warnings about the whole history and about the changes."""
    return {
        "alarms": [{"at": alarm.at, **shown(alarm.change)} for alarm in alarms],
        "warnings": [*warnings, *_worded(whole), *_units([alarm.change for alarm in alarms])],
    }


def document(analysed: Detection, warnings: Sequence[str] = ()) -> dict[str, Any]:
    """An analysis as it is printed; what is infinite becomes null."""
    return {
        "change_points": [shown(change) for change in analysed.change_points],
        "noise": asdict(analysed.noise) if analysed.noise else None,
        "warnings": [*warnings, *_worded(analysed), *_units(analysed.change_points)],
    }


def _worded(analysed: Detection) -> Iterator[str]:
    return map(statements.say, analysed.warnings)


def _units(changes: Sequence[ChangePoint]) -> Iterator[str]:
    """Say that a change of level looks like a change of unit."""
    for change in changes:
        factor = between_units(change.before, change.after)
        if factor:
            yield (
                f"From value {change.index} on the level is about {factor:g} times what it was: "
                "if the unit changed there, convert one side and analyse again."
            )


def shown(change: ChangePoint) -> dict[str, Any]:
    """The printed change, with six significant digits."""
    return {
        key: float(f"{value:.6g}") if isinstance(value, float) else value
        for key, value in asdict(change).items()
    }
