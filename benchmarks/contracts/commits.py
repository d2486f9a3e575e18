"""The commits between two revisions, which the service asks of a worker that builds them."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from benchmarks.contracts import values

MOST_COMMITS = 1_000
"""Commits of a range that is listed or bisected."""
Commit = Annotated[
    str,
    Field(max_length=40, pattern=r"^[0-9a-f]{40}$"),
    values.Worded("must be the whole id of a commit, 40 digits of 0-9 and a-f"),
]


class CommitRange(values.Contract):
    """A good commit, and a bad one that came after it in the same repository."""

    good: Commit
    bad: Commit


class ListedCommit(values.Contract):
    """One commit of a range, as git tells it."""

    commit: Commit
    at: values.Moment
    """When it was committed."""
    author: values.Line = ""
    title: values.Line = ""
    """The first line of its message."""


class ListedRange(CommitRange):
    """The commits of a range, or why they cannot be listed."""

    commits: Annotated[tuple[ListedCommit, ...], Field(max_length=MOST_COMMITS)] = ()
    """Those after the good one up to the bad one, along first parents, the oldest first."""
    reason: values.Line = ""
    """Why there are none."""

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
