"""Measures gangs, launch by launch, and writes a row for each.

``PYTHONPATH=. python -m trials.gangs FILE [NAME ...] --launches 5 --until 500`` measures what
`SUBJECTS` lists, in turn, through ``throughline bench``. A launch measures the gang and one of its
GPUs alone, or with an account all its parts. ``--table`` prints a FILE's intervals.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.contracts import Protocol, Result
from service.analysis.summary import summarise_values

SHORT = Protocol(warmup_min_s=2.0, window_min_s=2.0, window_max_s=4.0, settle_max_s=0.0)
"""Launches are what an interval is of, so each is short."""
NANOGPT = "nanogpt precision=bf16 optimizer=fused pinning=on workers=2"
COMPILED = f"{NANOGPT} compile=default"
IMAGES = "precision=bf16 layout=channels_last optimizer=fused pinning=on compile=default workers=8"
RESNET50, UNET = f"resnet50 decode=cache {IMAGES}", f"unet {IMAGES}"
DDP = "gpus=2 parallel=ddp"


class Subject(NamedTuple):
    """A case; with ``account`` its launches measure every part of it."""

    words: str
    account: bool = False
    launches: int | None = None
    """Fewer than the others have."""


SUBJECTS = {
    "tiny": Subject(f"nanogpt {DDP}"),
    "account": Subject(f"{COMPILED} {DDP}", account=True),
    "nanogpt": Subject(f"{COMPILED} {DDP}"),
    "nanogpt-64": Subject(f"{COMPILED} {DDP} batch=64"),
    "nanogpt-strong": Subject(f"{COMPILED} {DDP} scaling=strong"),
    "resnet50": Subject(f"{RESNET50} {DDP}"),
    "resnet50-strong": Subject(f"{RESNET50} {DDP} scaling=strong"),
    "unet": Subject(f"{UNET} {DDP}"),
    "unet-strong": Subject(f"{UNET} {DDP} scaling=strong"),
    "fsdp2": Subject(f"{COMPILED} gpus=2 parallel=fsdp2", launches=2),
    "fsdp2-kept": Subject(f"{COMPILED} gpus=2 parallel=fsdp2 reshard=off", launches=2),
    "tp": Subject(f"{NANOGPT} gpus=2 parallel=tp", launches=2),
    "pp": Subject(f"{NANOGPT} gpus=2 parallel=pp", launches=2),
    "wrapped": Subject(f"{COMPILED} parallel=ddp"),
    "plain": Subject(COMPILED),
    "four": Subject(f"{COMPILED} gpus=4 parallel=ddp"),
}


def main() -> None:
    """Measure until every launch is made, or the time is over."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help="by default all but tiny")
    parser.add_argument("--launches", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="number of the first launch")
    parser.add_argument("--until", type=float, default=float("inf"), help="no launch later, s")
    parser.add_argument("--device", help="cpu, for a trial of this trial")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if options.table:
        rows = map(json.loads, options.file.read_text(encoding="utf-8").splitlines())
        print("\n".join(table(list(rows))))
        return
    for name, launch in launches(options):
        row = measured(name, launch, options.device)
        with options.file.open("a", encoding="utf-8") as out:
            out.write(json.dumps(row) + "\n")
        print(f"{name} {launch}: {row['status']} {row['reason']} {row['took_s']:.0f} s", flush=True)


def launches(options: argparse.Namespace) -> Iterator[tuple[str, int]]:
    """Give subjects and numbers of launches, every subject before any subject's next launch."""
    from_s = time.monotonic()
    names = options.names or [name for name in SUBJECTS if name != "tiny"]
    for launch in range(options.first, options.first + options.launches):
        for name in names:
            most = SUBJECTS[name].launches
            if most is not None and launch >= options.first + most:
                continue
            if time.monotonic() - from_s < options.until:
                yield name, launch


def measured(name: str, launch: int, device: str | None) -> dict[str, Any]:
    """Measure one launch, with its number as seed; return the row."""
    subject = SUBJECTS[name]
    words = [sys.executable, "-m", "cli", "bench", *subject.words.split(), "--json"]
    words += ["--seed", str(launch), "--replicates", "1"]
    words += ["--protocol", SHORT.model_dump_json(exclude_defaults=True)]
    words += ["--account"] if subject.account else []
    words += ["--device", device] if device else []
    from_s = time.monotonic()
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    took = {"name": name, "launch": launch, "took_s": round(time.monotonic() - from_s, 1)}
    try:
        result = Result.model_validate_json(done.stdout)
    except ValueError:
        return took | {"status": "none", "reason": done.stderr[-500:]}
    return took | _row(result)


def _row(result: Result) -> dict[str, Any]:
    told: dict[str, Any] = {
        "case": result.case.key,
        "status": result.status,
        "reason": result.reason,
        "measured_at": result.measured_at.isoformat(),
        "device": result.environment.facts.get("hw.gpu.name", "cpu"),
        "flags": result.flags,
        "startup": result.startup,
        "metrics": {one.metric: one.values[0] for one in result.samples},
    }
    if result.replicates:
        (replicate,) = result.replicates
        told["ranks"] = [one.model_dump() for one in replicate.synth.ranks]
        told["replicate"] = replicate.model_dump(
            mode="json", include={"account", "gang_trace"}, exclude_none=True
        )
    return told


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Give lines of Markdown: each subject's metrics with 95 % intervals over its launches."""
    by_name: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        if row["status"] == "ok":
            by_name[row["name"]].append(row)
    yield "| case | launches | throughput | scaling efficiency |"
    yield "| --- | --- | --- | --- |"
    for name, launched in by_name.items():
        told = [_interval(launched, metric) for metric in ("throughput", "scaling_efficiency")]
        yield f"| {name} | {len(launched)} | {' | '.join(told)} |"


def _interval(rows: list[dict[str, Any]], metric: str) -> str:
    values = [row["metrics"][metric] for row in rows if metric in row["metrics"]]
    if not values:
        return "-"
    told = summarise_values(values)
    half = "" if told.high is None else f" ± {(told.high - told.value) / told.value:.2%}"
    return f"{told.value:,.4g}{half}"


if __name__ == "__main__":
    main()
