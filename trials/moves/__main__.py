"""Counts how many files an analysis step crosses that opens a finding, and how often it moves.

    PYTHONPATH=.:tests .venv/bin/python -m trials.moves [--detail]

The history is one series, in which the 25th point makes a drop believable. A move is a call from
one file of `service/` to another.
"""

from __future__ import annotations

import logging
import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import FrameType

from builders import long_series as long

from service.database import migrate
from service.database.session import Database
from service.findings import pipeline

SERVICE = str(Path(__file__).parents[2] / "service") + "/"


class Profile:
    """Calls of our functions: how often each file calls into each other one."""

    def __init__(self) -> None:
        self.moves: Counter[tuple[str, str]] = Counter()
        self.files: Counter[str] = Counter()
        self._stack: list[str] = []

    def __call__(self, frame: FrameType, event: str, _arg: object) -> None:
        file = frame.f_code.co_filename
        if not file.startswith(SERVICE):
            return
        file = file.removeprefix(SERVICE)
        if event == "return" and self._stack:
            self._stack.pop()
        elif event == "call":
            self.files[file] += 1
            if self._stack and self._stack[-1] != file:
                self.moves[self._stack[-1], file] += 1
            self._stack.append(file)


def profiled() -> Profile:
    """Analyse point after point, and profile the step that opens the finding."""
    values = long.noisy(long.STEADY + long.DROPPED)
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/moves.sqlite3"
        migrate.upgrade(url)
        database = Database(url)
        with database.writing() as session:
            long.prepare(session)
        for number, value in enumerate(values):
            with database.writing() as session:
                long.add(session, {number: value})
            profile = Profile()
            sys.setprofile(profile)
            looked = pipeline.look(database, daily=0)
            sys.setprofile(None)
            if looked.opened:
                database.close()
                return profile
    raise AssertionError("no finding was opened")


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    profile = profiled()
    print(f"{len(profile.files)} files, {profile.moves.total()} moves")
    if "--detail" in sys.argv:
        for (here, there), count in profile.moves.most_common():
            print(f"{count:6} {here} -> {there}")
