"""The Python environment of a revision: made once for all that have the same lock file."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

from worker.child.resource_limits import fits
from worker.targets.commands import BuildFailed, BuildLimits, TooMuch, Unbuildable, run
from worker.targets.definitions import Bounded, Repository

LOCK, CACHE = "uv.lock", "cache"
CACHE_SHARE = 0.5
"""A cache that takes more of a build's disk before it begins is emptied: what others left there is
not to be the end of it."""
_SYNC = (
    *("sync", "--frozen", "--no-build", "--no-install-project", "--no-install-workspace"),
    *("--no-dev", "--no-progress", "--quiet", "--link-mode=copy"),
    *("--no-config", "--no-compile-bytecode"),
)
"""From the lock as it is, and from wheels: no code of the repository or of a package runs. Its own
configuration is left out: it names folders to write to, and has the new Python started."""
LARGEST_LOCK_B, LARGEST_PROJECT_B = 32 * 2**20, 2**20
_ITS_FAULT = re.compile(
    r"failed to parse:? `?(uv\.lock|pyproject\.toml)|requires a lockfile|no `pyproject\.toml` found"
    r"|can't be installed because|\bno wheels?\b|no solution found|hash mismatch|wheel is invalid"
    r"|incompatible with the project's python requirement",
    re.IGNORECASE,
)
"""uv's words where what it was asked for is at fault. All else may succeed the next time."""
_NO_ACCESS = "credentials"
"""uv finds no solution either where an index lets it see nothing, and then hints at this."""


class Uv:
    """uv, with the cache that all builds of a machine share, and environments in a folder."""

    def __init__(self, bounds: Bounded, python: str, kept: Path, log: Path) -> None:
        """Make environments for ``python`` in the folder ``kept``; errors go to ``log``."""
        self._bounds = bounds
        self._python = python
        self._kept = kept
        self._log = log
        self._cache = kept.parent / CACHE
        if not fits(self._cache, int(bounds.disk_gib * 2**30 * CACHE_SHARE)):
            shutil.rmtree(self._cache, ignore_errors=True)
        self._cache.mkdir(parents=True, exist_ok=True)
        self._shared = any(self._cache.iterdir())

    def environment(self, lock: Path, steps: Callable[[str], Sequence[Sequence[str]]]) -> Path:
        """Return the environment of ``lock``; if it is not there, ``steps`` make it in a folder.

        Raises:
            Unbuildable: what the lock says cannot be installed here.
            BuildFailed: uv is absent, or the network or the disk failed.
        """
        environment = self._kept / _key(lock, self._python)
        if not environment.exists():
            part = environment.with_name(f"{environment.name}.part")
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir(parents=True)
            try:
                for step in steps(str(part)):
                    self.run(step, part, lock.parent)
                part.rename(environment)
            finally:
                shutil.rmtree(part, ignore_errors=True)
        os.utime(environment)
        return environment

    def run(self, arguments: Sequence[str], fills: Path, place: Path) -> None:
        """Run uv in the folder ``place``; its own limits hold for what it ``fills``.

        Raises:
            Unbuildable: what it was asked for is at fault.
            BuildFailed: uv is absent, or the network or the disk failed.
        """
        more = {
            "UV_PROJECT_ENVIRONMENT": str(fills),
            "UV_PYTHON": self._python,
            "UV_PYTHON_DOWNLOADS": "never",
            "UV_CACHE_DIR": str(self._cache),
            # For each project that it installs, uv leaves a lock file there.
            "TMPDIR": str(self._cache),
        }
        disk_b = self._bounds.disk_gib * 2**30
        limits = BuildLimits(self._bounds.build_s, (fills, self._cache), disk_b)
        self._cache.mkdir(exist_ok=True)
        try:
            run([_uv(), *arguments], limits, self._log, more, place)
        except BuildFailed as failed:
            full = not fits(self._cache, int(disk_b))
            if full:
                shutil.rmtree(self._cache, ignore_errors=True)
            if _is_its_own(failed) and not (full and self._shared):
                raise Unbuildable(str(failed), failed.log) from failed
            raise


def environment_of(files: Path, repository: Repository, python: str, kept: Path, log: Path) -> Path:
    """Return the environment that ``files`` ask for, made in the folder ``kept`` if need be.

    Raises:
        Unbuildable: there is no lock file, or what it says cannot be installed here.
        BuildFailed: uv is absent, or the network or the disk failed.
    """
    project = next((at for at in (files / repository.path, files) if (at / LOCK).is_file()), None)
    if project is None:
        raise Unbuildable(f'it has no {LOCK}, which install = "{repository.install}" needs.')
    if not project.resolve().is_relative_to(files.resolve()) or (project / LOCK).is_symlink():
        raise Unbuildable(f"its {LOCK} is a link, or lies behind one.")
    if (project / LOCK).stat().st_size > LARGEST_LOCK_B:
        raise Unbuildable(f"its {LOCK} has more than {LARGEST_LOCK_B >> 20} MiB.")
    sync = (*_SYNC, "--project", str(project))
    return Uv(repository, python, kept, log).environment(project / LOCK, lambda _: [sync])


def _is_its_own(failed: BuildFailed) -> bool:
    """Return True if the revision is at fault, and not the network or the machine."""
    said = " ".join(failed.log.split())  # uv wraps its lines, at 80 characters
    told = _ITS_FAULT.search(said) is not None and _NO_ACCESS not in said
    return isinstance(failed, TooMuch) or told


def _uv() -> str:
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if beside.is_file() else shutil.which("uv")
    if found is None:
        raise BuildFailed('uv is not installed: run `pip install uv`, or set install = "none".')
    return found


def _key(lock: Path, python: str) -> str:
    """Name what determines an environment: the lock, groups, and the Python with its platform."""
    said = hashlib.sha256(lock.read_bytes())
    said.update(f"{Path(python).resolve()} {os.uname().machine}".encode())
    said.update(_default_groups(lock.with_name("pyproject.toml")).encode())
    return said.hexdigest()[:32]


def _default_groups(project: Path) -> str:
    """The groups that uv installs too: it reads them there, whatever the lock says of them.

    Empty where there are none, and for a file that cannot be read, which uv refuses.
    """
    try:
        if project.stat().st_size > LARGEST_PROJECT_B:
            raise Unbuildable(f"its {project.name} has more than {LARGEST_PROJECT_B >> 20} MiB.")
        return str(tomllib.loads(project.read_text())["tool"]["uv"]["default-groups"])
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return ""
