"""A bare mirror of a target's repository, and the files of one of its commits.

No hook runs, no submodule is fetched, no large file is downloaded, and no link leads out.
"""

from __future__ import annotations

import posixpath
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from worker.targets.commands import BuildFailed, BuildLimits, run
from worker.targets.definitions import Repository

COMMIT = re.compile(r"[0-9a-f]{7,40}")
"""A commit as people and CI name it, whole or abbreviated."""
_GIT = (
    *("git", "-c", "core.hooksPath=/dev/null", "-c", "protocol.ext.allow=never"),
    *("-c", "submodule.recurse=false", "-c", "core.fsmonitor=false", "-c", "gc.auto=0"),
)
_NO_LARGE_FILES = {"GIT_LFS_SKIP_SMUDGE": "1"}
_LINK = "120000"
"""git's mode of a symbolic link."""


class Mirror:
    """The mirror of one target in a folder of its own."""

    def __init__(self, folder: Path, repository: Repository, log: Path) -> None:
        self._folder = folder
        self._repository = repository
        self._log = log
        self._bounds = BuildLimits(repository.build_s, folder, repository.disk_gib * 2**30)

    def fetch(self) -> None:
        """Bring the allowed refs up to date; one that is gone goes here as well.

        Raises:
            BuildFailed: the repository cannot be reached, or is too large.
        """
        if not (self._folder / "HEAD").exists():
            self._folder.mkdir(parents=True, exist_ok=True)
            self._git("init", "--bare", "--quiet")
        refs = [f"+{ref}:{ref}" for ref in self._repository.refs]
        quiet = ("--quiet", "--prune", "--no-tags", "--no-recurse-submodules", "--no-auto-gc")
        try:
            self._git("fetch", *quiet, "--", self._repository.git, *refs)
        except BuildFailed:
            for part in self._folder.glob("objects/pack/tmp_*"):
                with suppress(OSError):
                    part.unlink()
            raise

    def commit(self, name: str) -> str | None:
        """The whole id of a commit that an allowed ref reaches; None if there is no such one."""
        if not (self._folder / "HEAD").exists():
            return None
        with suppress(BuildFailed):
            commit = self._git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}").strip()
            if self._git("for-each-ref", "--count=1", f"--contains={commit}"):
                return commit
        return None

    def newest(self, most: int) -> list[str]:
        """The newest commits of the allowed refs, along first parents."""
        if not (self._folder / "HEAD").exists():
            return []
        return self._git("rev-list", "--first-parent", f"--max-count={most}", "--all").split()

    def export(self, commit: str, to: Path) -> None:
        """Write the files of ``commit`` into the folder ``to``.

        Raises:
            BuildFailed: a link leads out of it, or it is too large.
        """
        for path, leads_to in self._links(commit):
            if _leads_out(path, leads_to):
                raise BuildFailed(f"its link {path[:200]} leads out of it, to {leads_to[:200]}.")
        index = to.with_name(f"{to.name}.index")
        limits = BuildLimits(self._repository.build_s, to, self._repository.disk_gib * 2**30)
        there = (f"--git-dir={self._folder}", f"--work-tree={to}")
        more = _NO_LARGE_FILES | {"GIT_INDEX_FILE": str(index)}
        try:
            run([*_GIT, *there, "read-tree", commit], limits, self._log, more, to)
            run([*_GIT, *there, "checkout-index", "--all"], limits, self._log, more, to)
        finally:
            index.unlink(missing_ok=True)

    def remove(self) -> None:
        """Forget everything that was fetched."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _links(self, commit: str) -> Iterator[tuple[str, str]]:
        for entry in self._git("ls-tree", "-r", "-z", commit).split("\0"):
            if entry.startswith(_LINK):
                facts, _, path = entry.partition("\t")
                yield path, self._git("cat-file", "blob", facts.split()[2])

    def _git(self, *arguments: str) -> str:
        there = f"--git-dir={self._folder}"
        return run([*_GIT, there, *arguments], self._bounds, self._log)


def _leads_out(path: str, to: str) -> bool:
    reached = posixpath.normpath(posixpath.join(posixpath.dirname(path), to))
    return to.startswith("/") or reached == ".." or reached.startswith("../")
