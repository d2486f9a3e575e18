"""Runs git and uv for a build: bounded in time and disk, without token and GPU, under guard."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from worker.child import process_tree
from worker.child.containment import Containment, guarded
from worker.child.resource_limits import fits

LOOK_S = 1.0
LAST_LINES = 3
"""Lines of a log that a failure quotes."""
LONGEST_LINE = 300
_SECRET = ("TOKEN", "SECRET", "PASSWORD", "CREDENTIAL", "API_KEY")
"""Parts of the names of variables that a build does not get."""
_OF_A_REPOSITORY = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY")
"""Set within hooks; they would turn git to another repository."""
TASKS = 2_000
"""Processes and threads, where the kernel can limit them."""


class BuildFailed(Exception):
    """A command of a build failed; the message is one sentence."""


@dataclass(frozen=True, slots=True)
class BuildLimits:
    """The most that a command may take."""

    seconds: float
    folder: Path
    """The folder that it fills."""
    disk_b: float


def run(
    command: Sequence[str],
    limits: BuildLimits,
    log: Path,
    more: Mapping[str, str] | None = None,
    place: Path | None = None,
) -> str:
    """Run a command to its end and return what it printed; its errors go to ``log``.

    Whatever it starts ends with it, and with this process.

    Raises:
        BuildFailed: it cannot be started, fails, or takes too long or too much.
    """
    name = " ".join([Path(command[0]).name, *_subcommand(command)])
    with (
        log.open("ab") as said,
        subprocess.Popen(
            [*guarded(Containment.PROCESS_GROUP, TASKS), *command],
            cwd=place,
            env=environment() | dict(more or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=said,
            start_new_session=True,
        ) as process,
    ):
        try:
            printed = _await(process, limits, name)
        except BaseException:
            process_tree.end(process_tree.Tree.of(process.pid, ""), 0.0, 10.0)
            raise
    if process.returncode != 0:
        raise BuildFailed(f"`{name}` failed: {_last_words(log)}")
    return printed


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


def _await(process: subprocess.Popen[bytes], limits: BuildLimits, name: str) -> str:
    until_s = time.monotonic() + limits.seconds
    printed = None
    while printed is None:
        with suppress(subprocess.TimeoutExpired):
            printed, _ = process.communicate(timeout=LOOK_S)
        if not fits(limits.folder, int(limits.disk_b)):
            gib = limits.disk_b / 2**30
            raise BuildFailed(f"`{name}` needs more than {gib:g} GiB of disk, or too many files.")
        if printed is None and time.monotonic() > until_s:
            raise BuildFailed(f"`{name}` took longer than {limits.seconds:g} s.")
    return printed.decode(errors="replace")


def _last_words(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()[-LAST_LINES:]
    return " / ".join(line.strip()[:LONGEST_LINE] for line in lines) or "it said nothing."
