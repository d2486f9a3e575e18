"""The pull request that a gate was asked for, whatever its forge calls it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from benchmarks.contracts import Contract, Worded

_PART = r"\.?[A-Za-z0-9_][A-Za-z0-9_.~-]*"
"""Never ``..``: it becomes a part of an address."""


class ForgeKind(StrEnum):
    """The programs that keep pull requests."""

    GITHUB = "github"
    GITLAB = "gitlab"
    GERRIT = "gerrit"


Repository = Annotated[
    str,
    Field(max_length=200, pattern=rf"^{_PART}(/{_PART})*$"),
    Worded("must be the path of a repository, such as acme/vision"),
]


class PullRequest(Contract):
    """A pull request of GitHub, a merge request of GitLab or a change of Gerrit."""

    forge: ForgeKind
    repository: Repository
    """The one that it is to be merged into."""
    number: Annotated[int, Field(strict=True, ge=1, le=2**31 - 1)]
    head: Annotated[
        str,
        Field(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$"),
        Worded("must be the whole id of a commit"),
    ]
    """The newest commit of its branch, which shows the outcome; the contender may be a merge."""

    @property
    def key(self) -> str:
        """Its name on one line, such as ``github:acme/vision#12``."""
        return f"{self.forge}:{self.repository}#{self.number}"
