"""Runs the profiler: the only part of profiling that needs a device and a clock."""

from __future__ import annotations

import gzip
import json
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, schedule

from benchmarks.contracts import NeedlessCopy, Profile
from benchmarks.measure import compilation
from benchmarks.measure.conditions import allocator_retries, device_allocations
from benchmarks.measure.failures import first_line
from benchmarks.measure.profile import (
    copies,
    generated,
    memory_formats,
    origins,
    periodic,
    ranges,
    reading,
    snapshot,
    timeline,
)
from benchmarks.measure.profile.observation import Observation, Observer, note_implicit_waits
from benchmarks.measure.timestamps import drain
from benchmarks.measure.trainer import Trainer
from benchmarks.workload import Batch, Recipe

WAIT, WARM_UP, ACTIVE = 1, 2, 5
STEPS = WAIT + WARM_UP + ACTIVE
REFUSED = (
    "The driver recorded no kernel: profiling is not permitted here "
    "(NVreg_RestrictProfilingToAdminUsers, or a container without the capability)."
)


def profile(trainer: Trainer, ring: Sequence[Batch], keep: Path | None = None) -> Profile:
    """Profile a few steps in steady state over batches on the device; absent with its reason if it
    fails.

    The trace goes into the file ``keep``, gzipped if its name ends in ``.gz``. Its memory is
    recorded last.
    """
    profiled = _profiled(trainer, ring, keep)
    try:
        return profiled.model_copy(update={"memory": snapshot.memory(trainer, ring)})
    except Exception as error:  # such as an allocator without a history
        return noted(profiled, "The memory of a step could not be recorded", error)


def _profiled(trainer: Trainer, ring: Sequence[Batch], keep: Path | None) -> Profile:
    retries = allocator_retries(trainer.device)
    try:
        steady, allocations = _timed(trainer, ring, keep)
        if trainer.device.type == "cuda" and not steady.on_gpu:
            return Profile(absent=REFUSED)
        profiled = reading.read(steady)
    except Exception as error:  # a profile is worth no measurement: whatever fails, is told
        return Profile(absent=sentence("The profile could not be taken", error))
    update: dict[str, Any] = {
        "allocator_retries": allocator_retries(trainer.device) - retries,
        "device_allocations": allocations / ACTIVE,
        "fragmentation": _fragmentation(trainer.device),
    }
    if steady.graphed:
        update["notes"] = ("A CUDA graph was launched: its kernels name no operator.",)
    profiled = profiled.model_copy(update=update)
    return _observed(profiled, steady, trainer, ring)


def _observed(
    profiled: Profile, steady: timeline.Timeline, trainer: Trainer, ring: Sequence[Batch]
) -> Profile:
    """``profiled`` with lines, demands and waits, which one eager step tells."""
    try:
        known, observation = observe(trainer, ring)
    except Exception as error:  # such as too little memory for an eager step
        return noted(profiled, "The eager step could not be watched", error)
    demands, waits = observation.stored()
    traffic: dict[str, generated.Traffic] = {}
    try:
        traffic = _generated(trainer, ring)
    except Exception as error:  # such as too little memory beside a graph's
        profiled = noted(profiled, "The compiled kernels could not be watched", error)
    operations = reading.read(steady, known, traffic).operations
    update: dict[str, Any] = {"operations": operations, "demands": demands}
    update |= {"synchronizations": waits, "notes": (*profiled.notes, *observation.notes)}
    if not compilation.graphs() and profiled.step_s is not None:
        least_s = copies.LEAST * profiled.step_s
        worst = [copy for copy in observation.copies if copy.self_s >= least_s]
        update["copies"] = tuple(worst[: copies.MOST])
    return profiled.model_copy(update=update)


def noted(profiled: Profile, what: str, error: Exception) -> Profile:
    """``profiled`` with a note of what failed and why."""
    return profiled.model_copy(update={"notes": (*profiled.notes, sentence(what, error))})


def eager(recipe: Recipe) -> Recipe:
    """``recipe`` as a plain step over the same model.

    Without compilation and graphs, which hide operations. Without checkpointing and fp8, which have
    changed the model already and would change it again.
    """
    return replace(recipe, compile_options=None, graphs=False, checkpointing=False, float8=False)


def observe(trainer: Trainer, ring: Sequence[Batch]) -> tuple[origins.Origins, Observation]:
    """Watch one eager step: where each operation comes from, and what the step asks for."""
    watched = Trainer(eager(trainer.recipe), trainer.device)
    with tuned_before(trainer.recipe):
        return _watched(watched, ring)


@contextmanager
def tuned_before(recipe: Recipe) -> Iterator[None]:
    """Let cuDNN benchmark its algorithms only if the timed step did so as well.

    A compiler may have laid out the convolutions differently. Benchmarking the eager ones took 50
    seconds for the U-Net on an H200, and the step's demands do not depend on it.
    """
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = before and recipe.compile_options is None
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


def _watched(watched: Trainer, ring: Sequence[Batch]) -> tuple[origins.Origins, Observation]:
    batch, observer = ring[0], Observer(watched.device)
    watched.step(batch)  # allocates the optimizer's state, and tunes

    def observed() -> None:
        with observer:
            watched.step(batch)

    work = origins.by_call(timeline.read(traced(watched.device, observed)))
    observer.observed.copies = _copies(observer, work)
    step = partial(watched.step, batch)
    note_implicit_waits(watched.device, (step, step), observer.observed)
    periodic.watch(watched, ring, observer.observed)
    return origins.joined(observer.calls, work), observer.observed


def _copies(
    observer: Observer, work: Mapping[int, Sequence[timeline.DeviceSpan]]
) -> tuple[NeedlessCopy, ...]:
    seconds = {number: sum(item.self_s for item in items) for number, items in work.items()}
    found = [
        *observer.copies.needless(seconds),
        *memory_formats.copies(observer.calls, work),
    ]
    return tuple(sorted(found, key=lambda copy: -copy.self_s))


def _generated(trainer: Trainer, ring: Sequence[Batch]) -> dict[str, generated.Traffic]:
    """The traffic of a compiled step's kernels, from one more step that records shapes.

    The launch of a CUDA graph records none: the same kernels are launched one by one instead.
    """
    if trainer.device.type != "cuda" or trainer.recipe.compile_options is None:
        return {}
    if one_by_one := launched(trainer.recipe):
        trainer = Trainer(one_by_one, trainer.device)
        trainer.step(ring[0])  # compiles, mostly out of the compiler's cache
    step = partial(trainer.step, ring[0])
    events = traced(trainer.device, step, shapes=True)
    return generated.traffic(events, compilation.arguments())


def launched(recipe: Recipe) -> Recipe | None:
    """``recipe`` without its CUDA graphs, over the same compiled model; None if it has none.

    ``max-autotune`` has some too, and is left out: to compile it anew may take minutes.
    """
    options = dict(recipe.compile_options or {})
    if not recipe.graphs and options.get("mode") != "reduce-overhead":
        return None
    if options.get("mode") == "reduce-overhead":
        options["mode"] = "default"
    return replace(recipe, compile_options=options, graphs=False, checkpointing=False, float8=False)


def traced(
    device: torch.device, steps: Callable[[], object], *, shapes: bool = False
) -> list[dict[str, Any]]:
    """Return the trace events of ``steps`` and of all work that they queue."""
    with tempfile.TemporaryDirectory(prefix="tl-") as folder:
        path = Path(folder) / "trace.json"
        with (
            _without_advice(),
            torch.profiler.profile(activities=activities(device), record_shapes=shapes) as profiler,
        ):
            steps()
            drain(device)
        profiler.export_chrome_trace(str(path))
        return events_of(path)


def _timed(
    trainer: Trainer, ring: Sequence[Batch], keep: Path | None
) -> tuple[timeline.Timeline, int]:
    """A few profiled steps of the step as it is timed: no stacks, no shapes.

    Also returns how often the allocator turned to the driver in them.
    """
    plan = schedule(wait=WAIT, warmup=WARM_UP, active=ACTIVE, repeat=1)
    before = 0
    with tempfile.TemporaryDirectory(prefix="tl-") as folder:
        path = keep or Path(folder) / "trace.json"
        with (
            _without_advice(),
            ranges.named(trainer) as named,
            torch.profiler.profile(
                activities=activities(trainer.device),
                schedule=plan,
                on_trace_ready=lambda ready: ready.export_chrome_trace(str(path)),
            ) as profiler,
        ):
            feed = named.feed(cycle(ring))
            for number in range(STEPS):
                if number == WAIT + WARM_UP:
                    before = device_allocations(trainer.device)
                trainer.step(trainer.place(next(feed)))
                if number == STEPS - 1:
                    drain(trainer.device)  # what is still queued belongs to the trace
                profiler.step()
        return timeline.read(events_of(path)), device_allocations(trainer.device) - before


@contextmanager
def _without_advice() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*Profiler clears events")
        yield


def activities(device: torch.device) -> list[ProfilerActivity]:
    """Return what the profiler has to record on ``device``."""
    gpu = [ProfilerActivity.CUDA] if device.type == "cuda" else []
    return [ProfilerActivity.CPU, *gpu]


def document_of(path: Path) -> dict[str, Any]:
    """Read a trace in a file."""
    with closing(gzip.open(path) if path.suffix == ".gz" else path.open("rb")) as file:
        document: dict[str, Any] = json.load(file)
    return document


def events_of(path: Path) -> list[dict[str, Any]]:
    """Read the events of a trace in a file."""
    events: list[dict[str, Any]] = document_of(path)["traceEvents"]
    return events


def _fragmentation(device: torch.device) -> float | None:
    if device.type != "cuda":
        return None
    stats = torch.cuda.memory_stats(device)
    reserved = stats["reserved_bytes.all.current"]
    return stats["inactive_split_bytes.all.current"] / reserved if reserved else None


def sentence(what: str, error: Exception) -> str:
    """Say what failed and why, in one line."""
    return f"{what}: {type(error).__name__}: {first_line(str(error))}"[:400]
