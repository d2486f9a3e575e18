"""Records one step with the allocator's own history, and reads it into a `Recording`.

Each phase is marked by an allocation of one byte: it stands in the allocator's history at its very
place, whatever clock that history has.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from benchmarks.contracts import Memory
from benchmarks.contracts.values import line
from benchmarks.measure.device import free_memory
from benchmarks.measure.profile import observation, replay
from benchmarks.measure.profile.phases import Laps, marked
from benchmarks.measure.timestamps import drain, maker
from benchmarks.measure.trainer import Trainer
from benchmarks.workload import Batch

MOST_EVENTS = 200_000
"""Events of the history: a few kB each with its stack."""
COMPILED = "compiled code"
"""Stands for the lines of the files that a compiler wrote."""
BEGINNING = "beginning"
"""Stands for the phase of the first mark, before which nothing is of the step."""
_AFTERWARDS = "end"
Frames = Sequence[Mapping[str, Any]]


class TooLong(RuntimeError):
    """The history does not reach back to the beginning of the step."""


class _Marks(Laps):
    """Marks the phases of a step in the allocator's history, and notes where gradients lie."""

    def __init__(self, trainer: Trainer) -> None:
        super().__init__(maker(trainer.device))
        self._trainer = trainer
        self._held: list[Tensor] = []
        self.ends: dict[int, str] = {}
        """Phases by the address of the allocation that ended them."""
        self.gradients: set[int] = set()

    def end(self, phase: str) -> None:
        """Allocate one byte, and keep it."""
        self._held.append(torch.empty(1, dtype=torch.uint8, device=self._trainer.device))
        self.ends[self._held[-1].data_ptr()] = phase
        grads = (parameter.grad for parameter in self._trainer.model.parameters())
        self.gradients.update(_addresses(grads))


def memory(trainer: Trainer, ring: Sequence[Batch]) -> Memory | None:
    """Record one step over a batch on the device; None on a CPU.

    Raises:
        RuntimeError: this allocator keeps no history, or it was too long.
    """
    if trainer.device.type != "cuda":
        return None
    free_memory(trainer.device)  # what earlier passes left would be taken for fragments
    with _history(), marked(trainer) as current:
        current[0] = _Marks(trainer)
        trainer.step(trainer.place(ring[0]))  # what it leaves behind has its line
        drain(trainer.device)
        current[0] = marks = _Marks(trainer)
        marks.end(BEGINNING)
        before = torch.cuda.memory._snapshot()
        known = _known(trainer, ring)
        placed = trainer.place(ring[-1])
        marks.end(replay.START)
        trainer.step(placed)
        marks.end(replay.UPDATE)
        drain(trainer.device)
        after = torch.cuda.memory._snapshot()
    recorded = recording(before, after, trainer.device.index or 0, marks.ends)
    recorded = replace(
        recorded,
        known=known | recorded.known,
        gradients=frozenset(marks.gradients),
        device_b=torch.cuda.get_device_properties(trainer.device).total_memory,
    )
    return replay.replay(recorded)


@contextmanager
def _history() -> Iterator[None]:
    """Keep the allocator's history meanwhile."""
    try:
        torch.cuda.memory._record_memory_history(
            "all", context="alloc", stacks="python", max_entries=MOST_EVENTS
        )
        yield
    finally:
        torch.cuda.memory._record_memory_history(None)


def _known(trainer: Trainer, ring: Sequence[Batch]) -> dict[int, str]:
    groups = {
        replay.INPUTS: [*tree_leaves(list(ring)), *trainer.inputs],
        replay.OPTIMIZER: tree_leaves(list(trainer.optimizer.state.values())),
        replay.PARAMETERS: [*trainer.model.parameters(), *trainer.model.buffers()],
    }
    return {at: name for name, tensors in groups.items() for at in _addresses(tensors)}


def _addresses(tensors: Iterable[object]) -> Iterator[int]:
    for tensor in tensors:
        if isinstance(tensor, Tensor):
            try:
                yield tensor.untyped_storage().data_ptr()
            except (RuntimeError, NotImplementedError):  # a wrapper without storage of its own
                continue


def recording(
    before: Mapping[str, Any], after: Mapping[str, Any], index: int, ends: Mapping[int, str]
) -> replay.Recording:
    """Read two snapshots, from before and after a step, into the record of that step.

    ``index`` is the device's; ``ends`` are phases by the address of the allocation that ended them.

    Raises:
        TooLong: the mark of the beginning has fallen out of the history.
    """
    segments = [one for one in before["segments"] if one["device"] == index]
    private = [one for one in segments if tuple(one.get("segment_pool_id", (0, 0))) != (0, 0)]
    # A private pool is one block: its graphs use it again and again without an event.
    pools = [replay.Block(one["address"], one["total_size"]) for one in private]
    usual = [one for one in segments if one not in private]
    pool_b: dict[tuple[int, ...], int] = defaultdict(int)
    for one in private:
        pool_b[tuple(one["segment_pool_id"])] += one["total_size"]
    return replay.Recording(
        blocks=(*pools, *(block for one in usual for block in _alive(one, ends))),
        events=tuple(_events(after["device_traces"][index], ends, pools)),
        known={pool.address: replay.GRAPHS for pool in pools},
        reserved_b=sum(one["total_size"] for one in segments),
        pools_b=tuple(pool_b.values()),
    )


def _alive(segment: Mapping[str, Any], ends: Mapping[int, str]) -> Iterator[replay.Block]:
    for block in segment["blocks"]:
        if block["state"] != "inactive" and block["address"] not in ends:
            size_b = block.get("requested_size", block["size"])
            yield replay.Block(block["address"], size_b, source(block.get("frames", ())))


def _events(
    trace: Sequence[Mapping[str, Any]], ends: Mapping[int, str], pools: Sequence[replay.Block]
) -> list[replay.AllocatorEvent]:
    """The events of the step with their phases, told from the last one backwards."""
    waiting, phase = dict(ends), _AFTERWARDS
    told: list[tuple[Mapping[str, Any], str]] = []
    for entry in reversed(trace):
        address = entry.get("addr", 0)
        if entry["action"] == "alloc" and address in waiting:
            phase = waiting.pop(address)
            if phase == BEGINNING:
                break
        elif not any(pool.address <= address < pool.address + pool.size_b for pool in pools):
            told.append((entry, phase))
    else:
        raise TooLong(f"the step has more than {MOST_EVENTS:,} events")
    from_us = min((entry["time_us"] for entry, _ in told), default=0)
    return [_event(entry, phase, from_us) for entry, phase in reversed(told)]


def _event(entry: Mapping[str, Any], phase: str, from_us: int) -> replay.AllocatorEvent:
    frames = entry.get("frames", ()) if entry["action"] == "alloc" else ()
    block = replay.Block(entry.get("addr", 0), entry["size"], source(frames))
    return replay.AllocatorEvent(entry["action"], block, (entry["time_us"] - from_us) / 1e6, phase)


def source(frames: Frames) -> str:
    """``file:line`` of the workload that allocated, else of what is nearest to it; or empty."""
    places = [(str(one["filename"]), int(one["line"])) for one in frames]
    found = observation.line_among(places)
    if not found and any(observation.is_generated(name) for name, _ in places):
        return COMPILED
    return line(found or observation.nearest_among(places))
