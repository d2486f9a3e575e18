"""Places where a process stops to be killed, one at a time, named by a file in a folder.

``armed`` says which: ``before``, ``midst`` or ``after``, what is done there, and for ``midst`` the
time in s after which a command is stopped. Whoever comes there writes its pid to ``reached``, and
goes on once ``armed`` has gone.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from worker.child.containment import guarded
from worker.targets import builds, commands, environment

LOOK_S = 0.02
COMMAND = """#!/bin/sh
# Stands before {real}, and stops where it is told to.
when= what= delay=
[ -e {folder}/armed ] && read -r when what delay < {folder}/armed
case " $* " in *" $what "*) ;; *) when= ;; esac
held() {{
  (set -C; echo "$1" > {folder}/reached) 2>/dev/null || return 0
  while [ -e {folder}/armed ]; do sleep {look_s}; done
}}
[ "$when" = before ] && held $$
if [ "$when" = midst ]; then
  exec 3<&0
  {real} "$@" <&3 3<&- & pid=$!
  sleep "$delay"
  kill -STOP $pid 2>/dev/null
  held $pid
  kill -CONT $pid 2>/dev/null
  wait $pid; code=$?
else
  {real} "$@"; code=$?
fi
[ "$when" = after ] && held $$
exit $code
"""


@dataclass(frozen=True, slots=True)
class Point:
    """Where a process is held."""

    state: str
    """Of the build, or of the pair."""
    when: str
    what: str
    delay_s: float = 0.0

    @property
    def line(self) -> str:
        return f"{self.when} {self.what} {self.delay_s:.4f}\n"


class Holds:
    """The folder, as the one who kills sees it."""

    def __init__(self, folder: Path) -> None:
        """Begin without any place; ``bin`` has commands that stop where they are told to."""
        self.folder = folder
        self.commands = folder / "bin"
        self.commands.mkdir(parents=True)
        for name in ("git", "uv"):
            real = shutil.which(name, path=f"{os.environ['PATH']}:{Path(environment._uv()).parent}")
            path = self.commands / name
            path.write_text(COMMAND.format(real=real, folder=folder, look_s=LOOK_S))
            path.chmod(0o755)

    def arm(self, point: Point) -> None:
        draft = self.folder / "draft"
        draft.write_text(point.line)
        draft.rename(self.folder / "armed")

    def release(self) -> None:
        for name in ("armed", "reached"):
            (self.folder / name).unlink(missing_ok=True)

    def reached(self) -> int | None:
        """The process that is held; None if none is."""
        with suppress(OSError, ValueError):
            return int((self.folder / "reached").read_text())
        return None


def stop_at(folder: Path, when: str, what: str) -> None:
    """Wait here if this place is armed, and nobody else waits."""
    with suppress(OSError):
        if (folder / "armed").read_text().split()[:2] == [when, what]:
            handle = os.open(folder / "reached", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
            os.write(handle, str(os.getpid()).encode())
            os.close(handle)
            while (folder / "armed").exists():
                time.sleep(LOOK_S)


def hold_builds(folder: Path) -> None:
    """Let this worker's builds stop where they are told to, and look at repositories often."""
    vars(builds)["FETCH_EVERY_S"] = 0.3
    # Beside other work on a busy machine, what gives way would take hours.
    vars(commands)["guarded"] = lambda *how, **_: guarded(*how)
    vars(environment)["_uv"] = lambda: str(folder / "bin" / "uv")
    rename: Callable[..., Any] = Path.rename

    def renamed(path: Path, target: Path) -> Any:
        if path.suffix != ".part":
            return rename(path, target)
        kind = "environment" if path.parent.name == "environments" else "checkout"
        stop_at(folder, "before", f"rename-{kind}")
        told = rename(path, target)
        stop_at(folder, "after", f"rename-{kind}")
        return told

    Path.rename = renamed  # type: ignore[method-assign,assignment]
