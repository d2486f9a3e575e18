"""Bisects 24 commits of a copy of nanoGPT on this machine's device, builds included.

``PYTHONPATH=.:tests python -m trials.bisection.live FILE`` makes a repository whose commit 13
copies memory in each step, for 1.5 % of its time. A service and a worker that builds commits run
beside it, and ``throughline bisect`` searches the range in a checkout. One line with the answer and
its seconds is appended to FILE. ``CUDA_VISIBLE_DEVICES`` chooses the device.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from builders.repository import git

from benchmarks.contracts import Result
from trials.agreement.planted import Kind
from trials.agreement.record import work_rate
from trials.live_service import here, service_and_workers, throughline

ROOT = Path(__file__).parents[2]
COMMITS, CULPRIT, MORE = 24, 13, 0.015
MODEL = "nanocopy.bench"
AXES = "precision=bf16 optimizer=fused pinning=on workers=2"
AFTER = '''

COPIED_B = {copied}
"""Bytes that each step copies, and nobody reads."""
_loss, _buffers = loss, {{}}


def loss(model, batch):
    """The same loss, after some copies."""
    device = batch[0].device
    if device not in _buffers:
        pieces = [torch.empty({piece}, dtype=torch.uint8, device=device) for _ in range(2)]
        _buffers[device] = pieces
    for _ in range(COPIED_B // {piece}):
        _buffers[device][0].copy_(_buffers[device][1])
    return _loss(model, batch)
'''
PIECE_B = 8 * 2**20


def main() -> None:
    """Measure the step, plant, bisect, and append the answer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--port", type=int, default=8795)
    parser.add_argument("--axes", default=AXES)
    parser.add_argument("--preset", default="full")
    parser.add_argument("--processes", type=int, default=80)
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        row = bisected(Path(folder), options)
    with options.file.open("a", encoding="utf-8") as out:
        out.write(json.dumps(row) + "\n")


def bisected(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Bisect a repository made within ``folder``; says what was planted, told and how long."""
    checkout = folder / "checkout"
    commits = repository(checkout, 0)
    step_s = _step_s(checkout, options)
    copied = round(MORE * step_s * work_rate(Kind.COPIES) / PIECE_B) * PIECE_B
    shutil.rmtree(checkout)
    commits = repository(checkout, copied)
    print(f"a step takes {1e3 * step_s:.2f} ms; planted {copied / 2**20:.0f} MiB", flush=True)
    targets = folder / "targets.toml"
    targets.write_text(f'[targets.nanocopy]\ngit = "{checkout}"\n', encoding="utf-8")
    settings = {"THROUGHLINE_TARGETS": str(targets), "THROUGHLINE_MODELS": MODEL}
    with service_and_workers(folder, options.port, settings):
        words = ["bisect", f"{commits[0]}..{commits[-1]}", f"{MODEL}:build", *options.axes.split()]
        words += ["--preset", options.preset, "--processes", str(options.processes)]
        from_s = time.monotonic()
        run = throughline([*words, "--url", here(options.port), "--json"], checkout)
        took_s = time.monotonic() - from_s
    print(run.stderr[-2000:], file=sys.stderr)
    view = json.loads(run.stdout)
    print(f"{view['sentence']} ({took_s:.0f} s, exit code {run.returncode})", flush=True)
    facts = {"step_s": step_s, "copied_b": copied, "culprit": commits[CULPRIT], "took_s": took_s}
    return facts | {"exit_code": run.returncode, "bisection": view}


def repository(place: Path, copied: int) -> Sequence[str]:
    """Make a repository at ``place``: a copy of nanoGPT, and ``COMMITS`` commits after the first.

    Returns their ids, the first one's first.
    """
    package = place / "nanocopy"
    package.mkdir(parents=True)
    git(place, "init", "--quiet", "--initial-branch=main")
    text = (ROOT / "benchmarks" / "workloads" / "nanogpt.py").read_text(encoding="utf-8")
    (package / "__init__.py").touch()
    ids = []
    for number in range(COMMITS + 1):
        after = AFTER.format(copied=copied if number >= CULPRIT else 0, piece=PIECE_B)
        code = f"{text}{after}\nREVISION = {number}\n"
        (package / "bench.py").write_text(code, encoding="utf-8")
        git(place, "add", "--all")
        git(place, "commit", "--quiet", "--message", f"Change number {number}")
        ids.append(git(place, "rev-parse", "HEAD"))
    return ids


def _step_s(checkout: Path, options: argparse.Namespace) -> float:
    words = ["bench", f"{MODEL}:build", *options.axes.split(), "--preset", options.preset, "--json"]
    result = Result.model_validate_json(throughline(words, checkout).stdout)
    for replicate in result.replicates:
        if replicate.full:
            return replicate.full.p50_s
    raise SystemExit(f"The copy cannot be measured: {result.reason}")


if __name__ == "__main__":
    main()
