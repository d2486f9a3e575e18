"""Bytecode of torch's own files: some 2,000 of them, five seconds to compile on an H200's host."""

from __future__ import annotations

import os
import sys
from importlib.util import cache_from_source, find_spec
from pathlib import Path


def lost() -> Path | None:
    """Return torch's folder if Python keeps no bytecode of it here, so that each process compiles
    it again; else None.

    It happens in a read-only image whose torch was installed without bytecode (uv's default), or
    with ``PYTHONDONTWRITEBYTECODE``.
    """
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    kept = Path(cache_from_source(spec.origin))
    if kept.exists() or (not sys.dont_write_bytecode and _may_be_made(kept.parent)):
        return None
    return Path(spec.origin).parent


def _may_be_made(folder: Path) -> bool:
    there = next(parent for parent in (folder, *folder.parents) if parent.exists())
    return os.access(there, os.W_OK)
