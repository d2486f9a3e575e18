"""Runs git and uv for a build: bounded in time and disk, without token and GPU, under guard."""

from __future__ import annotations

import math
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from worker.child import process_tree
from worker.child.containment import Containment, guarded
from worker.child.resource_limits import DiskWatch, fits

LOOK_S = 1.0
LAST_LINES = 3
"""Lines of a log that a failure quotes."""
_BOILERPLATE = ("Please make sure you have the correct access rights", "and the repository exists.")
"""git's last words whenever it cannot reach a repository; the cause stands before them."""
KEPT_LINES = 40
"""Lines of a log that go with a failure, as its job's log."""
LOG_KEPT_B = 2**20
"""A larger log is begun anew."""
PRINTED_B = 64 * 2**20
"""Most that a command may print, or say: neither may fill memory or disk."""
LONGEST_LINE = 300
_SECRET = ("TOKEN", "SECRET", "PASSWORD", "CREDENTIAL", "API_KEY")
"""Parts of the names of variables that a build does not get."""
_OF_A_REPOSITORY = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY")
"""Set within hooks; they would turn git to another repository."""
TASKS = 2_000
"""Processes and threads, where the kernel can limit them."""


_LOOK: ContextVar[Callable[[], None]] = ContextVar("look", default=lambda: None)


class BuildFailed(Exception):
    """A step of a build failed; the message is one sentence."""

    def __init__(self, sentence: str, log: str = "") -> None:
        """``log`` is the end of what the step said."""
        super().__init__(sentence)
        self.log = log


class Unbuildable(BuildFailed):
    """The commit is at fault: it fails the same way each time."""


class TooMuch(BuildFailed):
    """A step wrote or printed more than it may."""


@dataclass(frozen=True, slots=True)
class BuildLimits:
    """The most that a command may take."""

    seconds: float
    folders: tuple[Path, ...] = ()
    """The folders that it fills, if any."""
    disk_b: float = math.inf
    """Of each of them."""


@contextmanager
def interrupted_by(look: Callable[[], None]) -> Iterator[None]:
    """Call ``look`` every second while this thread builds; what it raises ends the build."""
    token = _LOOK.set(look)
    try:
        yield
    finally:
        _LOOK.reset(token)


def look() -> None:
    """Raise what is to end this thread's build, if anything is."""
    _LOOK.get()()


def run(
    command: Sequence[str],
    limits: BuildLimits,
    log: Path,
    more: Mapping[str, str] | None = None,
    place: Path | None = None,
    typed: str = "",
) -> str:
    """Run a command to its end and return what it printed; its errors go to ``log``.

    It reads what is ``typed``. Whatever it starts ends with it, and with this process, and gives
    way to what is measured beside it.

    Raises:
        BuildFailed: it cannot be started, fails, or takes too long or too much.
    """
    name = " ".join([Path(command[0]).name, *_subcommand(command)])
    mode = "wb" if log.exists() and log.stat().st_size > LOG_KEPT_B else "ab"
    with (
        log.open(mode) as said,
        tempfile.TemporaryFile() as printed,
        tempfile.TemporaryFile() as read,
    ):
        from_b = said.tell()
        read.write(typed.encode())
        read.seek(0)
        process = subprocess.Popen(
            [*guarded(Containment.PROCESS_GROUP, TASKS, gives_way=True), *command],
            cwd=place,
            env=environment() | dict(more or {}),
            stdin=read,
            stdout=printed,
            stderr=said,
            start_new_session=True,
        )
        try:
            _await(process, limits, name, (printed.fileno(), said.fileno()))
        except BaseException:
            process_tree.end(process_tree.Tree.of(process.pid, ""), 0.0, 10.0)
            process.wait()
            raise
        if process.returncode != 0:
            lines = _last_lines(log, from_b)
            raise BuildFailed(f"`{name}` failed: {_last_words(lines)}", "\n".join(lines))
        printed.seek(0)
        return printed.read().decode(errors="replace")


def _subcommand(command: Sequence[str]) -> Iterator[str]:
    """Yield the word that says what git or uv is to do, for messages."""
    words = iter(command[1:])
    for word in words:
        if word in ("-c", "-C"):
            next(words)
        elif not word.startswith("-"):
            yield word
            return


def environment() -> dict[str, str]:
    """This process's environment without tokens, and without a GPU to see."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("THROUGHLINE_", "PYTHON"))
        and name not in _OF_A_REPOSITORY
        and not any(part in name.upper() for part in _SECRET)
    }
    return kept | {"CUDA_VISIBLE_DEVICES": "", "GIT_TERMINAL_PROMPT": "0"}


def _await(
    process: subprocess.Popen[bytes], limits: BuildLimits, name: str, outputs: Sequence[int]
) -> None:
    until_s = time.monotonic() + limits.seconds
    watches = [DiskWatch(folder, limits.disk_b) for folder in limits.folders]
    ended = False
    while not ended:
        ended = _has_ended_within(process, LOOK_S)
        look()
        if not all(
            fits(watch.folder, limits.disk_b) if ended else watch.still_fits() for watch in watches
        ):
            gib = limits.disk_b / 2**30
            raise TooMuch(f"`{name}` needs more than {gib:g} GiB of disk, or too many files.")
        if any(os.fstat(output).st_size > PRINTED_B for output in outputs):
            raise TooMuch(f"`{name}` printed more than {PRINTED_B >> 20} MiB.")
        if not ended and time.monotonic() > until_s:
            raise BuildFailed(f"`{name}` took longer than {limits.seconds:g} s.")


def _has_ended_within(process: subprocess.Popen[bytes], limit_s: float) -> bool:
    """Wait in the kernel: `Popen.wait` with a limit sleeps up to 50 ms at a time."""
    handle = os.pidfd_open(process.pid)
    try:
        has_ended = bool(select.select([handle], [], [], limit_s)[0])
    finally:
        os.close(handle)
    if has_ended:
        process.wait()
    return has_ended


def _last_lines(log: Path, from_b: int) -> list[str]:
    """The last lines of a log that was ``from_b`` bytes long when the command began."""
    with log.open("rb") as file:
        file.seek(max(from_b, log.stat().st_size - KEPT_LINES * LONGEST_LINE))
        lines = file.read().replace(b"\0", b"").decode(errors="replace").strip().splitlines()
    return [line.rstrip()[:LONGEST_LINE] for line in lines[-KEPT_LINES:]]


def _last_words(lines: Sequence[str]) -> str:
    """The lines that say what failed: uv explains its error after it, git before the end."""
    told = [said for line in lines if (said := line.strip()) and said not in _BOILERPLATE]
    errors = (place for place, said in enumerate(told) if said.startswith("error:"))
    first = next(errors, max(0, len(told) - LAST_LINES))
    return " / ".join(told[first : first + LAST_LINES]) or "it said nothing."
