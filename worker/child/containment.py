"""Ways to keep a child's processes together, so that none is left; chosen once, at the start."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from enum import StrEnum

from worker.child import guard
from worker.settings import ContainmentSetting

PROBE = "import os, sys; sys.exit(os.readlink('/proc/self') != str(os.getpid()))"
PROBE_LIMIT_S = 20.0


class Containment(StrEnum):
    """The two ways, strongest first; `worker.child.guard` describes them."""

    PID_NAMESPACE = "pid_namespace"
    PROCESS_GROUP = "process_group"


@dataclass(frozen=True, slots=True)
class Hidden:
    """The files of this machine that a child in a PID namespace does not see."""

    places: tuple[str, ...]
    """Files, and folders with all that is in them."""
    kept: tuple[str, ...] = ()
    """Folders that it sees all the same."""

    @property
    def arguments(self) -> tuple[str, ...]:
        """As the guard takes them."""
        return (*(f"hide={one}" for one in self.places), *(f"keep={one}" for one in self.kept))


SEEN = {
    Containment.PID_NAMESPACE: "What is measured sees neither token nor files of its worker.",
    Containment.PROCESS_GROUP: "What is measured runs as this user and can read the token here: "
    "measure no code that you do not trust, or give the worker a user of its own "
    "(docs/security.md).",
}
"""The consequence for the token, for the person who starts a worker."""


class Unavailable(Exception):
    """The machine does not allow the containment that the settings ask for."""


def choose(setting: ContainmentSetting, device: str) -> tuple[Containment, str]:
    """Choose what contains children on ``device``, and say why in a sentence.

    ``auto`` takes a PID namespace on the CPU only: CUDA within one that this worker made has not
    been tried, and a measurement that fails costs more than the weaker containment.

    Raises:
        Unavailable: a PID namespace was asked for and cannot be had.
    """
    if setting is ContainmentSetting.PROCESS_GROUP:
        return Containment.PROCESS_GROUP, "as THROUGHLINE_CONTAINMENT asks"
    if setting is ContainmentSetting.AUTO and device != "cpu":
        return Containment.PROCESS_GROUP, "the default on a GPU"
    obstacle = obstacle_to_namespaces()
    if not obstacle:
        return Containment.PID_NAMESPACE, "the kernel allows it"
    if setting is ContainmentSetting.PID_NAMESPACE:
        raise Unavailable(
            f"No PID namespace can be had here ({obstacle}): allow user namespaces to this user, "
            "or set THROUGHLINE_CONTAINMENT=process_group."
        )
    return Containment.PROCESS_GROUP, f"no PID namespace can be had here: {obstacle}"


def obstacle_to_namespaces() -> str:
    """Try a PID namespace with a /proc of its own; return why a child has none, else ""."""
    try:
        with tempfile.TemporaryDirectory(prefix="tl-") as folder:
            command = guarded(Containment.PID_NAMESPACE, guard.FEWEST_TASKS, Hidden((folder,)))
            tried = subprocess.run(
                [*command, sys.executable, "-I", "-S", "-c", PROBE],
                capture_output=True,
                text=True,
                timeout=PROBE_LIMIT_S,
                check=False,
            )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if tried.returncode == 0:
        return ""
    return tried.stderr.strip() or f"the trial ended with {tried.returncode}"


def guarded(
    containment: Containment, tasks: int, hidden: Hidden | None = None, *, gives_way: bool = False
) -> tuple[str, ...]:
    """Return the words to put before a command so that nothing of it outlives this process.

    ``tasks`` is the most processes and threads, where the kernel can limit them. ``hidden`` are
    files that the command must not see, where it has a namespace. What ``gives_way`` gets the
    processor only when nobody else wants it.
    """
    interpreter = (sys.executable, "-I", "-S", guard.__file__)
    places = hidden.arguments if hidden is not None else ()
    way = (guard.GIVES_WAY,) if gives_way else ()
    return *interpreter, str(os.getpid()), containment.value, str(tasks), *places, *way, "--"
