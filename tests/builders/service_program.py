"""The service as a program of its own, ``python -m service``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from builders.forked import Forked, server

Program = Forked


def run(*arguments: str, **settings: str) -> Program:
    """Start it, its settings named without ``THROUGHLINE_``; by default it asks for no tokens, and
    starts no analysis.
    """
    environment = {k: v for k, v in os.environ.items() if not k.startswith("THROUGHLINE_")}
    settings = {"ACCESS": "open", "ROLE": "web"} | settings
    settings = {f"THROUGHLINE_{name}": value for name, value in settings.items()}
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as said, Path(os.devnull).open("wb") as nowhere:
        process = server().start(
            *("service", *arguments),
            folder=Path.cwd(),
            environment=environment | settings,
            stdout=nowhere,
            stderr=said,
        )
    process.stderr = os.fdopen(reading)
    return process


def outcome(process: Program) -> tuple[int, str]:
    """The exit code of a program that ends by itself, and what it said."""
    _, said = process.communicate(timeout=60)
    return process.returncode, said


@contextmanager
def serving(
    url: str, said: list[str] | None = None, **settings: str
) -> Iterator[tuple[str, Program]]:
    """A service on a free port that is ready to answer; what it ``said`` until then is added."""
    process = run("--port", "0", DATABASE_URL=url, **settings)
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if said is not None:
                said.append(line)
            if "serving on " in line:
                yield line.rpartition("serving on ")[2].strip(), process
                break
    finally:
        process.kill()
        process.communicate()
