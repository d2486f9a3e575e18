"""A check that Python keeps torch's bytecode: where it does not, every process compiles anew.

That is some 2,000 files and, on an H200's host, five seconds of each process: a read-only image
whose torch was installed without bytecode (uv's default), or ``PYTHONDONTWRITEBYTECODE`` beside it.
"""

from __future__ import annotations

import os
import sys
from importlib.util import cache_from_source, find_spec
from pathlib import Path


def lost() -> str | None:
    """One sentence for the operator; None where the bytecode is there or will be kept."""
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    kept = Path(cache_from_source(spec.origin))
    if kept.exists() or (not sys.dont_write_bytecode and _may_be_made(kept.parent)):
        return None
    return (
        "Python keeps no bytecode of torch here, so every process compiles torch's own files "
        f"again, which takes seconds: `python -m compileall -q {Path(spec.origin).parent}` "
        "makes it once."
    )


def _may_be_made(folder: Path) -> bool:
    there = next(parent for parent in (folder, *folder.parents) if parent.exists())
    return os.access(there, os.W_OK)
