"""The process environment: the only place in this package that reads it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import cli


def child_environment(given: Mapping[str, str]) -> dict[str, str]:
    """What a service or a worker inherits, ``given`` on top.

    Our packages are found by the path of this one and never by the current folder, which may well
    be a training repository with a folder called ``service`` or ``worker`` of its own.
    """
    root = str(Path(cli.__file__).parent.parent)
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    ours = {
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONSAFEPATH": "1",
        "PYTHONUNBUFFERED": "1",
    }
    return os.environ | ours | dict(given)
