"""Runs a command that measures and prints, or writes, its numbers in a format of another tool."""

from __future__ import annotations

import io
import os
import subprocess
import tempfile
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, BinaryIO

from cli.exits import Exit, Stop
from cli.foreign_points import readable
from service.schemas.measured_elsewhere import ForeignPoint
from service.wording.formats import duration
from worker.child import process_tree

if TYPE_CHECKING:
    from cli.formats import FormatRead

LAST_LINES = 20
"""Of what a command said that failed."""
LARGEST_END_B = 16_384
GRACE_S = 5.0
"""For which a command that was interrupted may end by itself."""
KILL_S = 10.0
"""A process that lives so long after SIGKILL waits inside a driver."""
Key = tuple[str, tuple[tuple[str, str], ...], str]


class CommandFailed(Stop):
    """The command ended with a failure, or gave no numbers."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence, Exit.FAILED)


@dataclass(frozen=True)
class ForeignCommand:
    """A command with the way in which it gives its numbers."""

    words: Sequence[str]
    format_name: str | None
    output: Path | None
    """The file that it writes, seen from its folder; None: it prints them."""
    timeout_s: float
    """After which it is ended with all that it started."""

    def measure(self, folder: Path) -> tuple[str, tuple[ForeignPoint, ...]]:
        """Run it once in ``folder``, without a shell; the format and the points.

        Raises:
            CommandFailed: it failed, or what it gave cannot be read.
        """
        with tempfile.TemporaryDirectory() as place:
            printed = Path(place, "stdout")
            if self.output is not None:
                (folder / self.output).unlink(missing_ok=True)  # that of an earlier run
            self._run(folder, printed)
            numbers = printed if self.output is None else folder / self.output
            try:
                read = self._read(numbers)
            except Stop as stop:
                where = "What the command printed" if self.output is None else str(numbers)
                why = stop.sentence.removeprefix(f"{numbers}: ")
                raise CommandFailed(f"{where}: {why}") from stop
            return read.format, read.points

    def by_key(self, folder: Path) -> dict[Key, ForeignPoint]:
        """Run it once; the points by what they measure."""
        return {key_of(point): point for point in self.measure(folder)[1]}

    def _read(self, numbers: Path) -> FormatRead:
        from cli import formats  # noqa: PLC0415 - only this command needs its readers

        with readable():
            return formats.read(numbers, self.format_name)

    def _run(self, folder: Path, printed: Path) -> None:
        mark = uuid.uuid4().hex
        with printed.open("w+b") as out, tempfile.TemporaryFile() as err:
            try:
                child = subprocess.Popen(
                    self.words,
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    env={**os.environ, process_tree.MARK: mark},
                    start_new_session=True,
                )
            except OSError as error:
                raise CommandFailed(
                    f"{self.words[0]} cannot be run in {folder}: {error.strerror}."
                ) from error
            fault = self._fault(child, process_tree.Tree.of(child.pid, mark))
            if fault is None:
                return
            said = [*_last_lines(out), *_last_lines(err)][-LAST_LINES:]
            sentence = f"{' '.join(self.words)} {fault} in {folder}; nothing was kept."
            raise CommandFailed("\n".join([sentence, *said]))

    def _fault(self, child: subprocess.Popen[bytes], tree: process_tree.Tree) -> str | None:
        """Wait for a command, and say what is wrong with its end.

        Its time-out, or whoever interrupts this, ends it with all that it started.
        """
        try:
            code = child.wait(self.timeout_s)
        except BaseException as interruption:
            process_tree.end(tree, GRACE_S, KILL_S)
            child.wait()
            if isinstance(interruption, subprocess.TimeoutExpired):
                return f"was ended after its --timeout of {duration(self.timeout_s)}"
            raise
        if code == 0:
            return None
        return f"ended with signal {-code}" if code < 0 else f"ended with {code}"


def _last_lines(stream: BinaryIO) -> list[str]:
    end = stream.seek(0, io.SEEK_END)
    stream.seek(max(0, end - LARGEST_END_B))
    return stream.read().decode(errors="replace").splitlines()[-LAST_LINES:]


def key_of(point: ForeignPoint) -> Key:
    """The subject of a measurement: the same in every run of a command."""
    return point.benchmark, tuple(sorted(point.parameters.items())), point.metric


def together(runs: Sequence[Sequence[ForeignPoint]]) -> list[ForeignPoint]:
    """Put runs together: one sample for each process, the mean of what it measured.

    A single run keeps the samples that its tool took. What a run lacks has fewer samples.
    """
    now = datetime.now(UTC)
    by_key: dict[Key, list[ForeignPoint]] = {}
    for run in runs:
        for point in run:
            by_key.setdefault(key_of(point), []).append(point)
    return [_joined(points, now) for points in by_key.values()]


def _joined(points: Sequence[ForeignPoint], now: datetime) -> ForeignPoint:
    first = points[0]
    known = first if first.at is not None else first.model_copy(update={"at": now})
    if len(points) == 1:
        return known
    for one in points:
        if (one.unit, one.direction) != (first.unit, first.direction):
            raise CommandFailed(
                f"{one.benchmark} is in {first.unit} in one run and in {one.unit} in another."
            )
    values = tuple(fmean(one.values) for one in points)
    return known.model_copy(update={"values": values, "low": None, "high": None})
