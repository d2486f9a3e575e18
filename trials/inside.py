"""Measures on each GPU of this machine what is seen inside of a step, through the true path.

``PYTHONPATH=.:tests:docs/examples python -m trials.inside FOLDER [PLAN ...]`` starts a service and
a worker for each GPU, submits the jobs of the plans, and writes into FOLDER the results as JSON
lines and the service's database, which ``throughline serve`` shows. Whatever is done after
``--limit`` seconds is kept.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import time
import urllib.error
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.catalog.suites import LADDER, QUICK, suite
from benchmarks.contracts import Case, Protocol
from trials.live_service import here, post, service_and_workers
from trials.planted_waste import KINDS
from trials.stored_results import get, summaries, unfinished

PORT = 8797
URL = here(PORT)
MODELS = "wordmodel.bench,trials.planted_waste"
OWN = "wordmodel.bench:build"
WASTE = "trials.planted_waste:build"

INSIDE = LADDER.model_copy(update={"parity": False})
"""Short windows, phases and a profile."""
TRACED = INSIDE.model_copy(update={"trace": True})
CHECKED = QUICK.model_copy(update={"parity": True})
LONG = QUICK.model_copy(update={"long_parity": True})

NANOGPT = "nanogpt precision=bf16 optimizer=fused pinning=on workers=2"
COMPILED = f"{NANOGPT} compile=default"
DOCUMENTS = f"{NANOGPT} lengths=real"
RESNET = "resnet50 precision=bf16 layout=channels_last optimizer=fused pinning=on decode=cache"
DECODED = RESNET.replace("decode=cache", "decode=cpu")
UNET = "unet precision=bf16 layout=channels_last optimizer=fused pinning=on workers=16"

Job = tuple[str, Protocol]


def _each(words: Iterable[str], protocol: Protocol = QUICK) -> tuple[Job, ...]:
    return tuple((one, protocol) for one in words)


def _best() -> tuple[Job, ...]:
    """The last rung of each workload's ladder."""
    last = {case.workload: case for case in suite("ladder").cases}
    settings = {name: case.axes.items() for name, case in last.items()}
    named = (" ".join([name, *map("=".join, axes)]) for name, axes in settings.items())
    return _each(named, LONG)


PLANS: Mapping[str, tuple[Job, ...]] = {
    "long": _best(),
    "profiles": (
        (NANOGPT, TRACED),
        (COMPILED, TRACED),
        (f"{COMPILED} graphs=on", INSIDE),
        (f"{DECODED} workers=2", TRACED),
        (f"{DECODED} workers=8", INSIDE),
        (f"{RESNET} workers=8", INSIDE),
        (UNET, INSIDE),
    ),
    "dynamic": (
        *_each(f"{DOCUMENTS} compile=default dynamic={way}" for way in ("off", "on", "bucketed")),
        *_each(
            [
                f"{DOCUMENTS} dynamic=off",
                f"{DOCUMENTS} dynamic=on",
                f"{DOCUMENTS} dynamic=on allocator=expandable",
                f"{DOCUMENTS} dynamic=off compile=default graphs=on",
                f"{DOCUMENTS} dynamic=on compile=reduce-overhead",
                f"{DOCUMENTS} dynamic=bucketed compile=reduce-overhead",
                f"{DOCUMENTS} dynamic=off attention=flex compile=default",
            ]
        ),
        *_each(
            [DOCUMENTS.replace("bf16", "fp8") + " dynamic=bucketed compile=default"],
        ),
        (f"{DOCUMENTS} dynamic=bucketed compile=default batch=16", CHECKED),
    ),
    "resolutions": _each(
        f"{RESNET} workers=16 lengths=real dynamic={way} compile={mode}"
        for mode in ("off", "default")
        for way in ("off", "on", "bucketed")
    ),
    "sizes": (
        *_each(f"{COMPILED} batch=16 sequence={size}" for size in (128, 256, 512, 1024, 2048)),
        *_each(f"{UNET} compile=default width={size}" for size in (64, 128, 192, 256)),
        *_each(
            f"{RESNET} compile=default workers=16 resolution={side}" for side in (128, 224, 288)
        ),
        *_each([f"{NANOGPT} batch=fastest", f"{UNET} batch=fastest"]),
        *_each([f"{RESNET} workers=16 batch=fastest"]),
    ),
    "axes": (
        *_each((f"{NANOGPT} attention=math", f"{NANOGPT} gc=on", f"{UNET} gc=on"), CHECKED),
        *_each(
            [
                f"{DECODED} workers=16 prefetch_factor=4",
                f"{DECODED} workers=16",
                DECODED.replace("=cpu", "=cpu-uint8") + " workers=16",
                DECODED.replace("=cpu", "=gpu") + " workers=16",
                f"{DOCUMENTS} dynamic=on",
                f"{DOCUMENTS} dynamic=on allocator=split-128",
                f"{DOCUMENTS} dynamic=on allocator=split-512",
            ]
        ),
    ),
    "planted": (
        *((f"{WASTE} preset={kind}", INSIDE) for kind in KINDS),
        (f"{WASTE} preset=clean compile=default", INSIDE),
        (f"{WASTE} preset=break compile=default", INSIDE),
        (f"{WASTE} preset=fragments allocator=expandable", INSIDE),
    ),
    "kernels": (
        (f"{OWN} precision=bf16 pinning=on workers=2", QUICK),
        (f"{OWN} precision=bf16 pinning=on workers=2 kernel=triton", QUICK),
        (f"{OWN} precision=bf16 pinning=on workers=2 kernel=cuda", QUICK),
        (f"{OWN} kernel=triton", CHECKED),
        (f"{OWN} kernel=cuda", CHECKED),
    ),
}


def submit(jobs: Sequence[Job], revision: str) -> None:
    """Queue ``jobs``; the first one has the highest priority."""
    for number, (words, protocol) in enumerate(jobs):
        workload, *axes = words.split()
        chosen = dict(axis.split("=") for axis in axes)
        preset = chosen.pop("preset", "auto")
        case = Case(workload=workload, preset=preset, axes=chosen)
        spec = {
            "case": case.model_dump(mode="json"),
            "revision": revision,
            "protocol": protocol.model_dump(mode="json"),
            "priority": 100 - number,
            "timeout_s": 900.0,
        }
        try:
            post(f"{URL}/api/v1/jobs", spec)
        except urllib.error.HTTPError as refused:
            print(f"{words}: {refused.read().decode()}", flush=True)


def kept(folder: Path) -> Iterator[dict[str, Any]]:
    """Every stored result, oldest first."""
    for summary in sorted(summaries(URL), key=lambda one: str(one["measured_at"])):
        yield get(f"{URL}/api/v1/results/{summary['id']}")


def told(result: dict[str, Any]) -> str:
    """One line about a result."""
    case = result["result"]["case"]
    words = " ".join([case["workload"], *(f"{k}={v}" for k, v in sorted(case["axes"].items()))])
    passes = [(one.get("full") or one.get("synth") or {}) for one in result["result"]["replicates"]]
    rates = ", ".join(f"{one.get('rate', 0.0):,.0f}" for one in passes)
    return f"{result['result']['status']} {words}: {rates} {result['result']['reason']}"


def _worker(device: str) -> list[str]:
    """The options of the worker of a device."""
    return ["--name", f"gpu-{device.rpartition(':')[2]}", "--device", device]


def main() -> None:
    """Measure the plans that the command line names, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("plans", nargs="*", default=list(PLANS))
    parser.add_argument("--devices", default="cuda:0")
    parser.add_argument("--limit", type=float, default=540.0, help="seconds")
    parser.add_argument("--revision", default="inside")
    parser.add_argument("--resume", action="store_true", help="go on with what was submitted")
    arguments = parser.parse_args()
    until_s = time.monotonic() + arguments.limit
    folder: Path = arguments.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    settings = {"THROUGHLINE_MODELS": MODELS, "THROUGHLINE_CACHE_DIR": str(folder / "cache")}
    workers = [_worker(device) for device in arguments.devices.split(",")]
    with service_and_workers(folder, PORT, settings, workers):
        if not arguments.resume:
            submit([job for plan in arguments.plans for job in PLANS[plan]], arguments.revision)
        while unfinished(URL) and time.monotonic() < until_s:
            time.sleep(2.0)
        (folder / "best.json").write_text(json.dumps(get(f"{URL}/api/v1/best")), encoding="utf-8")
        with (folder / "results.jsonl").open("w", encoding="utf-8") as out:
            for result in kept(folder):
                out.write(json.dumps(result) + "\n")
                print(told(result), flush=True)
        source = sqlite3.connect(folder / "state" / "throughline.sqlite3")
        with sqlite3.connect(folder / "throughline.db") as copy:
            source.backup(copy)


if __name__ == "__main__":
    main()
