"""``python -m builders.forkserver FD KIND``: starts processes by forking, with everything imported.

KIND is ``programs``, for the command line, the service and the worker, or ``measuring``, for what a
job starts. To start Python and import the service costs two seconds of a processor, and so does
torch, hundreds of times in a run; to fork costs a hundredth of that. A forked program is a process
like any other: it has its own arguments, environment, folder, pipes and end. `builders.forked` asks
for them.
"""

from __future__ import annotations

import atexit
import fcntl
import functools
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import socket
import sys
import threading
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

REQUEST_B = 2**20
MOST_FILES = 16
IMPORTED = ("service.__main__", "service.app", "worker.__main__", "alembic.command")
"""Beside everything of the command line. Nothing here imports torch."""


class Become(BaseException):
    """Take the place of the program, as `os.execve` does."""

    def __init__(self, words: Sequence[str], environment: dict[str, str]) -> None:
        super().__init__(words)
        self.request = {"words": list(words), "environment": environment}


def main() -> None:
    """Fork until the other side is gone; in a forked process, run what was asked for."""
    gc.disable()
    {"programs": _load_programs, "measuring": _load_measuring}[sys.argv[2]]()
    gc.freeze()
    gc.enable()
    request = _serve(socket.socket(fileno=int(sys.argv[1])))
    if request is not None:
        os._exit(_ended(request))


def _load_programs() -> None:
    import typer.main
    from builders import certificates_once, undelayed, unsynced

    import cli.main

    for module in pkgutil.walk_packages(cli.__path__, "cli."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for name in IMPORTED:
        importlib.import_module(name)
    unsynced.apply()
    undelayed.apply()
    certificates_once.apply()
    typer.main.get_command = functools.cache(typer.main.get_command)
    typer.main.get_command(cli.main.app)


def _load_measuring() -> None:
    import benchmarks.__main__

    benchmarks.__main__._load()
    gc.disable()


def _ended(request: dict[str, Any]) -> int:
    """The exit code of a program, after all that Python does at an end but freeing memory."""
    code: object = None
    try:
        _run(request)
    except SystemExit as ending:
        code = ending.code
    except Become as become:
        return _ended(become.request)
    except BaseException:
        traceback.print_exc()
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    if isinstance(code, str):
        sys.stderr.write(f"{code}\n")
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    return code if isinstance(code, int) else int(code is not None)


def _serve(asking: socket.socket) -> dict[str, Any] | None:
    """In this process None, at the end; in each forked one what it is to run."""
    running: dict[int, tuple[int, int]] = {}
    """By a descriptor of the process: its id, and where its end is said."""
    ended: dict[int, int] = {}
    """By where its end was said: a process that nobody has waited for yet."""
    events = select.poll()
    events.register(asking, select.POLLIN)
    while True:
        for ready, _ in events.poll():
            if ready in running:
                events.unregister(ready)
                pid, status = running.pop(ready)
                _tell_end(ready, status)
                ended[status] = pid
                events.register(status, select.POLLHUP)
                continue
            if ready in ended:
                events.unregister(ready)
                os.close(ready)
                os.waitpid(ended.pop(ready), 0)
                continue
            request, files, _, _ = socket.recv_fds(asking, REQUEST_B, MOST_FILES)
            if not request:
                return None
            asked = json.loads(request)
            pid = os.fork()
            if pid == 0:
                asking.detach()
                return _settled(asked, files)
            if asked["group"] is not None:
                os.setpgid(pid, asked["group"])
            status = files.pop(3)
            for file in files:
                os.close(file)
            os.write(status, str(pid).encode())
            end = os.pidfd_open(pid)
            running[end] = pid, status
            events.register(end, select.POLLIN)


def _tell_end(end: int, status: int) -> None:
    """Say how it ended, and leave it to be waited for, as whoever started it may look at it."""
    how = os.waitid(os.P_PIDFD, end, os.WEXITED | os.WNOWAIT)
    assert how is not None
    code = how.si_status if how.si_code == os.CLD_EXITED else -how.si_status
    with suppress(OSError):  # nobody may wait for it any more
        os.write(status, str(code).encode())
    os.close(end)


def _settled(request: dict[str, Any], files: Sequence[int]) -> dict[str, Any]:
    """Give a forked process the surroundings of one that was started."""
    numbers = [0, 1, 2, *request["passed"]]
    streams = [*files[:3], *files[4:]]
    apart = [fcntl.fcntl(file, fcntl.F_DUPFD, max(numbers) + 1) for file in streams]
    for file, number in zip(apart, numbers, strict=True):
        os.dup2(file, number)
    open_now = {int(file.name) for file in Path("/proc/self/fd").iterdir()}
    for number in open_now - {*numbers}:
        with suppress(OSError):  # that of the folder
            os.close(number)
    if request["session"]:
        os.setsid()
    os.chdir(request["folder"])
    os.execve = _become
    return request


def _become(_path: str, words: Sequence[str], environment: dict[str, str]) -> NoReturn:
    assert words[1] == "-m"
    raise Become(words[2:], environment)


def _run(request: dict[str, Any]) -> None:
    os.environ.clear()
    os.environ.update(request["environment"])
    places = request["environment"].get("PYTHONPATH", "").split(os.pathsep)
    if "PYTHONSAFEPATH" not in request["environment"]:
        places.insert(0, request["folder"])
    sys.path[:0] = filter(None, places)
    module, *sys.argv[1:] = request["words"]
    sys.modules.pop(f"{module}.__main__", None)  # imported for what it imports
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
