"""Children that measure the examples of the documents, or a project of a test."""

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.contracts import Result

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
BRIEF = {
    "warmup_min_steps": 4,
    "warmup_min_s": 0.05,
    "warmup_max_steps": 12,
    "window_min_s": 0.1,
    "window_min_steps": 4,
    "window_min_blocks": 2,
    "window_max_s": 0.5,
    "block_min_steps": 2,
    "block_min_s": 0.01,
    "settle_max_s": 0.0,
}


def run(
    cache: Path, *words: str, at: Path = EXAMPLES, device: str = "cpu"
) -> subprocess.CompletedProcess[str]:
    """A child, started in ``at``, which it does not look into by itself, as under a worker."""
    root = str(Path(__file__).parents[2])
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH", ""))))
    return subprocess.run(
        [sys.executable, "-m", *words, "--device", device],
        env={
            **os.environ,
            "THROUGHLINE_CACHE_DIR": str(cache),
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": path,
            "PYTHONSAFEPATH": "1",
        },
        cwd=at,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def result_of(finished: subprocess.CompletedProcess[str]) -> Result:
    """The result that a child printed last."""
    assert finished.returncode in (0, 1), finished.stderr
    return Result.model_validate_json(finished.stdout.splitlines()[-1])
