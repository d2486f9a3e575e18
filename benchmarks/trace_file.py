"""A profile's Chrome trace as a file: where it can be kept, and whether it is one."""

from __future__ import annotations

import zlib
from pathlib import Path

from benchmarks.artifact_kinds import LIMIT_B

_GZIPPED = 31
"""What zlib calls a gzip header and trailer around its largest window."""
_LOOKED_AT_B = 64


def fault(file: Path) -> str:
    """Return the reason why ``file`` cannot hold a trace, in one sentence; empty if it can."""
    if not file.name.endswith((".json", ".json.gz")):
        return f"A trace is a .json or a .json.gz, which {file} is not."
    if not file.absolute().parent.is_dir():
        return f"There is no folder for the trace {file}."
    return ""


def flaw(body: bytes) -> str:
    """Return the reason why a file's content is no trace, in one sentence; empty if it is one.

    Only its first characters are unpacked. They find a file that is something else, at no cost;
    whether the rest is whole is the viewer's to find out, because what 8 MiB may unpack to is a
    thousand times as much.
    """
    if len(body) > LIMIT_B:
        return f"The trace is larger than {LIMIT_B / 2**20:g} MiB, which is the most that is kept."
    try:
        begins = zlib.decompressobj(_GZIPPED).decompress(body, _LOOKED_AT_B)
    except zlib.error:
        begins = b""
    if not begins.lstrip().startswith(b"{"):
        return "The trace is no JSON object packed with gzip."
    return ""
