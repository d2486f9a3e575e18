"""Released versions of packages, in an environment with all that a measurement needs.

Only what a revision names moves: all other packages have the versions that the worker's own Python
has, as far as the named ones accept them. The code that measures is the worker's own.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

import benchmarks
from benchmarks.contracts.pins import UPSTREAM, is_of, package_between, pins_of
from worker.targets import commands, package_index
from worker.targets.definitions import Upstream
from worker.targets.environment import Uv
from worker.targets.recipe import VENV, Recipe

HARNESS = Path(benchmarks.__file__).resolve().parent
"""The code that measures."""
NEEDS = ("numpy", "nvidia-ml-py", "pillow", "pydantic", "rich", "scikit-image", "scipy", "torch")
"""What it imports."""
PYPI = "https://pypi.org/simple"
ASKED, RESOLVED = "requirements.in", "requirements.txt"
_QUIET = ("--quiet", "--no-progress")
_WHEELS = ("--only-binary", ":all:")
"""No code of a package runs in a build."""
_RESOLVE = ("pip", "compile", *_QUIET, *_WHEELS, "--no-header", "--no-annotate")
_VENV = ("venv", *_QUIET, "--allow-existing", "--no-project")
_SYNC = ("pip", "sync", *_QUIET, *_WHEELS, "--link-mode=copy", "--no-compile-bytecode")
_ASK_S = 60.0
_ASK = """
import importlib.metadata
for one in importlib.metadata.distributions():
    print(f"{one.metadata['Name']}=={one.version}")
"""
_HELD = re.compile(r"[A-Za-z0-9._-]+==[A-Za-z0-9._+!]+")


class Versions:
    """What makes the folder of a revision that names versions: an environment, and the harness."""

    def __init__(self, upstream: Upstream | None, python: str, kept: Path, log: Path) -> None:
        """Make environments for ``python`` in the folder ``kept``; errors go to ``log``."""
        self._upstream = upstream
        self._python = python
        self._kept = kept
        self._log = log

    def recipe(self, revision: str, checkouts: Path) -> Recipe:
        """Say how the folder of ``revision`` is made within ``checkouts``.

        Raises:
            BuildFailed: the operator did not allow one of its packages.
        """
        upstream = self._allowing(revision)
        said = (_held(self._python, self._log), self._sources(), self._python, HARNESS)
        folder = checkouts / UPSTREAM / f"{revision}.{_digest(*said)}"
        return Recipe(revision, folder, upstream, self._log, self._write)

    def between(self, good: str, bad: str) -> list[str]:
        """List the releases after ``good`` up to ``bad`` of the one package that differs there.

        Raises:
            BuildFailed: the operator did not allow it, or the index has no such way.
        """
        upstream, package = self._allowing(bad), package_between(good, bad)
        index = upstream.index or _uvs_own_index()
        tags = package_index.tags_of(self._python, self._log)
        known = package_index.versions_of(package, index, tags)
        held = dict(pins_of(bad))
        inside = package_index.between(known, dict(pins_of(good))[package], held[package])
        named = (held | {package: version} for version in inside)
        revisions = (",".join(f"{name}=={one}" for name, one in pins.items()) for pins in named)
        return [revision for revision in revisions if pins_of(revision)]

    def _allowing(self, revision: str) -> Upstream:
        """What the operator allows; it covers all packages of ``revision``."""
        upstream = self._upstream
        for package, _ in pins_of(revision):
            if upstream is None or package not in upstream.packages:
                raise commands.BuildFailed(
                    f"This worker makes no versions of {package}: its operator may add it to the "
                    f"packages of [{UPSTREAM}] in its targets.toml."
                )
        assert upstream is not None
        return upstream

    def _write(self, recipe: Recipe, part: Path) -> None:
        """Write what ``recipe`` stands for into the folder ``part``.

        Raises:
            Unbuildable: there is no such version for this Python and platform.
            BuildFailed: uv is absent, or the network or the disk failed.
        """
        assert self._upstream is not None
        uv = Uv(self._upstream, self._python, self._kept, self._log)
        pins = pins_of(recipe.revision)
        needs = [name for name in NEEDS if name not in dict(pins)]
        asked = [f"{package}=={version}" for package, version in pins]
        (part / ASKED).write_text("\n".join([*asked, *needs]), encoding="utf-8")
        # uv prefers what stands there already.
        (part / RESOLVED).write_text(_held(self._python, self._log), encoding="utf-8")
        index = _from(self._upstream.index)
        uv.run((*_RESOLVE, *index, "--output-file", RESOLVED, ASKED), part, part)
        resolved = (part / RESOLVED).read_text(encoding="utf-8")
        _check(recipe.revision, resolved)
        # An environment is shared by whatever resolves to the same, out of the same indexes.
        (part / RESOLVED).write_text(f"{resolved}# from {self._sources()}\n", encoding="utf-8")
        made = uv.environment(
            part / RESOLVED,
            lambda new: [(*_VENV, new), (*_SYNC, *index, "--python", new, RESOLVED)],
        )
        (part / VENV).symlink_to(made, target_is_directory=True)
        (part / HARNESS.name).symlink_to(HARNESS, target_is_directory=True)

    def _sources(self) -> str:
        """Name the indexes that wheels come from, without telling them: they may hold passwords."""
        assert self._upstream is not None
        said = commands.environment()
        chosen = {name: value for name, value in said.items() if name.startswith("UV_")}
        return _digest(self._upstream.index, sorted(chosen.items()), _settings_of_uv(said))


def newest(uv: Uv, package: str, index: str, folder: Path) -> str:
    """The newest release of ``package`` that can be installed here, as a revision.

    Raises:
        BuildFailed: the index has none, or cannot be reached.
    """
    (folder / ASKED).write_text(package, encoding="utf-8")
    (folder / RESOLVED).unlink(missing_ok=True)
    options = (*_from(index), "--no-deps", "--output-file", RESOLVED)
    uv.run((*_RESOLVE, *options, ASKED), folder, folder)
    version = _chosen((folder / RESOLVED).read_text(encoding="utf-8"))[package]
    return f"{package}=={version.partition('+')[0]}"


def _chosen(resolved: str) -> dict[str, str]:
    """The packages that uv resolved, each with its version."""
    lines = (line.split(" ")[0].partition("==") for line in resolved.splitlines())
    return {name: version for name, _, version in lines}


def _check(revision: str, resolved: str) -> None:
    """Refuse a second name of a version, such as 2.13 of 2.13.0: results tell the whole one."""
    chosen = _chosen(resolved)
    for package, version in pins_of(revision):
        if not is_of(chosen.get(package, ""), version):
            whole = chosen.get(package, "").partition("+")[0]
            raise commands.Unbuildable(f"{package}=={version} is {package}=={whole}: name that.")


def _from(index: str) -> tuple[str, ...]:
    """The options for an index, or for a folder of wheels, beside those of uv's own settings.

    A version is taken from whichever has it: all are exact, and the operator chose all indexes.
    """
    if index.startswith("/"):
        return ("--find-links", index)
    return ("--index", index, "--index-strategy", "unsafe-best-match") if index else ()


def _uvs_own_index() -> str:
    """The index that uv's own settings name, else PyPI."""
    said = commands.environment()
    named = said.get("UV_DEFAULT_INDEX") or said.get("UV_INDEX_URL") or PYPI
    return re.sub(r"^[A-Za-z0-9_.-]+=", "", named)  # uv takes a name before the address


def _settings_of_uv(said: Mapping[str, str]) -> list[bytes]:
    """Settings in uv's own files; they may name an index too."""
    own = Path(said.get("XDG_CONFIG_HOME") or Path(said.get("HOME", "/")) / ".config")
    places = [own / "uv" / "uv.toml", Path("/etc/uv/uv.toml")]
    if "UV_CONFIG_FILE" in said:
        places = [Path(said["UV_CONFIG_FILE"])]
    found = []
    for place in places:
        with suppress(OSError):  # it is not there
            found.append(place.read_bytes())
    return found


@cache
def _held(python: str, log: Path) -> str:
    """The versions that the worker's own Python has, a line each; as the worker started."""
    said = commands.run((python, "-c", _ASK), commands.BuildLimits(_ASK_S), log)
    return "\n".join(sorted(filter(_HELD.fullmatch, set(said.splitlines()))))


def _digest(*said: object) -> str:
    return hashlib.sha256(repr(said).encode()).hexdigest()[:12]
