"""Prints what one extra of pyproject.toml needs, one requirement a line, the shared ones first.

The Dockerfile installs these before it copies the code, so that a change of code does not
download torch again.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path


def requirements(pyproject: str, extra: str) -> list[str]:
    """Give the requirements of the project with ``extra``, as ``pyproject`` (TOML) declares them.

    Raises:
        SystemExit: there is no such extra.
    """
    project = tomllib.loads(pyproject)["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"]
    if extra not in extras:
        raise SystemExit(f"There is no extra {extra!r}; choose one of: {', '.join(extras)}.")
    shared: list[str] = project["dependencies"]
    return [*shared, *extras[extra]]


if __name__ == "__main__":
    wanted = requirements(Path("pyproject.toml").read_text(encoding="utf-8"), sys.argv[1])
    sys.stdout.writelines(f"{line}\n" for line in wanted)
