"""The file that keeps a profile's Chrome trace: whether it can, found out before it costs time."""

from __future__ import annotations

from pathlib import Path


def fault(file: Path) -> str:
    """Why a trace cannot be kept in ``file``, in one sentence; empty if it can."""
    if not file.name.endswith((".json", ".json.gz")):
        return f"A trace is a .json or a .json.gz, which {file} is not."
    if not file.absolute().parent.is_dir():
        return f"There is no folder for the trace {file}."
    return ""
