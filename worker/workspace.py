"""A folder of one job's own, for its children's temporary files and compiler caches."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from worker.settings import Settings, child_environment

PREFIX = "tl-"
"""Short, so that socket paths below it stay under 108 bytes."""
_PRIVATE = {"TMPDIR": "tmp", "TORCHINDUCTOR_CACHE_DIR": "ind", "TRITON_CACHE_DIR": "tri"}


@contextmanager
def workspace() -> Iterator[Path]:
    """Make the folder; it is removed at the end.

    Raises:
        OSError: it cannot be made.
    """
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def environment_in(folder: Path, settings: Settings) -> dict[str, str]:
    """A child's environment: the first replicate of a job compiles, the others reuse."""
    for name in _PRIVATE.values():
        (folder / name).mkdir(exist_ok=True)
    own = {variable: str(folder / name) for variable, name in _PRIVATE.items()}
    return child_environment(settings) | own
