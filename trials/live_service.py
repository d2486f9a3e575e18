"""A service and workers of this checkout as processes, for trials on a real device."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

THROUGHLINE = (sys.executable, "-m", "cli")
WAIT_S = 60.0


def here(port: int) -> str:
    """The address of a service of this machine."""
    return f"http://127.0.0.1:{port}"


def environment(**more: str) -> dict[str, str]:
    """This process's environment and ``more``; it finds this checkout from any folder."""
    parts = os.environ.get("PYTHONPATH", ".").split(os.pathsep)
    paths = os.pathsep.join(str(Path(part).absolute()) for part in parts)
    return {**os.environ, "PYTHONPATH": paths, **more}


@contextmanager
def service_and_workers(
    folder: Path, port: int, settings: Mapping[str, str], workers: Sequence[Sequence[str]] = ((),)
) -> Iterator[None]:
    """Run a service with its state in ``folder`` and a worker for each list of options.

    ``settings`` are variables of their environment. Their output goes to ``folder``, a file each.
    """
    own = {"THROUGHLINE_STATE_DIR": str(folder / "state"), "THROUGHLINE_URL": here(port)}
    own["THROUGHLINE_ACCESS"] = "open"  # on loopback
    variables = environment(**own, **settings)
    subprocess.run([*THROUGHLINE, "migrate"], env=variables, check=True, stdout=sys.stderr)
    commands = [["serve", "--port", str(port)], *(["worker", *options] for options in workers)]
    running: list[subprocess.Popen[bytes]] = []
    try:
        for number, words in enumerate(commands):
            with (folder / f"{number}.log").open("wb") as log:
                running.append(
                    subprocess.Popen([*THROUGHLINE, *words], env=variables, stdout=log, stderr=log)
                )
            if number == 0:
                _await(f"{here(port)}/api/v1/health", 1)
        _await(f"{here(port)}/api/v1/workers", len(workers))
        yield
    finally:
        for process in reversed(running):
            process.terminate()
        for process in reversed(running):
            process.wait(60)


def throughline(words: Sequence[str], place: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the CLI in the folder ``place``; its end is not judged."""
    return subprocess.run(
        [*THROUGHLINE, *words],
        cwd=place,
        env=environment(**more),
        capture_output=True,
        text=True,
        check=False,
    )


def post(url: str, document: Mapping[str, Any]) -> Any:
    """Send a JSON document; return the answer's.

    Raises:
        HTTPError: the service refused it.
    """
    body, headers = json.dumps(document).encode(), {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=60) as answer:
        return json.load(answer)


def _await(url: str, items: int) -> None:
    """Wait until ``url`` answers, with that many items if it answers with a list."""
    until_s = time.monotonic() + WAIT_S
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                if len(json.load(answer).get("items", range(items))) >= items:
                    return
        except OSError:
            pass
        if time.monotonic() > until_s:
            raise TimeoutError(f"{url} has not answered as it should for {WAIT_S:g} s")
        time.sleep(0.5)
