"""The addresses of a state folder's services on this machine, and the token for them.

A service writes its address into a file of its state folder and locks that file while it lives. The
token is only shown to an address whose file is locked: after a service's end another program may
use its port.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO

_LOCK_S = 2.0
"""Whoever looks whether the file is locked holds a lock for some microseconds itself."""


def token_file(state_dir: Path) -> Path:
    """Return the path of the token of this machine's own administrator."""
    return state_dir / "local.token"


def url(host: str, port: int) -> str:
    """The address at which this machine reaches what listens on ``host``."""
    shown = "127.0.0.1" if host in {"0.0.0.0", "::"} else host  # noqa: S104 - only compared
    return f"http://{f'[{shown}]' if ':' in shown else shown}:{port}"


def announce(state_dir: Path, address: str) -> IO[str]:
    """Write down that this process answers at ``address``, until it ends or the file is closed.

    Raises:
        OSError: it cannot be written down.
    """
    name = re.sub(r"[^0-9A-Za-z.]+", "-", address.partition("//")[2])
    path = state_dir / f"serving-{name}.json"
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    file = os.fdopen(handle, "r+", encoding="utf-8")
    try:
        _lock(file)
        file.truncate(0)
        json.dump({"url": address, "pid": os.getpid()}, file)
        file.flush()
    except OSError:
        file.close()
        raise
    return file


def urls(state_dir: Path) -> Iterator[str]:
    """The addresses at which services of a state folder answer now."""
    for path in sorted(state_dir.glob("serving-*.json")):
        with suppress(OSError, ValueError, KeyError, TypeError), path.open() as file:
            if _is_locked(file):
                yield str(json.load(file)["url"])


def token_for(state_dir: Path, address: str) -> str:
    """The token for the service at ``address``, if it is one of this folder; else nothing."""
    with suppress(OSError, ValueError):
        if address in urls(state_dir):
            return token_file(state_dir).read_text(encoding="utf-8").strip()
    return ""


def _lock(file: IO[str]) -> None:
    give_up_at_s = time.monotonic() + _LOCK_S
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > give_up_at_s:
                raise
            time.sleep(0.01)
        else:
            return


def _is_locked(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False
