"""The place where a child runs: the Python and the code of the revision under test.

Without a target folder every revision runs what is installed beside the worker. With one, such as
``/srv/checkouts/{revision}``, each revision runs in its own checkout, which whoever deploys puts
there; that is what makes two revisions comparable on one machine.

A revision that is named after a day names no commit that anybody could deploy. It stands for what
was installed on that day, with a target folder as without one.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from worker.settings import REVISION, Settings

log = logging.getLogger(__name__)

OWN_PYTHON = Path(".venv") / "bin" / "python"


class TargetAbsent(Exception):
    """The revision is not on this machine; the message is one sentence that says what to do."""


@dataclass(frozen=True, slots=True)
class Target:
    """The command that runs a child, and its folder."""

    command: tuple[str, ...]
    folder: Path | None = None
    """Working directory and first place for imports; None where the worker itself runs."""
    own_python: bool = False

    def environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """The child's environment, with the checkout's code before all other.

        A checkout with a Python of its own has all it needs there, so what the worker's own
        environment adds to the path stays out.
        """
        if self.folder is None:
            return dict(inherited)
        others = "" if self.own_python else inherited.get("PYTHONPATH", "")
        path = os.pathsep.join(filter(None, (str(self.folder), others)))
        return {**inherited, "PYTHONPATH": path}


def target_of(settings: Settings, revision: str) -> Target:
    """The target of ``revision``.

    Raises:
        TargetAbsent: its folder is not there, or its name cannot be a folder's.
    """
    if not settings.worker_target:
        return Target(settings.command)
    folder = _folder(settings.worker_target, revision)
    if not folder.is_dir():
        if names_a_day(revision):
            log.info("%s names a day and no checkout: what is installed here runs.", revision)
            return Target(settings.command)
        raise TargetAbsent(
            f"Revision {revision} is not on this worker: deploy it to {folder}, "
            "or change THROUGHLINE_WORKER_TARGET."
        )
    own = folder / OWN_PYTHON
    has_own = own.is_file()
    python = str(own) if has_own else settings.python
    command = settings.child_command or (python, "-m", "benchmarks", "-")
    return Target(command, folder, own_python=has_own)


def names_a_day(revision: str) -> bool:
    """Return True if ``revision`` is named after a day.

    Schedules with the rule ``date`` name it so. So does ``throughline up`` in a folder without a
    commit.
    """
    try:
        return date.fromisoformat(day := revision.removeprefix("local-")).isoformat() == day
    except ValueError:
        return False


def _folder(template: str, revision: str) -> Path:
    """The folder of a revision; no name leads out of the folder that the template names."""
    if any(part in ("", ".", "..") for part in revision.split("/")):
        raise TargetAbsent(
            f"Revision {revision} cannot name a folder below THROUGHLINE_WORKER_TARGET: "
            "submit it under its commit."
        )
    return Path(template.replace(REVISION, revision))
