"""Replays the allocator's record of one step: bytes alive by category, and at the peak by line.
Pure.

A block's category follows from its address where the code knows it, else from its lifetime: an
activation outlives the forward pass that allocated it, a temporary does not outlive its phase.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from benchmarks.contracts import Memory, MemoryLine

PARAMETERS, OPTIMIZER, GRADIENTS = "parameters", "optimizer", "gradients"
INPUTS, ACTIVATIONS, TEMPORARIES = "inputs", "activations", "temporaries"
WORKSPACE, GRAPHS, KEPT = "workspace", "graphs", "kept"
CATEGORIES = (
    *(PARAMETERS, OPTIMIZER, KEPT, WORKSPACE, GRAPHS, INPUTS),
    *(GRADIENTS, ACTIVATIONS, TEMPORARIES),
)
"""Every category, what lasts longest first."""
START, FORWARD, UPDATE = "start", "forward", "optimizer"
"""Phases of a step that decide on a category; `phases` marks them."""
WORKSPACES_B = frozenset({8_519_680, 33_554_432})
"""Sizes of cuBLAS's workspace by default: 2 of 4 MiB and 8 of 16 KiB; 32 MiB from Hopper on."""
POINTS = 120
"""Instants that are told of the step, at most."""
TOP = 20
"""Lines that are told, at most."""
_HELD = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}
"""Actions by which the allocator gets memory from the driver, and gives it back."""


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of memory and the line that allocated it."""

    address: int
    size_b: int
    line: str = ""


@dataclass(frozen=True, slots=True)
class AllocatorEvent:
    """One action of the allocator in the step."""

    action: str
    """alloc, free_requested, free_completed, or one on whole segments."""
    block: Block
    at_s: float
    """Since the step began."""
    phase: str = ""


@dataclass(frozen=True)
class Recording:
    """One step as the allocator recorded it."""

    blocks: tuple[Block, ...]
    """Alive as the step began."""
    events: tuple[AllocatorEvent, ...]
    known: dict[int, str] = field(default_factory=dict)
    """Categories of blocks alive at the start, by their addresses."""
    gradients: frozenset[int] = frozenset()
    """Addresses of the gradients as the update began."""
    reserved_b: int = 0
    """Held by the allocator as the step began."""
    pools_b: tuple[int, ...] = ()
    device_b: int = 0


@dataclass(slots=True)
class _Life:
    """A block with the places of the events that made and freed it."""

    block: Block
    born: int = -1
    """-1: before the step."""
    died: int = -1
    category: str = ""


@dataclass(frozen=True, slots=True)
class _Instant:
    """Bytes alive after one event."""

    place: int
    at_s: float
    held_b: int
    alive_b: Mapping[str, int]

    @property
    def total_b(self) -> int:
        return sum(self.alive_b.values())


def replay(recording: Recording) -> Memory:
    """Return what the step holds over its time, and at its peak."""
    lives = _lives(recording)
    instants = list(_instants(recording, lives))
    peak = max(instants, key=lambda one: one.total_b)
    told = _fullest(instants)
    seen = [name for name in CATEGORIES if any(one.alive_b.get(name) for one in told)]
    begins: dict[str, float] = {}
    for event in recording.events:
        begins.setdefault(event.phase, event.at_s)
    return Memory(
        device_b=recording.device_b,
        peak_b=peak.total_b,
        peak_at_s=peak.at_s,
        reserved_b=peak.held_b,
        categories={name: b for name in seen if (b := peak.alive_b.get(name, 0))},
        lines=_lines(life for life in lives if life.born <= peak.place < life.died),
        pools_b=tuple(sorted(recording.pools_b, reverse=True)[:100]),
        phases_s={phase: s for phase, s in begins.items() if phase and FORWARD in begins},
        at_s=tuple(one.at_s for one in told),
        alive_b={name: tuple(one.alive_b.get(name, 0) for one in told) for name in seen},
        held_b=tuple(one.held_b for one in told),
    )


def _lives(recording: Recording) -> list[_Life]:
    """Every block of the step with its lifetime and category."""
    end = len(recording.events)
    alive = {block.address: _Life(block, died=end) for block in recording.blocks}
    lives = list(alive.values())
    for place, event in enumerate(recording.events):
        if event.action == "alloc":
            alive[event.block.address] = life = _Life(event.block, place, end)
            lives.append(life)
        elif event.action == "free_completed" and event.block.address in alive:
            alive.pop(event.block.address).died = place
    runs = _runs(recording.events)
    update = next((n for n, event in enumerate(recording.events) if event.phase == UPDATE), end)
    for life in lives:
        of_gradient = life.block.address in recording.gradients and life.born < update <= life.died
        life.category = GRADIENTS if of_gradient else _category(life, recording, runs)
    return lives


def _runs(events: Sequence[AllocatorEvent]) -> list[int]:
    """Number the phase of each event; with accumulation each forward pass has its own number."""
    runs = [0] if events else []
    for before, event in pairwise(events):
        runs.append(runs[-1] + (before.phase != event.phase))
    return runs


def _category(life: _Life, recording: Recording, runs: Sequence[int]) -> str:
    """Category of a block that is no gradient."""
    block = life.block
    if life.born < 0:
        lasting = WORKSPACE if block.size_b in WORKSPACES_B else KEPT
        return recording.known.get(block.address, lasting)
    if life.died == len(runs):
        return KEPT
    if runs[life.born] == runs[life.died]:
        return TEMPORARIES
    outlives = {START: INPUTS, FORWARD: ACTIVATIONS}
    return outlives.get(recording.events[life.born].phase, TEMPORARIES)


def _instants(recording: Recording, lives: Sequence[_Life]) -> Iterator[_Instant]:
    """The start of the step, and every event."""
    born = {life.born: life for life in lives if life.born >= 0}
    died = {life.died: life for life in lives}
    alive: Counter[str] = Counter()
    for life in lives:
        if life.born < 0:
            alive[life.category] += life.block.size_b
    held_b = recording.reserved_b
    yield _Instant(-1, 0.0, held_b, dict(alive))
    for place, event in enumerate(recording.events):
        if life_begun := born.get(place):
            alive[life_begun.category] += life_begun.block.size_b
        if life_ended := died.get(place):
            alive[life_ended.category] -= life_ended.block.size_b
        held_b += _HELD.get(event.action, 0) * event.block.size_b
        yield _Instant(place, max(0.0, event.at_s), max(0, held_b), dict(alive))


def _fullest(instants: Sequence[_Instant]) -> list[_Instant]:
    """The fullest instant of each equal part of the time, with the first and the last one."""
    first, last = instants[0], instants[-1]
    span_s = last.at_s - first.at_s
    parts: dict[int, _Instant] = {}
    for one in instants:
        part = int((one.at_s - first.at_s) / span_s * (POINTS - 3)) if span_s > 0 else 0
        if part not in parts or one.total_b > parts[part].total_b:
            parts[part] = one
    chosen = {one.place: one for one in (first, *parts.values(), last)}
    return [chosen[place] for place in sorted(chosen)]


def _lines(alive: Iterator[_Life]) -> tuple[MemoryLine, ...]:
    sizes: Counter[tuple[str, str]] = Counter()
    blocks: Counter[tuple[str, str]] = Counter()
    for life in alive:
        if not life.block.line:
            continue
        sizes[life.block.line, life.category] += life.block.size_b
        blocks[life.block.line, life.category] += 1
    return tuple(
        MemoryLine(source=key[0], category=key[1], size_b=size_b, blocks=blocks[key])
        for key, size_b in sizes.most_common(TOP)
    )
