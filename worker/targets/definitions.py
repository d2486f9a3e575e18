"""What a worker may build, as its operator defines it in ``targets.toml``: repositories' commits,
and released versions of packages.

```toml
[targets.nanogpt]
git     = "https://git.example/team/nanogpt.git"
refs    = ["refs/heads/main", "refs/pull/*/head"]
install = "uv-sync"

[upstream]
packages = ["torch"]
```
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Annotated

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
)

from benchmarks.contracts.pins import FACTS, UPSTREAM, building

INDEXES = ("https://", "file:///", "/")
"""How the address of an index of packages begins, or of a folder of wheels."""
TRANSPORTS = ("https://", "ssh://", "git@", "file:///", "/")
"""Ways to reach a repository. git has others (``ext::``) that run commands."""


class BadTargets(ValueError):
    """The file cannot be used; the message is one sentence."""


class Install(StrEnum):
    """The ways to make a commit's Python environment."""

    NONE = "none"
    """The worker's own Python, with the commit's code before everything that is installed."""
    UV_SYNC = "uv-sync"
    """What the commit's ``uv.lock`` says, from wheels only: nothing of it runs while installing."""


def _reachable(address: str) -> str:
    if not address.startswith(TRANSPORTS):
        raise ValueError(f"must begin with one of {', '.join(TRANSPORTS)}")
    return address


def _inside(path: str) -> str:
    parts = PurePosixPath(path).parts
    if path.startswith("/") or ".." in parts:
        raise ValueError("must be a folder within the repository")
    return path


def _is_known(package: str) -> str:
    if package not in FACTS:
        raise ValueError(f"must be one of {', '.join(FACTS)}")
    return package


def _is_index(address: str) -> str:
    if address and not address.startswith(INDEXES):
        raise ValueError(f"must begin with one of {', '.join(INDEXES)}")
    return address


class Bounded(BaseModel):
    """What a build may take."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    build_s: Annotated[float, Field(gt=0, le=7_200)] = 600.0
    """Longest time of one fetch, and of one installation."""
    disk_gib: Annotated[float, Field(gt=0, le=1_000)] = 20.0
    """Most that the mirror, one commit's files, or one environment may take."""


class Repository(Bounded):
    """One repository, with what is allowed of it."""

    git: Annotated[str, AfterValidator(_reachable)]
    refs: Annotated[
        tuple[Annotated[str, Field(pattern=r"^refs/[A-Za-z0-9_./*-]+$")], ...],
        Field(min_length=1),
    ] = ("refs/heads/*",)
    """Commits that these reach may be measured, and no others."""
    install: Install = Install.NONE
    python: Annotated[str, Field(pattern=r"^(/.*)?$")] = ""
    """The Python of environments that uv makes; by default the worker's."""
    path: Annotated[str, AfterValidator(_inside)] = "."
    """The folder that comes first for imports, such as ``src``; it also holds ``uv.lock``'s project
    if that is there and not at the top."""


class Upstream(Bounded):
    """Released versions that jobs may name, such as ``torch==2.12.0``."""

    build_s: Annotated[float, Field(gt=0, le=7_200)] = 1_800.0
    """torch and CUDA's libraries are gigabytes."""
    packages: Annotated[
        tuple[Annotated[str, AfterValidator(_is_known)], ...], Field(min_length=1, max_length=10)
    ]
    index: Annotated[str, AfterValidator(_is_index)] = ""
    """Where wheels come from beside what uv's own settings say."""

    @property
    def labels(self) -> dict[str, str]:
        """The labels by which jobs of such versions find the worker."""
        return building(self.packages)


class Definitions(BaseModel):
    """What the file says."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    targets: Mapping[Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")], Repository]
    upstream: Upstream | None = None

    @field_validator("targets")
    @classmethod
    def _has_no_upstream(cls, targets: Mapping[str, Repository]) -> Mapping[str, Repository]:
        if UPSTREAM in targets:
            raise ValueError(f"{UPSTREAM} is built in: give the repository another name")
        return targets


def read(path: Path) -> Definitions:
    """Read the file; without repositories it has to name packages.

    Raises:
        BadTargets: the file is not there, is no TOML, or says something that cannot be.
    """
    try:
        said = tomllib.loads(path.read_text(encoding="utf-8"))
        return Definitions.model_validate(({"targets": {}} if UPSTREAM in said else {}) | said)
    except OSError as error:
        raise BadTargets(f"{path} cannot be read: {error.strerror}.") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadTargets(f"{path} is no TOML: {error}.") from error
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, fault["loc"]))
        raise BadTargets(f"{path}: {where}: {fault['msg']}.") from error
