"""Builds environments of torch one after another, so that a gate beside them shows their harm.

``PYTHONPATH=. python -m trials.gate.builds_beside SECONDS`` packs the torch that is installed here
once, and then builds an environment of it again and again, each in an empty folder, until that
time is over. It prints the seconds of each build.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from trials.gate.versions import offered
from trials.live_service import throughline


def main() -> None:
    """Build until the time is over."""
    until_s = time.monotonic() + float(sys.argv[1])
    with TemporaryDirectory() as name:
        [version], settings = offered(Path(name), ["one"])
        print("packed", flush=True)
        while time.monotonic() < until_s:
            _build(version, settings)


def _build(version: str, settings: Mapping[str, str]) -> None:
    with TemporaryDirectory() as state:
        from_s = time.monotonic()
        words = ["worker", "build", version]
        made = throughline(words, Path(state), THROUGHLINE_STATE_DIR=state, **settings)
        print(f"{time.monotonic() - from_s:.1f} s", made.stderr[-300:], flush=True)


if __name__ == "__main__":
    main()
