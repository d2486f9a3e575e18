"""Prints what extras of pyproject.toml need, one requirement a line.

    python3 requirements.py service             as pyproject.toml declares it, the shared ones first
    python3 requirements.py --locked service    as requirements.lock has it: version and hashes

The Dockerfile installs these before it copies the code, so that a change of code does not
download torch again. Needs nothing but Python, and both files in the current folder.
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


def locked(lock: str, extras: list[str]) -> list[str]:
    """Give the lines of ``lock`` that any of these extras needs, in their order.

    Raises:
        SystemExit: an extra stands in no line.
    """
    parted = [line.rpartition(" # ") for line in lock.splitlines() if "==" in line]
    known = {extra for *_, told in parted for extra in told.split()}
    if missing := set(extras) - known:
        raise SystemExit(f"Nothing is locked for {', '.join(missing)}; run `make lock`.")
    return [line for line, _, told in parted if not set(extras).isdisjoint(told.split())]


def main(arguments: list[str]) -> list[str]:
    """Give the lines that are asked for."""
    if arguments[0] == "--locked":
        lock = Path("requirements.lock").read_text(encoding="utf-8")
        return locked(lock, arguments[1].split(","))
    return requirements(Path("pyproject.toml").read_text(encoding="utf-8"), arguments[0])


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in main(sys.argv[1:]))
