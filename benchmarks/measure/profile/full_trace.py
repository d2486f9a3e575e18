"""Steps of FULL in the kept trace: threads, copies, and what the loader's processes did meanwhile.

The profiler sees this process alone. What a loader process did comes with its batches, as times of
the clock that all processes share; the start of each step is known on that clock and in the trace.
"""

from __future__ import annotations

import gzip
import json
import os
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch._C._profiler import _ExperimentalConfig
from torch.profiler import schedule

from benchmarks.measure import batch_source, check_recipe, flags, loop
from benchmarks.measure.profile import recording
from benchmarks.measure.profile.ranges import named
from benchmarks.measure.profile.stamped import Stamp, Stamped
from benchmarks.measure.profile.timeline import STEP
from benchmarks.measure.trainer import Trainer
from benchmarks.workload import Recipe

LEAST_WARM_UP = 4
"""Steps before those that are recorded, or as many as there are loader processes."""
FULL, SYNTH = "FULL step", "SYNTH step"
"""Begin of the names of the ranges around each step, the pass first."""
LOADER = "loader"
"""Category of the ranges of loader processes."""

Events = list[dict[str, Any]]


@dataclass(frozen=True)
class _Recorded:
    """The trace of some steps, with times of the clock that all processes share."""

    events: Events
    steps_ns: Mapping[int, int]
    """When each step began, by the profiler's number of it."""
    stamps: Sequence[Stamp]
    """One for each batch, in the order of the steps, that of the first warm-up step first."""


def add(trainer: Trainer, seed: int, keep: Path, tell: Callable[[], None]) -> None:
    """Add steps of FULL to the trace of SYNTH's in the file ``keep``.

    A loader as FULL's feeds them, with its samples in the same order. It is another one: no timed
    batch was stamped. ``tell`` is called before each batch.
    """
    recorded = _record(trainer, seed, tell)
    document = recording.document_of(keep)
    synth: Events = document["traceEvents"]
    full = [*recorded.events, *_loader_ranges(recorded)]
    document["traceEvents"] = [*_steps(synth, SYNTH), *_steps(_apart(full, synth), FULL)]
    text = json.dumps(document).encode()
    keep.write_bytes(gzip.compress(text) if keep.suffix == ".gz" else text)


def _record(trainer: Trainer, seed: int, tell: Callable[[], None]) -> _Recorded:
    """Record as many steps as show one batch of each loader process at least.

    The loop is that of the timed passes. A pause lets the loader get ahead, so its queue is
    emptied before the steps; once more after them, for the batches that were made meanwhile.
    """
    plain = trainer.recipe
    recipe = replace(plain, dataset=Stamped(plain.dataset, batch_source.collate(plain)))
    workers = int(recipe.loader_options.get("num_workers", 0))
    before, count = max(LEAST_WARM_UP, workers), max(recording.ACTIVE, workers + 1)
    stamps: list[Stamp] = []
    steps_ns: dict[int, int] = {}
    with (
        closing(_unstamped(recipe, seed, stamps, tell)) as batches,
        tempfile.TemporaryDirectory(prefix="tl-") as folder,
        named(trainer) as ranges,
        flags.collector(trainer.recipe),
    ):
        path = Path(folder) / "full.json"
        next(batches)  # starts the loader
        with _profiler(trainer, before, count, path) as profiler:
            batch_source.empty_queue(recipe, batches)
            stamps.clear()

            def stepped() -> Iterator[Sequence[Tensor]]:
                for number, batch in enumerate(ranges.feed(batches)):
                    yield batch
                    profiler.step()
                    steps_ns[number + 1] = time.monotonic_ns()

            enough = before + count - loop.RUN_AHEAD
            loop.run(trainer, stepped(), lambda times: len(times.step) >= enough)
        batch_source.empty_queue(recipe, batches)
        return _Recorded(recording.events_of(path), steps_ns, stamps)


def _profiler(trainer: Trainer, before: int, count: int, path: Path) -> torch.profiler.profile:
    """Make the profiler of all threads of this process, such as that which pins batches."""
    return torch.profiler.profile(
        activities=recording.activities(trainer.device),
        schedule=schedule(wait=before - 2, warmup=2, active=count, repeat=1),
        on_trace_ready=lambda ready: ready.export_chrome_trace(str(path)),
        experimental_config=_ExperimentalConfig(profile_all_threads=True),
    )


def _unstamped(
    recipe: Recipe, seed: int, stamps: list[Stamp], tell: Callable[[], None]
) -> Generator[Sequence[Tensor]]:
    """Yield the loader's batches; their stamps go into ``stamps``."""
    for batch, stamp in batch_source.loader(recipe, seed):
        tell()
        stamps.append(stamp)
        yield check_recipe.batch(batch, recipe.batch)


def _steps(events: Events, name: str) -> Events:
    """Add a range ``name 1`` and so on around each step, beside the profiler's own."""
    own = sorted(_own_steps(events).items())
    return [*({**event, "name": f"{name} {n}"} for n, (_, event) in enumerate(own, 1)), *events]


def _own_steps(events: Events) -> dict[int, dict[str, Any]]:
    """The profiler's ranges around the steps, by its numbers."""
    return {
        int(event["name"].removeprefix(STEP)): event
        for event in events
        if event.get("cat") == "user_annotation" and event["name"].startswith(STEP)
    }


def _apart(events: Events, others: Events) -> Events:
    """Give the arrows of ``events`` other numbers than those of ``others``."""
    most = max((int(e["id"]) for e in others if "id" in e), default=0) + 1
    return [{**e, "id": int(e["id"]) + most} if "id" in e else e for e in events]


def _loader_ranges(recorded: _Recorded) -> Iterator[dict[str, Any]]:
    """The reading and collating of each batch, on a track of its process; of those made meanwhile.

    Without loader processes they lie on the track of this process's main thread.
    """
    began = _own_steps(recorded.events)
    # The clock is read a moment after the range has begun, so the least delay is the truest.
    zero_us = max(float(began[n]["ts"]) - recorded.steps_ns[n] / 1e3 for n in began)
    first, last = min(began), max(began)
    from_us = float(began[first]["ts"])
    until_us = float(began[last]["ts"]) + float(began[last]["dur"])
    workers: dict[int, int] = {}
    for number, stamp in enumerate(recorded.stamps):
        times = [zero_us + at / 1e3 for at in (stamp.began_ns, stamp.read_ns, stamp.collated_ns)]
        if times[-1] < from_us or times[0] > until_us:
            continue
        if stamp.worker >= 0:
            workers[stamp.pid] = stamp.worker
        place = {"ph": "X", "cat": LOADER, "pid": stamp.pid, "tid": stamp.pid}
        told = {"args": {FULL: number - first + 1}}
        for name, start, end in zip(("read", "collate"), times, times[1:], strict=False):
            yield {**place, "name": name, "ts": start, "dur": end - start, **told}
    yield from _named(workers, from_us)


def _named(workers: Mapping[int, int], at_us: float) -> Iterable[dict[str, Any]]:
    """Name the tracks of loader processes, and put them below this process's own."""
    for pid, worker in workers.items():
        name, place = f"loader process {worker}", os.getpid() + 1 + worker
        told = {"process_name": {"name": name}, "process_sort_index": {"sort_index": place}}
        for what, args in told.items():
            yield {"ph": "M", "name": what, "ts": at_us, "pid": pid, "tid": pid, "args": args}
