"""Commits of a repository that a worker may build."""

from __future__ import annotations

from collections.abc import Callable

Commit = Callable[..., str]
KEEP_B = float(2**40)
