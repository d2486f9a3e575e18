"""The process environment: the only place in this package that reads it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import cli


def child_environment(given: Mapping[str, str]) -> dict[str, str]:
    """What a service or a worker inherits, ``given`` on top."""
    return os.environ | our_packages() | {"PYTHONUNBUFFERED": "1"} | dict(given)


def our_packages() -> dict[str, str]:
    """Has our packages found by the path of this one and never by the current folder.

    That may well be a training repository with a folder called ``benchmarks`` or ``worker`` of its
    own.
    """
    root = str(Path(cli.__file__).parent.parent)
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"PYTHONPATH": os.pathsep.join(paths), "PYTHONSAFEPATH": "1"}
