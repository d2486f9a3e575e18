"""Builds that do not give way: all that keeps the processors of a machine busy here are other
tests, and a command of git that waits for all of them holds its own test up for minutes.
"""

from __future__ import annotations

from typing import Any

from worker.child.containment import guarded
from worker.targets import commands


def apply() -> None:
    """Run the commands of every build of this process so, from now on."""
    commands.guarded = _at_once  # type: ignore[attr-defined]


def _at_once(*arguments: Any, gives_way: bool) -> tuple[str, ...]:
    assert gives_way
    return guarded(*arguments)
