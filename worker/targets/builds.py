"""The folder of each revision that a worker makes itself, built when it is first asked for."""

from __future__ import annotations

import fcntl
import logging
import math
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import lru_cache, partial
from pathlib import Path
from typing import IO

from pydantic import ValidationError

from benchmarks.contracts import (
    MOST_COMMITS,
    MOST_HEADS,
    CommitRange,
    Head,
    ListedCommit,
    ListedRange,
    line,
)
from benchmarks.contracts.pins import UPSTREAM, pins_of
from worker.checkouts import MOST_REVISIONS
from worker.child.resource_limits import sizes_b
from worker.targets import commands, definitions
from worker.targets.commands import BuildFailed, Unbuildable
from worker.targets.environment import CACHE, environment_of
from worker.targets.known_failures import KnownFailures
from worker.targets.mirror import COMMIT, Mirror
from worker.targets.recipe import VENV, Recipe
from worker.targets.releases import Releases
from worker.targets.upstream import Versions

log = logging.getLogger(__name__)

FETCH_EVERY_S = 15.0
"""Shortest time between two looks at the repositories that nobody asked for: CI pushes, and asks
for a gate soon after."""
UNASKED_S = 30.0
"""Longest such look."""
IN_USE_S = 86_400.0
"""A build that was used so lately is not removed: a job may take a day."""
FRESH_S = 600.0
"""Refs that were fetched longer ago are not told: nobody knows where they are now."""
ASK_AGAIN_S = 0.1
"""Between two looks whether another worker has ended what only one may do."""
NOT_YET = "It was not fetched yet."
_NO_WAY = "No allowed ref of this worker's targets leads to both commits any more."
_NO_TIME = "git tells a commit of the range without a time or an author."


class Builds:
    """Mirrors, files and environments below one folder, which workers of a machine share."""

    def __init__(
        self,
        folder: Path,
        targets: Mapping[str, definitions.Repository],
        python: str,
        keep_b: float,
        upstream: definitions.Upstream | None = None,
    ) -> None:
        """Build for ``python``, and keep at most ``keep_b`` bytes of what is not in use."""
        self._folder = folder
        self._targets = targets
        self._upstream = upstream
        self._python = python
        self._keep_b = keep_b
        self._fetched_s: float | None = None
        self._known: tuple[str, ...] | None = None
        """The commits since the last fetch: they are asked for each second."""
        self._heads: tuple[Head, ...] | None = None
        """Likewise the refs of all targets."""
        self._listed: ListedRange | None = None
        """The range that the service asked for last."""
        self._reached_s: dict[str, float] = {}
        """When each repository was reached, on CLOCK_MONOTONIC."""
        self._trouble: dict[str, str] = dict.fromkeys(targets, NOT_YET)
        self._releases = (
            None
            if upstream is None
            else Releases(upstream, python, folder / "newest", folder / "newest.log")
        )

    def folder_of(self, revision: str, *, anew: bool = False) -> Path | None:
        """Return the folder to run ``revision`` in; None if it names no commit and no versions.

        Without repositories no commit is known, and none is looked for. What was found unbuildable
        lately is tried again only where that is asked for (``anew``).

        Raises:
            Unbuildable: it is there and cannot be built; the message says why.
            BuildFailed: it is nowhere, or the network or this machine failed.
        """
        if pins_of(revision):
            return self._made(self._versions().recipe(revision, self._checkouts("")), anew=anew)
        if not self._targets or not COMMIT.fullmatch(revision):
            return None
        if found := self._built(revision):
            os.utime(found[1])
            return found[1] / self._targets[found[0]].path
        name, commit = self._find(revision)
        return self._made(self._recipe(name, commit), anew=anew) / self._targets[name].path

    @property
    def of_commits(self) -> bool:
        """Return True if some commits may be built."""
        return bool(self._targets)

    def refresh(self) -> None:
        """Look at the repositories, unless that was done lately."""
        now_s = time.monotonic()
        if self._fetched_s is None or now_s - self._fetched_s >= FETCH_EVERY_S:
            self._fetched_s = now_s
            for name in self._targets:
                self._fetch(name, UNASKED_S)
        if self._releases is not None:
            self._releases.refresh()

    def told(self) -> Mapping[str, object]:
        """The commits that may be asked for, and where the refs of the targets are."""
        since_s = time.monotonic() - FRESH_S
        late = {name for name in self._targets if self._reached_s.get(name, -math.inf) < since_s}
        known = self._heads
        if known is None:  # a fetch, which another thread may be at, forgets them
            self._heads = known = self._all_heads()
        targets = {name: self._trouble[name] if name in late else "" for name in self._targets}
        heads = tuple(head for head in known if head.target not in late)
        if self._releases is not None:
            targets[UPSTREAM], newest = self._releases.told()
            heads = (*newest, *heads)[:MOST_HEADS]
        told = None if self._unseen() else self.revisions()
        listed = {} if self._listed is None else {"listed": self._listed}
        return {"revisions": told, "targets": targets, "heads": heads, **listed}

    def _unseen(self) -> bool:
        """Return True while nothing is known of a repository, for nobody has looked yet.

        A commit that is asked for meanwhile may be there.
        """
        unlooked = [name for name, trouble in self._trouble.items() if trouble == NOT_YET]
        return any(next(self._mirror(name).heads(1), None) is None for name in unlooked)

    def list_range(self, asked: CommitRange | None) -> None:
        """List what lies in a range, to be told next; None: the last list is told no more."""
        self._listed = None if asked is None else self._list(asked)

    def _list(self, asked: CommitRange) -> ListedRange:
        """What lies in a range, or why it cannot be listed; its ends are allowed as a job's."""
        if pins_of(asked.bad):
            return self._list_releases(asked)
        failed: BuildFailed = Unbuildable(_NO_WAY)
        for name in self._targets:
            mirror = self._mirror(name)
            if mirror.commit(asked.good) and mirror.commit(asked.bad):
                try:
                    found = mirror.between(asked.good, asked.bad)
                    commits = tuple(_listed(*facts) for facts in found)
                    return ListedRange(good=asked.good, bad=asked.bad, commits=commits)
                except BuildFailed as why:
                    failed = why
                except (TypeError, ValueError):
                    failed = Unbuildable(_NO_TIME)
        return _unlisted(asked, failed)

    def _list_releases(self, asked: CommitRange) -> ListedRange:
        try:
            inside = self._versions().between(asked.good, asked.bad)
        except BuildFailed as failed:
            return _unlisted(asked, failed)
        if len(inside) > MOST_COMMITS:
            reason = f"The range has {len(inside)} releases, and {MOST_COMMITS} can be listed."
            return _unlisted(asked, Unbuildable(reason))
        at = datetime.now(UTC)
        commits = tuple(ListedCommit(commit=one, at=at) for one in inside)
        return ListedRange(good=asked.good, bad=asked.bad, commits=commits)

    def revisions(self) -> tuple[str, ...]:
        """The newest commits that are known and may be asked for."""
        known = self._known
        if known is None:
            self._known = known = self._newest()
        return known

    def _newest(self) -> tuple[str, ...]:
        share = MOST_REVISIONS // max(1, len(self._targets))
        newest = (self._mirror(name).newest(share) for name in self._targets)
        return tuple(sorted({commit for commits in newest for commit in commits}))

    def _all_heads(self) -> tuple[Head, ...]:
        share = MOST_HEADS // max(1, len(self._targets))
        return tuple(
            head
            for name in self._targets
            for facts in self._mirror(name).heads(share)
            if (head := _head(name, *facts))
        )

    def _built(self, revision: str) -> tuple[str, Path] | None:
        folders = ((name, self._checkouts(name) / revision) for name in self._targets)
        return next((found for found in folders if found[1].is_dir()), None)

    def _versions(self) -> Versions:
        kept = self._folder / "environments"
        return Versions(self._upstream, self._python, kept, self._log(UPSTREAM))

    def _recipe(self, name: str, commit: str) -> Recipe:
        said, folder = f"Commit {commit} of the target {name}", self._checkouts(name) / commit
        build = partial(self._build, name, commit)
        return Recipe(said, folder, self._targets[name], self._log(name), lambda _, at: build(at))

    def _made(self, recipe: Recipe, *, anew: bool) -> Path:
        """The folder of ``recipe``, made if it is not there."""
        if not recipe.folder.is_dir():
            self._make(recipe, anew=anew)
        os.utime(recipe.folder)
        return recipe.folder

    def _make(self, recipe: Recipe, *, anew: bool) -> None:
        folder, name = recipe.folder, recipe.folder.name
        known = KnownFailures(self._folder / "failures", recipe.definition, self._python)
        with self._alone("build"):
            if folder.is_dir():  # another worker of this machine was faster
                return
            if not anew and (failure := known.of(name)):
                raise failure
            self._remove_halves()
            try:
                self._write(recipe)
            except Unbuildable as failed:
                known.keep(name, failed)
                raise
            self._remove_unused()

    def _find(self, revision: str) -> tuple[str, str]:
        """Find the target and the whole id of a commit; fetch if it is not known.

        Raises:
            BuildFailed: it is nowhere, or the name is an abbreviation that fits more than one.
        """
        if found := self._known_commit(revision):
            return found
        away = [sentence for name in self._targets if (sentence := self._fetch(name, math.inf))]
        if found := self._known_commit(revision):
            return found
        if any(self._mirror(name).holds(revision) for name in self._targets):
            away.append("It was there; no allowed ref leads to it any more, as after a force-push.")
        sentence = (
            f"Commit {revision} is in no repository of this worker's targets "
            f"({', '.join(self._targets)}): push it, or check the refs that they allow."
        )
        raise BuildFailed(" ".join((sentence, *away)))

    def _known_commit(self, revision: str) -> tuple[str, str] | None:
        commits = {name: self._mirror(name).commit(revision) for name in self._targets}
        found = [(name, commit) for name, commit in commits.items() if commit]
        if len({commit for _, commit in found}) > 1:
            named = " or ".join(commit for _, commit in found)
            raise BuildFailed(f"{revision} may be {named}: name the whole commit.")
        return found[0] if found else None

    def _fetch(self, name: str, limit_s: float) -> str:
        """Fetch a repository; one that cannot be reached keeps what is known of it.

        Return a sentence about what prevented it; empty if nothing did.
        """
        sentence = ""
        try:
            with self._alone(name):
                self._mirror(name).fetch(limit_s)
            self._reached_s[name] = time.monotonic()
        except (BuildFailed, OSError) as failed:
            sentence = f"The repository of the target {name} was not fetched: {failed}"
            log.warning("%s", sentence)
            self._trouble[name] = line(str(failed))
        self._known = self._heads = None
        return sentence

    def _write(self, recipe: Recipe) -> None:
        """Write what ``recipe`` says; the folder has its name once it is whole."""
        part = recipe.folder.with_name(f"{recipe.folder.name}.part")
        log.info("Building: %s.", recipe.revision)
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        try:
            recipe.write(recipe, part)
            part.rename(recipe.folder)
        except BuildFailed as failed:
            sentence = f"{recipe.revision} cannot be built: {failed} The log is {recipe.log}."
            raise type(failed)(sentence, failed.log) from failed
        finally:
            shutil.rmtree(part, ignore_errors=True)

    def _build(self, name: str, commit: str, part: Path) -> None:
        """Write the commit's files, and a link to its environment."""
        repository = self._targets[name]
        self._mirror(name).export(commit, part)
        inside = part / repository.path
        if not inside.is_dir() or not inside.resolve().is_relative_to(part.resolve()):
            raise Unbuildable(f"it has no folder {repository.path}.")
        if os.path.lexists(inside / VENV):
            raise Unbuildable(f"it has a {VENV} of its own.")
        if repository.install is definitions.Install.UV_SYNC:
            kept, said = self._folder / "environments", self._log(name)
            python = repository.python or self._python
            environment = environment_of(part, repository, python, kept, said)
            (inside / VENV).symlink_to(environment, target_is_directory=True)

    def _remove_halves(self) -> None:
        """Remove what a build or a removal left that was killed: nobody else builds now."""
        for half in (*self._folder.glob("checkouts/*/*.part*"), *self._environments("*.part")):
            shutil.rmtree(half, ignore_errors=True)

    def _remove_unused(self) -> None:
        """Remove the files that were not used for longest, then environments of no files.

        What cannot be removed stays until the next build.
        """
        try:
            left = sorted(self._folder.glob("checkouts/*/*"), key=lambda one: one.stat().st_mtime)
            size_b = self._size_b()
            while left and size_b > self._keep_b and _is_old(left[0]):
                _remove(left.pop(0))
                size_b = self._size_b()
            if size_b <= self._keep_b:
                return
            linked = {self._environment(one) for one in left}
            for environment in self._environments("*"):
                if environment.name not in linked and _is_old(environment):
                    _remove(environment)
            shutil.rmtree(self._folder / CACHE, ignore_errors=True)
        except OSError as error:
            log.warning("Not all builds that nobody uses could be removed: %s.", error)

    def _environment(self, folder: Path) -> str:
        """Name the environment of a commit's files; empty if it has none."""
        target = self._targets.get(folder.parent.name)
        venv = folder / (target.path if target else ".") / VENV
        return venv.readlink().name if venv.is_symlink() else ""

    def _environments(self, pattern: str) -> list[Path]:
        return sorted(self._folder.glob(f"environments/{pattern}"))

    def _size_b(self) -> int:
        whole = (*self._folder.glob("checkouts/*/*"), *self._environments("*"))
        known_b = sum(_taken_b((folder, folder.stat().st_mtime_ns)) for folder in whole)
        return known_b + sum(sizes_b(self._folder / CACHE))

    def _checkouts(self, name: str) -> Path:
        return self._folder / "checkouts" / name

    def _mirror(self, name: str) -> Mirror:
        mirror = self._folder / "mirrors" / f"{name}.git"
        return Mirror(mirror, self._targets[name], self._log(name))

    def _log(self, name: str) -> Path:
        self._folder.mkdir(parents=True, exist_ok=True)
        return self._folder / f"{name}.log"

    @contextmanager
    def _alone(self, what: str) -> Iterator[None]:
        """Wait for other workers of this machine that do the same in this folder."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / f"{what}.lock").open("w") as lock:
            while not _locked(lock):
                commands.look()
                time.sleep(ASK_AGAIN_S)
            yield


def _head(target: str, ref: str, commit: str, at: str, author: str, title: str) -> Head | None:
    """The head that git tells; None for a tag with a message, or a name that nobody may ask for."""
    with suppress(ValidationError):
        names = {"author": line(author), "title": line(title)}
        return Head(target=target, ref=ref, commit=commit, at=at, **names)
    return None


def _unlisted(asked: CommitRange, failed: BuildFailed) -> ListedRange:
    """Say why a range is not listed, and whether another try may list it."""
    passing = not isinstance(failed, Unbuildable)
    return ListedRange(good=asked.good, bad=asked.bad, reason=line(str(failed)), passing=passing)


def _listed(commit: str, at: str, author: str, title: str) -> ListedCommit:
    """A commit as git tells it.

    Raises:
        ValueError: its time is none.
    """
    names = {"author": line(author), "title": line(title)}
    return ListedCommit.model_validate({"commit": commit, "at": at, **names})


def _remove(folder: Path) -> None:
    """Take the name away first: half of a build is none."""
    half = folder.with_name(f"{folder.name}.part")
    folder.rename(half)
    shutil.rmtree(half, ignore_errors=True)


@lru_cache(maxsize=2_000)
def _taken_b(used: tuple[Path, int]) -> int:
    """The bytes of a folder that is whole, by when it was used: a child leaves its bytecode there,
    so it is read anew after the next use."""
    return sum(sizes_b(used[0]))


def _locked(lock: IO[str]) -> bool:
    """Take the lock unless another process has it."""
    with suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _is_old(folder: Path) -> bool:
    return time.time() - folder.stat().st_mtime > IN_USE_S
