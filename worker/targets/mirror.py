"""A bare mirror of a target's repository, and the files of one of its commits.

No hook runs, no submodule is fetched, no large file is downloaded, and no link leads out.
"""

from __future__ import annotations

import logging
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from itertools import islice, takewhile
from pathlib import Path

from benchmarks.contracts import MOST_COMMITS
from worker.child.resource_limits import fits
from worker.targets.commands import BuildFailed, BuildLimits, TooMuch, Unbuildable, run
from worker.targets.definitions import Repository

log = logging.getLogger(__name__)

COMMIT = re.compile(r"[0-9a-f]{7,40}")
"""A commit as people and CI name it, whole or abbreviated."""
_GIT = (
    *("git", "-c", "core.hooksPath=/dev/null", "-c", "protocol.ext.allow=never"),
    *("-c", "submodule.recurse=false", "-c", "core.fsmonitor=false", "-c", "gc.autoDetach=false"),
)
_AS_IT_IS = {"GIT_LFS_SKIP_SMUDGE": "1", "GIT_NO_REPLACE_OBJECTS": "1"}
"""No large files, and no `refs/replace` that swaps a commit's content."""
_LINK = "120000"
"""git's mode of a symbolic link."""
_HALVES = (
    *("*.lock", "refs/**/*.lock", "objects/*/tmp_*"),
    *("objects/pack/.tmp-*", "objects/pack/*.keep"),
)
"""Files of git that it removes itself unless it is killed; no ref's name may end in ``.lock``."""
_OF_A_HEAD = ("refname", "objectname", "committerdate:iso8601-strict", "authorname", "subject")
MOST_LINKS, LONGEST_LINK_B = 1_000, 4_096


class Mirror:
    """The mirror of one target in a folder of its own."""

    def __init__(self, folder: Path, repository: Repository, log: Path) -> None:
        self._folder = folder
        self._repository = repository
        self._log = log
        self._disk_b = repository.disk_gib * 2**30

    def fetch(self, limit_s: float) -> None:
        """Bring the allowed refs up to date; one that is gone goes here as well.

        Raises:
            BuildFailed: the repository cannot be reached, or is too large, and then nothing of it
                is kept.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        self._remove_halves()
        self._git("init", "--bare", "--quiet")
        refs = [f"+{ref}:{ref}" for ref in self._repository.refs]
        quiet = ("--quiet", "--prune", "--no-tags", "--no-recurse-submodules")
        limits = BuildLimits(min(limit_s, self._repository.build_s), (self._folder,), self._disk_b)
        try:
            self._git("fetch", *quiet, "--", self._repository.git, *refs, limits=limits)
        except BuildFailed:
            if not fits(self._folder, int(self._disk_b)):
                shutil.rmtree(self._folder, ignore_errors=True)
            self._remove_halves()
            raise
        try:
            self._forget_others()
        except (BuildFailed, OSError) as failed:
            log.warning("Refs that are not allowed any more stay until the next fetch: %s", failed)

    def _remove_halves(self) -> None:
        """Remove what a git left that was killed: nobody else writes here now.

        Each lock would be in the way of every later fetch.
        """
        for pattern in _HALVES:
            for half in self._folder.glob(pattern):
                with suppress(OSError):
                    half.unlink()

    def _forget_others(self) -> None:
        """Delete the refs that were allowed once: they would still reach their commits."""
        others = [
            ref
            for ref in self._git("for-each-ref", "--format=%(refname)").split()
            if not any(fnmatchcase(ref, pattern) for pattern in self._repository.refs)
        ]
        if others:
            self._git("update-ref", "--stdin", typed="".join(f"delete {ref}\n" for ref in others))

    def commit(self, name: str) -> str | None:
        """The whole id of a commit that an allowed ref reaches; None if there is no such one."""
        if not (self._folder / "HEAD").exists():
            return None
        with suppress(BuildFailed):
            commit = self._git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}").strip()
            # A branch may be named like an abbreviation, and git takes that first.
            if commit.startswith(name) and self._git(
                "for-each-ref", "--count=1", f"--contains={commit}"
            ):
                return commit
        return None

    def between(self, good: str, bad: str) -> list[tuple[str, ...]]:
        """List id, time, author and title of the commits after ``good`` up to ``bad``, along first
        parents, the oldest first.

        Raises:
            Unbuildable: ``good`` does not lead to ``bad``, or they are too many.
            BuildFailed: the mirror is at fault.
        """
        fork = ""
        with suppress(BuildFailed):  # they have nothing in common
            fork = self._git("merge-base", good, bad).strip()
        if fork != good:
            raise Unbuildable(f"{good[:12]} is no ancestor of {bad[:12]}.")
        which = "--first-parent", f"{good}..{bad}"
        count = int(self._git("rev-list", "--count", *which, "--"))
        if count > MOST_COMMITS:
            raise Unbuildable(f"The range has {count} commits, and {MOST_COMMITS} can be listed.")
        form = "--format=%H%x00%cI%x00%an%x00%s"
        listed = self._git("-c", "log.showSignature=false", "log", "--reverse", form, *which, "--")
        return [tuple(line.split("\0", 3)) for line in listed.rstrip("\n").split("\n")]

    def holds(self, commit: str) -> bool:
        """Return True if a commit was fetched once, whether or not a ref still reaches it."""
        with suppress(BuildFailed):
            return self._git("cat-file", "-t", commit).strip() == "commit"
        return False

    def newest(self, most: int) -> list[str]:
        """The newest commits along first parents, as many of each of the allowed refs."""
        if not (self._folder / "HEAD").exists():
            return []
        commits: dict[str, None] = {}
        count = f"--max-count={most // len(self._repository.refs)}"
        for ref in self._repository.refs:
            chosen = f"--glob={ref}" if "*" in ref else ref
            with suppress(BuildFailed):  # the ref is not there
                listed = self._git("rev-list", "--first-parent", count, chosen, "--")
                commits |= dict.fromkeys(listed.split())
        return list(commits)

    def heads(self, most: int) -> Iterator[tuple[str, ...]]:
        """Yield ref, commit, time, author and title: branches first, the newest first."""
        if not (self._folder / "HEAD").exists():
            return
        form = "%00".join(f"%({name})" for name in _OF_A_HEAD)
        told: dict[str, None] = {}
        for place in ("refs/heads", "refs"):
            with suppress(BuildFailed):
                sort = "--sort=-committerdate", f"--count={most}"
                listed = self._git("for-each-ref", *sort, f"--format={form}", place)
                told |= dict.fromkeys(listed.rstrip("\n").split("\n"))
        facts = (tuple(line.split("\0")) for line in told)
        commits = (fact for fact in facts if len(fact) == len(_OF_A_HEAD))
        yield from islice(commits, most)

    def export(self, commit: str, to: Path) -> None:
        """Write the files of ``commit`` into the folder ``to``.

        Raises:
            Unbuildable: a link leads out of it, or it is too large.
            BuildFailed: the mirror or the disk is at fault.
        """
        try:
            self._look_through(commit)
            self._write(commit, to)
        except TooMuch as failed:
            raise Unbuildable(str(failed), failed.log) from failed

    def _write(self, commit: str, to: Path) -> None:
        index = to / ".git" / "index"  # no file of a commit may have this name
        index.parent.mkdir()
        limits = BuildLimits(self._repository.build_s, (to,), self._disk_b)
        there = (f"--git-dir={self._folder}", f"--work-tree={to}")
        more = _AS_IT_IS | {"GIT_INDEX_FILE": str(index)}
        try:
            run([*_GIT, *there, "read-tree", commit], limits, self._log, more, to)
            run([*_GIT, *there, "checkout-index", "--all"], limits, self._log, more, to)
        finally:
            shutil.rmtree(index.parent, ignore_errors=True)

    def _look_through(self, commit: str) -> None:
        """Refuse what is not to be written: files whose few bytes unpack to many, and links out.

        Raises:
            Unbuildable: there is such a thing.
            TooMuch: its files are too many to be listed.
        """
        listed = self._git("ls-tree", "-r", "-l", "-z", commit).split("\0")
        entries = [entry.partition("\t") for entry in listed if entry]
        size_b = sum(int(size) for facts, _, _ in entries if (size := facts.split()[3]) != "-")
        if size_b > self._disk_b:
            allowed = self._repository.disk_gib
            raise Unbuildable(f"its files have {size_b / 2**30:.3g} GiB, of {allowed:g} allowed.")
        for path, leads_to in self._links(entries):
            if _leads_out(path, leads_to):
                raise Unbuildable(f"its link {path[:200]} leads out of it, to {leads_to[:200]}.")

    def _links(self, entries: Sequence[tuple[str, str, str]]) -> Iterator[tuple[str, str]]:
        """Yield the links of a commit: where each is, and what it says.

        Raises:
            Unbuildable: they are too many, or too long to be links.
        """
        links = [entry for entry in entries if entry[0].startswith(_LINK)]
        if len(links) > MOST_LINKS:
            raise Unbuildable(f"it has {len(links)} links, and may have {MOST_LINKS}.")
        for facts, _, path in links:
            _, _, blob, size = facts.split()
            if int(size) > LONGEST_LINK_B:
                raise Unbuildable(f"its link {path[:200]} is too long.")
            yield path, self._git("cat-file", "blob", blob)

    def _git(self, *arguments: str, limits: BuildLimits | None = None, typed: str = "") -> str:
        there = f"--git-dir={self._folder}"
        limits = limits or BuildLimits(self._repository.build_s)
        return run([*_GIT, there, *arguments], limits, self._log, _AS_IT_IS, typed=typed)


def _leads_out(path: str, to: str) -> bool:
    """Return True if a link may leave the tree: a way back out of a folder may lead over a link."""
    parts = to.split("/")
    climbs = len(list(takewhile(lambda part: part == "..", parts)))
    return to.startswith("/") or ".." in parts[climbs:] or climbs > path.count("/")
