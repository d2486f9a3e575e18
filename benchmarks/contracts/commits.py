"""The commits between two revisions, or the releases of a package between two versions.

The service asks them of a worker that builds both ends.
"""

from __future__ import annotations

import re
from typing import Annotated, Self

from pydantic import Field, model_validator

from benchmarks.contracts import pins, values

_COMMIT = "[0-9a-f]{40}"
MOST_COMMITS = 1_000
"""Commits, or releases, of a range that is listed or bisected."""
Commit = Annotated[
    str,
    Field(max_length=100, pattern=f"^({_COMMIT}|{pins.PATTERN})$"),
    values.Worded(
        "must be the whole id of a commit, 40 digits of 0-9 and a-f, or a version such as "
        "torch==2.12.0"
    ),
]
"""A commit, or versions of packages, that a worker builds."""


def is_commit(revision: str) -> bool:
    """Return True if a revision is the whole id of a commit."""
    return re.fullmatch(_COMMIT, revision) is not None


class CommitRange(values.Contract):
    """A good commit, and a bad one that came after it in the same repository.

    Or two revisions that name different versions of one package.
    """

    good: Commit
    bad: Commit


class ListedCommit(values.Contract):
    """One commit of a range, as git tells it, or one release."""

    commit: Commit
    at: values.Moment
    """When it was committed; of a release, when the index was asked."""
    author: values.Line = ""
    title: values.Line = ""
    """The first line of its message."""


class ListedRange(CommitRange):
    """The commits of a range, or why they cannot be listed."""

    commits: Annotated[tuple[ListedCommit, ...], Field(max_length=MOST_COMMITS)] = ()
    """Those after the good one up to the bad one, the oldest first; commits along first parents."""
    reason: values.Line = ""
    """Why there are none."""
    passing: bool = False
    """True for a reason that may pass, as an index that is away: it is asked for again a while."""

    @model_validator(mode="after")
    def _leads_to_the_bad_one(self) -> Self:
        ids = [self.good, *(one.commit for one in self.commits)]
        if not (self.commits or self.reason):
            raise ValueError("give the commits, or the reason why there are none")
        if self.commits and (ids[-1] != self.bad or len(set(ids)) < len(ids)):
            raise ValueError(
                "the commits must end with the bad one, each once, without the good one"
            )
        return self
