"""Processes that measure, forked from one that has loaded torch: each is spared its two seconds.

For tests of what such a process measures and tells. Those of how one starts, of its limits and of
settings that torch reads when it is loaded start it as a worker does.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from types import SimpleNamespace
from typing import IO, Any

import pytest
from builders.forked import Forked, server

_STARTING = Lock()


def run(
    *words: str, environment: Mapping[str, str], folder: Path, **more: Any
) -> subprocess.CompletedProcess[str]:
    """Run ``python -m WORDS`` to its end; ``more`` as `ForkServer.run` has it."""
    with _STARTING:
        loaded = server("measuring")
    return loaded.run(*words, environment=environment, folder=folder, limit_s=240, **more)


def forked_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `benchmarks.lead`, in this process, start its ranks so."""
    from benchmarks import lead

    made = SimpleNamespace(Popen=_rank, TimeoutExpired=subprocess.TimeoutExpired)
    monkeypatch.setattr(lead, "subprocess", made)


def _rank(
    words: Sequence[str],
    *,
    stdin: IO[bytes],
    stdout: IO[bytes],
    env: Mapping[str, str],
    pass_fds: Sequence[int],
    process_group: int,
) -> Forked:
    module = words[words.index("-m") + 1 :]
    with Path("/proc/self/fd/2").open("ab") as stderr, _STARTING:
        return server("measuring").start(
            *module,
            folder=Path.cwd(),
            environment=env,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            group=process_group,
            passed=pass_fds,
        )
