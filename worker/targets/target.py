"""The place where a child runs: the Python and the code of the revision under test.

Without a target folder every revision runs what is installed beside the worker. With one, such as
``/srv/checkouts/{revision}``, each revision runs in its own deployed checkout; with a file of
targets the worker makes that checkout. This makes two revisions comparable on one machine.

A revision named after a day is no commit that could be deployed. It stands for what was installed
on that day, with a target folder as without one.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from benchmarks.catalog import catalog
from benchmarks.contracts import Status
from benchmarks.contracts.pins import UPSTREAM, pins_of
from worker.settings import REVISION, Settings
from worker.targets import definitions
from worker.targets.builds import Builds
from worker.targets.commands import BuildFailed, Unbuildable

log = logging.getLogger(__name__)

VENV_PYTHON = Path(".venv") / "bin" / "python"


class TargetAbsent(Exception):
    """The revision is not on this machine; the message is one sentence that says what to do."""

    def __init__(
        self, sentence: str, status: Status = Status.INFRA_ERROR, build_log: str = ""
    ) -> None:
        """``status`` is that of the results, and ``build_log`` the end of a failed build's."""
        super().__init__(sentence)
        self.status = status
        self.build_log = build_log


@dataclass(frozen=True, slots=True)
class Target:
    """The command that runs a child, and its folder."""

    command: tuple[str, ...]
    folder: Path | None = None
    """Working directory and first place for imports; None where the worker itself runs."""
    has_python: bool = False

    def environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """The child's environment, with the checkout's code before all other.

        A checkout with its own Python has all its packages there: the worker's PYTHONPATH is
        dropped.
        """
        if self.folder is None:
            return dict(inherited)
        others = "" if self.has_python else inherited.get("PYTHONPATH", "")
        path = os.pathsep.join(filter(None, (str(self.folder), others)))
        return {**inherited, "PYTHONPATH": path}


def target_of(settings: Settings, revision: str) -> Target:
    """The target of ``revision``.

    Raises:
        TargetAbsent: its folder is not there, or its name cannot be a folder's.
    """
    if settings.targets is not None:
        return _built(settings, settings.targets, revision)
    if not settings.worker_target:
        if pins_of(revision):
            raise TargetAbsent(
                f"This worker makes no versions of packages, so it did not measure {revision}: its "
                f"operator may name them in [{UPSTREAM}] of a file of targets."
            )
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
    return _in(folder, settings)


def builds_of(settings: Settings, file: Path) -> Builds:
    """What builds what ``file`` allows; workers with one state folder share it.

    Raises:
        BadTargets: the file cannot be used.
    """
    keep_b = settings.builds_limit_gib * 2**30
    read = definitions.read(file)
    builds = settings.state / "builds"
    return Builds(builds, read.targets, settings.python, keep_b, read.upstream)


def _built(settings: Settings, file: Path, revision: str) -> Target:
    """The target of a commit, or of versions, which is built if it is not there.

    A day runs what is installed, and so does everything else where no repository is allowed.
    """
    try:
        builds = builds_of(settings, file)
        folder = builds.folder_of(revision)
    except Unbuildable as failed:
        raise TargetAbsent(str(failed), Status.UNBUILDABLE, failed.log) from failed
    except (BuildFailed, definitions.BadTargets) as failed:
        raise TargetAbsent(str(failed)) from failed
    if folder is None and builds.of_commits and not names_a_day(revision):
        raise TargetAbsent(
            f"Revision {revision} names no commit, and this worker builds commits: submit it under "
            "its commit, without changes that are in none."
        )
    return Target(settings.command) if folder is None else _in(folder, settings)


def _in(folder: Path, settings: Settings) -> Target:
    has_python = (folder / VENV_PYTHON).is_file()
    python = str(folder / VENV_PYTHON) if has_python else settings.python
    command = settings.child_command or (python, "-m", "benchmarks", "-")
    return Target(command, folder, has_python=has_python)


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
    """The folder of a revision; no name leads out of the template's folder."""
    if any(part in ("", ".", "..") for part in revision.split("/")):
        raise TargetAbsent(
            f"Revision {revision} cannot name a folder below THROUGHLINE_WORKER_TARGET: "
            "submit it under its commit."
        )
    return Path(template.replace(REVISION, revision))


def refused(workload: str, allowed: Sequence[str]) -> str:
    """Say in one sentence why this worker does not run ``workload``; empty if it does.

    A job may name any function of any module. A worker imports only what its operator has
    ``allowed`` (packages, modules, or single functions as ``module:function``), because people who
    submit may not choose what runs on this machine.
    """
    if not catalog.is_user_model(workload) or any(_covers(name, workload) for name in allowed):
        return ""
    known = f"allows only {', '.join(allowed)}" if allowed else "allows no models of its users' own"
    return (
        f"This worker {known}, so it did not import {workload}: its operator may add that to "
        "THROUGHLINE_MODELS, or the job may require another worker."
    )


def _covers(allowed: str, workload: str) -> bool:
    module = workload.partition(":")[0]
    return allowed in (workload, module) or module.startswith(f"{allowed}.")
