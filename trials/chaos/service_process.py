"""``python -m trials.chaos.service_process``: the real service, whose clock a test can set.

The first 8 bytes of the file that ``CHAOS_CLOCK`` names are how far the database's clock is off,
in s. Everything else is `service.__main__`.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
from datetime import datetime, timedelta
from pathlib import Path

from sqlalchemy.orm import Session

from service.database import session


def off_by(path: Path) -> None:
    """Let `now_of` be off by what is in ``path``, which may change at any time."""
    with path.open("rb") as file:
        offset = mmap.mmap(file.fileno(), 8, prot=mmap.PROT_READ)
    true = session.now_of

    def now_of(opened: Session) -> datetime:
        return true(opened) + timedelta(seconds=struct.unpack("d", offset[:8])[0])

    session.now_of = now_of


if __name__ == "__main__":
    if clock := os.environ.get("CHAOS_CLOCK"):
        off_by(Path(clock))  # before anybody imports the name
    if mutant := os.environ.get("CHAOS_MUTANT"):
        from trials.chaos import mutants

        mutants.apply(mutant)
    from service.__main__ import main
    from service.maintenance import background

    assert __spec__ is not None
    background.ANALYSIS = (sys.executable, "-m", __spec__.name, "--role", "analysis")
    sys.exit(main())
