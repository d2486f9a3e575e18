"""The state folder: the embedded database, the logs, and who is using it now."""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from cli.exits import Exit, Stop


@dataclass(frozen=True)
class StateFolder:
    """The folder that one `throughline up` keeps from run to run."""

    path: Path

    @property
    def logs(self) -> Path:
        """The folder that the children write their logs to."""
        return self.path / "logs"

    def claim(self) -> Claim:
        """Take the folder for this process until it ends.

        Raises:
            Stop: another `throughline up` uses it, or it cannot be written.
        """
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = (self.path / "up.json").open("a+", encoding="utf-8")
        except OSError as error:
            raise Stop(
                f"The state folder {self.path} cannot be written ({error.strerror}): "
                "choose another with --state-dir or THROUGHLINE_STATE_DIR."
            ) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with file:
                raise Stop(_in_use(self.path, file), Exit.USAGE) from None
        return Claim(file)


@dataclass(frozen=True)
class Claim:
    """A locked folder; the operating system unlocks it when the process ends."""

    file: IO[str]

    def tell(self, url: str) -> None:
        """Write down the service's address, for a second `throughline up`."""
        self.file.truncate(0)
        json.dump({"url": url, "pid": os.getpid()}, self.file)
        self.file.flush()

    def release(self) -> None:
        """Let go of the folder."""
        self.file.truncate(0)
        self.file.close()


def _in_use(path: Path, file: IO[str]) -> str:
    """Say who has the folder, as far as it wrote that down."""
    file.seek(0)
    try:
        owner = json.load(file)
        where = f" at {owner['url']} (process {owner['pid']})"
    except (ValueError, KeyError):
        where = ""
    return (
        f"Throughline is already running{where} with the state folder {path}: open that address, "
        "stop it with Ctrl-C where it runs, or choose another folder with --state-dir."
    )
