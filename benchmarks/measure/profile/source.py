"""Finds the line of a workload that asked for something: its innermost frame.

Frames of `benchmarks.measure` are the harness, and what called it is nobody's concern. A workload's
lie wherever it is kept: in a checkout, or among the installed packages as in a container. Where
both occur, the installed ones are libraries that the workload's own lines call.
"""

from __future__ import annotations

import sys
import sysconfig
from functools import cache
from pathlib import Path
from types import FrameType

import torch

_TORCH = str(Path(torch.__file__).parent) + "/"
_HARNESS = str(Path(__file__).parents[1]) + "/"
_LIBRARY = sysconfig.get_path("stdlib") + "/"
_SITE = "/site-packages/"
_PLUMBING = ("_python_dispatch.py", "torch/_compile.py", "_dynamo/eval_frame.py", "/warnings.py")
"""What lies between a call and what watches it."""


def line_of(frame: FrameType | None) -> str:
    """``file:line`` of the innermost frame that a workload wrote; empty where there is none."""
    installed = ""
    while frame is not None and not frame.f_code.co_filename.startswith(_HARNESS):
        name = frame.f_code.co_filename
        if _may_be_of_workload(name):
            place = f"{_short(name)}:{frame.f_lineno}"
            if _SITE not in name:
                return place
            installed = installed or place
        frame = frame.f_back
    return installed


def nearest(frame: FrameType | None) -> str:
    """``file:line`` of the innermost frame outside of the harness, in torch or not."""
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(_HARNESS) and not name.endswith(_PLUMBING):
            return f"{_short(name)}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


@cache
def _may_be_of_workload(name: str) -> bool:
    # Where pip installs into the interpreter itself, its packages lie within the standard library.
    standard = name.startswith(_LIBRARY) and _SITE not in name
    library = standard or name.startswith(_TORCH) or name.endswith(_PLUMBING)
    return not library and not name.startswith("<") and name.endswith(".py")


@cache
def _short(name: str) -> str:
    folders = (f"{Path(entry or '.').absolute()}/" for entry in sys.path)
    within = max((f for f in folders if name.startswith(f)), key=len, default="")
    return name[len(within) :]
