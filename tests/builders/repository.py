"""A git repository for tests and trials, and what a commit needs to have an environment."""

from __future__ import annotations

import subprocess
from pathlib import Path

LOCK = """version = 1
requires-python = ">=3.11"

[[package]]
name = "x"
version = "0"
source = { virtual = "." }
"""
PROJECT = '[project]\nname = "x"\nversion = "0"\nrequires-python = ">=3.11"\n'


def git(place: Path, *arguments: str) -> str:
    """Run git in the folder ``place`` as A; returns what it printed."""
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    more = ("-c", "protocol.file.allow=always", "-c", "commit.gpgsign=false")
    done = subprocess.run(
        ["git", *identity, *more, *arguments], cwd=place, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()
