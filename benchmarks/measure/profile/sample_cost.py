"""The cost of a sample: the same ones fetched warm, cold, and in several threads.

A process does it that is forked as the loader's are, so that whatever a data set does there, such
as dying in a thread, leaves the measured process alone.
"""

from __future__ import annotations

import itertools
import math
import multiprocessing
import os
import stat
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import default_collate

from benchmarks.contracts import Input, line
from benchmarks.cpus import usable_cpus
from benchmarks.measure import batch_source
from benchmarks.measure.timestamps import drain
from benchmarks.measure.trainer import Trainer
from benchmarks.workload import Batch, Recipe

ROUNDS = 3
FIRST_S = 0.25
"""Length of the first fetch, which decides how many samples there are."""
FEWEST, MOST = 8, 256
"""Samples."""
COLD_S = 1.0
"""The most that a later round takes: a cold one may be slow."""
STEPS = 3
ORDER = 2**31 - 1
"""Seed of the samples' order: another than the loader's, which has just read its own first ones."""
MOST_AT_ONCE = 8
"""Samples of a piece of a data set that gives several at once."""
MOST_FILE_B = 2**26
"""Pages of a larger file are not dropped: others may need them, and no sample reads it all."""
READERS = 8
"""Files that are read at once for the disk's rate: loader processes, and each reads ahead."""
REACHED = 0.1
"""Share of the bytes that must come from the disk, or dropping the pages had no effect."""
THREADS = 4
LIMIT_S = 20.0
"""A process that has not told by then is ended."""
_SLOW = f"The process that fetched samples took more than {LIMIT_S:.0f} s."
_IO = Path("/proc/self/io")


@dataclass(frozen=True)
class Round:
    """The samples fetched once; in means per sample but for ``wall_s``, which is of each piece."""

    wall_s: tuple[float, ...]
    cpu_s: float
    asked_b: float
    """Bytes asked of files."""
    disk_b: float
    """Bytes that came from the disk."""


def measure(trainer: Trainer, ring: Sequence[Batch]) -> Input:
    """Fetch samples of the trainer's data set; ``ring`` are batches on the device."""
    context = multiprocessing.get_context("fork")  # as loader processes are
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_fetch_and_tell, args=(theirs, trainer.recipe), daemon=True)
    child.start()
    theirs.close()
    try:
        cost: Input = ours.recv() if ours.poll(LIMIT_S) else Input(absent=_SLOW)
    except EOFError:
        cost = Input(absent="The process that fetched samples died.")
    finally:
        child.kill()
        child.join()
        ours.close()
    return cost.model_copy(update={"step_cpu_s": _step_cpu_s(trainer, ring)})


def _fetch_and_tell(pipe: Connection, recipe: Recipe) -> None:
    torch.set_num_threads(1)  # as loader processes do
    try:
        pipe.send(_cost(recipe))
    except Exception as error:  # it is the user's code, which need not run in threads
        pipe.send(Input(absent=line(f"No sample could be fetched: {type(error).__name__}.")))


def _cost(recipe: Recipe) -> Input:
    pieces, fetch = _pieces(recipe)
    first = _fetched(fetch, pieces, FIRST_S)
    pieces, files = _with_files(fetch, pieces[: len(first.wall_s)])
    size = len(pieces[0])
    pairs = [_pair(fetch, pieces, files) for _ in range(ROUNDS)]
    warm = min((warm for _, warm in pairs), key=lambda one: statistics.fmean(one.wall_s))
    fetch_s = statistics.fmean(warm.wall_s) / size
    cpus = usable_cpus()
    threads = min(THREADS, cpus)
    return Input(
        samples=size * len(pieces),
        batch=recipe.batch,
        workers=int(recipe.loader_options.get("num_workers", 0)),
        cpus=cpus,
        fetch_s=fetch_s,
        cpu_s=min(warm.cpu_s, fetch_s),
        threads=threads,
        threads_speedup=_threads_speedup(fetch, pieces, threads),
        collate_s=_collate_s(recipe, [one for piece in pieces for one in fetch(piece)]),
        read_b=warm.asked_b,
        missed_b=first.disk_b,
        **_disk(pairs, files, size),
    )


def _pieces(recipe: Recipe) -> tuple[list[list[int]], Callable[[list[int]], Sequence[Any]]]:
    """Indices in pieces that are fetched at once, and what fetches a piece."""
    data: Any = recipe.dataset
    whole = getattr(data, "__getitems__", None)  # then the loader hands it a batch's indices
    size = min(recipe.batch, MOST_AT_ONCE) if whole else 1
    order = iter(batch_source.EndlessShuffle(len(data), ORDER))
    count = min(MOST, max(len(data), size))
    pieces = [list(itertools.islice(order, size)) for _ in range(max(1, count // size))]
    return pieces, whole or (lambda piece: [data[index] for index in piece])


def _fetched(
    fetch: Callable[[list[int]], object], pieces: Sequence[list[int]], limit_s: float
) -> Round:
    """Fetch the ``pieces`` until ``limit_s`` have passed, one at least."""
    wall_s: list[float] = []
    asked_b, disk_b = _bytes()
    cpu_from, end_s = time.process_time(), time.perf_counter() + limit_s
    for piece in pieces:
        from_s = time.perf_counter()
        fetch(piece)
        wall_s.append(time.perf_counter() - from_s)
        if from_s + wall_s[-1] > end_s:
            break
    cpu_s, (asked_to, disk_to) = time.process_time() - cpu_from, _bytes()
    samples = len(wall_s) * len(pieces[0])
    return Round(
        tuple(wall_s),
        cpu_s / samples,
        (asked_to - asked_b) / samples,
        (disk_to - disk_b) / samples,
    )


def _pair(
    fetch: Callable[[list[int]], object], pieces: Sequence[list[int]], files: Sequence[str]
) -> tuple[Round, Round]:
    """Fetch cold and then warm, one right after the other, so that both find the same machine."""
    _drop(files)
    return _fetched(fetch, pieces, COLD_S), _fetched(fetch, pieces, COLD_S)


def _disk(pairs: Sequence[tuple[Round, Round]], files: Sequence[str], size: int) -> dict[str, Any]:
    """The disk's part of a cold sample, or why it is not known."""
    if not files:
        return {"absent": "Cold reads were not measured: Python opens no file for a sample alone."}
    asked_b = max(warm.asked_b for _, warm in pairs)
    disk_b = statistics.median(cold.disk_b for cold, _ in pairs)
    if disk_b <= REACHED * asked_b:
        return {
            "absent": "Cold reads were not measured: the files' pages could not be dropped from "
            "memory, or there is no disk behind them."
        }
    slower_s = statistics.median(_slower_s(cold, warm) for cold, warm in pairs)
    share = len(pairs[0][0].wall_s) / len(pairs[0][1].wall_s)
    read = files[: max(1, round(share * len(files)))]
    return {
        "disk_s": max(0.0, slower_s / size),
        "disk_b": disk_b,
        "disk_b_per_s": _disk_rate(read, round(disk_b * size)),
    }


def _slower_s(cold: Round, warm: Round) -> float:
    both = zip(cold.wall_s, warm.wall_s, strict=False)  # a slow disk ends the cold round early
    return statistics.fmean(late - early for late, early in both)


def _disk_rate(files: Sequence[str], most_b: int) -> float | None:
    """Bytes per second that `READERS` get from the disk together, ``most_b`` of each file."""

    def read(path: str) -> None:
        with Path(path).open("rb") as file:
            file.read(most_b)

    _drop(files)
    (_, from_b), from_s = _bytes(), time.perf_counter()
    with ThreadPoolExecutor(READERS) as pool:
        for _ in pool.map(read, files):
            pass
    took_s, (_, to_b) = time.perf_counter() - from_s, _bytes()
    return (to_b - from_b) / took_s if to_b > from_b else None


def _drop(files: Sequence[str]) -> None:
    """Drop the pages of ``files`` from the page cache; those not yet written stay, so write them.

    Whoever reads the files at the same time finds them as before, only later.
    """
    for path in files:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            with suppress(OSError):  # a file system that is only read may know no writing
                os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def _bytes() -> tuple[int, int]:
    """Bytes that this process asked of files, and that came from a disk; zeros if not counted."""
    try:
        counters = dict(row.split(": ") for row in _IO.read_text(encoding="ascii").splitlines())
        return int(counters["rchar"]), int(counters["read_bytes"])
    except (OSError, KeyError, ValueError):
        return 0, 0


def _with_files(
    fetch: Callable[[list[int]], object], pieces: list[list[int]]
) -> tuple[list[list[int]], tuple[str, ...]]:
    """The pieces for which Python opens a file that no earlier one did, and the files.

    All pieces and no file, where only a few do: the samples share their files.
    """
    found: dict[str, None] = {}
    over: list[bool] = []

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and not over:
            path, _, flags = arguments
            if isinstance(path, str | bytes) and flags & os.O_ACCMODE == os.O_RDONLY:
                found[os.fsdecode(path)] = None

    sys.addaudithook(note)  # for good, in a process that soon ends
    counts = [0]
    for piece in pieces:
        fetch(piece)
        counts.append(len(found))
    over.append(True)
    fresh = [
        piece
        for piece, pair in zip(pieces, itertools.pairwise(counts), strict=True)
        if pair[0] < pair[1]
    ]
    if len(fresh) < FEWEST:
        return pieces, ()
    return fresh, tuple(filter(_may_be_dropped, found))


def _may_be_dropped(path: str) -> bool:
    """Return True of a small file with content, unlike those that the kernel makes up."""
    try:
        status = Path(path).stat()
    except OSError:  # it was for a moment
        return False
    return stat.S_ISREG(status.st_mode) and 0 < status.st_size <= MOST_FILE_B


def _threads_speedup(
    fetch: Callable[[list[int]], object], pieces: list[list[int]], threads: int
) -> float | None:
    """Rate of several threads over that of one, the median of three; None with one processor."""
    if threads < 2:
        return None
    ratios = []
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(ROUNDS):  # one right after the other, so that both find the same machine
            alone = _fetched(fetch, pieces, FIRST_S)
            again = pieces[: len(alone.wall_s)]
            from_s = time.perf_counter()
            for _ in pool.map(lambda part: _fetched(fetch, part, math.inf), [again] * threads):
                pass
            took_s = time.perf_counter() - from_s
            ratios.append(threads * sum(alone.wall_s) / took_s)
    return statistics.median(ratios)


def _collate_s(recipe: Recipe, samples: Sequence[Any]) -> float:
    """Seconds to make a batch, for each of its samples."""
    collate = batch_source.collate(recipe, planned=False) or default_collate
    batch = list(itertools.islice(itertools.cycle(samples), recipe.batch))
    took_s = []
    for _ in range(ROUNDS):
        from_s = time.perf_counter()
        collate(batch)
        took_s.append(time.perf_counter() - from_s)
    return min(took_s) / recipe.batch


def _step_cpu_s(trainer: Trainer, ring: Sequence[Batch]) -> float:
    """Processor seconds of this process per step, with batches at hand."""
    steps = max(STEPS, trainer.recipe.cycle)
    feed = itertools.cycle(ring)
    from_s = time.process_time()
    for batch in itertools.islice(feed, steps):
        trainer.step(trainer.place(batch))
    drain(trainer.device)
    return (time.process_time() - from_s) / steps
