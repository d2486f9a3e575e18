"""A git repository for tests, and what a commit needs to have an environment."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

Commit = Callable[..., str]


KEEP_B = float(2**40)


LOCK = """version = 1
requires-python = ">=3.11"

[[package]]
name = "x"
version = "0"
source = { virtual = "." }
"""


PROJECT = '[project]\nname = "x"\nversion = "0"\nrequires-python = ">=3.11"\n'


def git(place: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    more = ("-c", "protocol.file.allow=always", "-c", "commit.gpgsign=false")
    done = subprocess.run(
        ["git", *identity, *more, *arguments], cwd=place, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()
