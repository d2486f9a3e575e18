"""The search for the batch with the highest throughput, before the measurement: ``batch=fastest``.

Doublings are timed, from the power of two at or below the preset's batch until one does not fit,
then halvings until they are far slower, then the half between the largest that fits and its double.
Trials are eager, as those of ``batch=auto``, and each takes about a second, or five steps; none
begins after `SEARCH_S`. The rates are
kept in the cache folder, so that all processes of a case measure the same batch.
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import torch
from pydantic import TypeAdapter

from benchmarks.catalog.catalog import Refused
from benchmarks.contracts import TriedBatch
from benchmarks.data.cache import keep
from benchmarks.measure import batch_search, conditions, flex
from benchmarks.workload import Recipe

SEARCH_S = 60.0
"""No trial begins later than this."""
CLEARLY = 0.01
"""A larger batch must be faster by so much: it costs memory, and trains differently."""
FAR = 0.8
"""A batch with less than this share of the best rate ends the halvings: smaller ones are slower."""
BLOCKS, BLOCK_S = 3, 0.2
"""A trial's step time is the median over blocks of at least so many seconds."""
_KEPT = TypeAdapter(tuple[TriedBatch, ...])

Trial = Callable[[int], TriedBatch | None]
"""Times a batch; None if it does not fit."""


def settled(
    recipe: Recipe, device: torch.device, seed: int, kept: Path
) -> tuple[Recipe, tuple[TriedBatch, ...]]:
    """``recipe`` with the fastest batch if it asks for that, and the batches that were tried.

    ``kept`` is the file that keeps them.

    Raises:
        MemoryError: no batch fits.
        Refused: samples differ in length.
    """
    if not recipe.fastest_batch:
        return recipe, ()
    if recipe.cycle > 1:
        raise Refused(
            "batch=fastest times batches of one length, and with lengths=real each has its own: "
            "choose a batch by number."
        )
    tried: tuple[TriedBatch, ...] = ()
    with suppress(OSError, ValueError):
        tried = _KEPT.validate_json(kept.read_bytes())
    if not tried:
        tried = _tried(recipe, device, seed)
        keep(kept, _KEPT.dump_json(tried))
    return replace(recipe, batch=chosen(tried), fastest_batch=False), tried


def chosen(tried: Sequence[TriedBatch]) -> int:
    """The smallest batch that no other one beats by more than `CLEARLY`."""
    best = max(one.rate for one in tried)
    return min(one.batch for one in tried if one.rate * (1 + CLEARLY) >= best)


def search(trial: Trial, start: int, parts: int, is_over: Callable[[], bool]) -> list[TriedBatch]:
    """Batches that fit, with their rates, ascending.

    Args:
        trial: times one batch.
        start: the usual batch, near which the search begins.
        parts: divides each batch that is tried.
        is_over: says that no further trial may begin.
    """
    usual = max(0, (start // parts).bit_length() - 1)
    tried: list[TriedBatch] = []
    too_large = False
    for batch in (parts << k for k in range(usual, batch_search.MOST.bit_length())):
        if batch > batch_search.MOST or (tried and is_over()):
            break
        if (one := trial(batch)) is None:
            too_large = True
            break
        tried.append(one)
    for batch in (parts << k for k in range(usual - 1, -1, -1)):
        if tried and (is_over() or tried[0].rate < FAR * max(one.rate for one in tried)):
            break
        if (one := trial(batch)) is not None:
            tried.insert(0, one)
    if too_large and tried and not is_over():
        between = tried[-1].batch * 3 // 2
        whole = between > tried[-1].batch and between % parts == 0
        if whole and (one := trial(between)) is not None:
            tried.append(one)
    return tried


def _tried(recipe: Recipe, device: torch.device, seed: int) -> tuple[TriedBatch, ...]:
    until_s = time.monotonic() + SEARCH_S
    eager, sample = batch_search.prepared(recipe)

    def trial(batch: int) -> TriedBatch | None:
        conditions.reset_peak(device)
        sized, filled = replace(eager, batch=batch), batch_search.filled(sample, batch)
        step_s = batch_search.trial(sized, device, filled, seed, _step_s)
        flex.forget_shapes()
        if step_s is None:
            sys.stderr.write(f"A batch of {batch} does not fit.\n")
            return None
        rate = batch * recipe.items_per_sample / step_s
        sys.stderr.write(f"A batch of {batch}: {rate:,.0f} items/s.\n")
        peak_b = conditions.peak_memory(device)[0]
        return TriedBatch(batch=batch, rate=rate, peak_memory_b=peak_b)

    with batch_search.share(device):
        is_over = lambda: time.monotonic() > until_s  # noqa: E731
        tried = search(trial, recipe.batch, recipe.accumulation, is_over)
    if not tried:
        raise MemoryError(f"a batch of {recipe.accumulation} does not fit")
    return tuple(tried)


def _step_s(steps: Callable[[int], None]) -> float:
    once_s = max(_timed(steps, 1), 1e-6)
    count = math.ceil(BLOCK_S / once_s)
    blocks = BLOCKS if count > 1 else 1
    return statistics.median(_timed(steps, count) for _ in range(blocks)) / count


def _timed(steps: Callable[[int], None], count: int) -> float:
    from_s = time.perf_counter()
    steps(count)
    return time.perf_counter() - from_s
