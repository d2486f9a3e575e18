"""Suggests what makes room in the device's memory, and what each costs. Pure.

Only where a step is short of memory: room that nobody needs is no advice.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.contracts import Case, Memory, Replicate, Result, Suggestion
from benchmarks.diagnosis.suggestions import Place, possible

FULL = 0.85
"""Share of the device's memory that the peak takes, from which on a step is short of it."""
FRAGMENTED = 0.15
"""Share of the held memory that nothing uses at the peak, from which on fragments are worth a try.
Rounding alone stays below a few per cent."""
WORTH_FREEING = 0.10
"""Least share of the peak for which a category is named."""
MOST = 2
"""Suggestions of room among those of a verdict: the others are for speed."""


def make_room(result: Result, place: Place) -> tuple[Suggestion, ...]:
    """Return what makes room for ``result``'s step, the cheapest first; none if it has enough."""
    recorded = ((one, one.profile.memory) for one in result.replicates if one.profile)
    replicate, memory = next(((one, held) for one, held in recorded if held), (None, None))
    if replicate is None or memory is None or not short_of_memory(result, memory):
        return ()
    told = (
        *_gradients(result.case, memory),
        *_fragments(result.case, memory, place),
        *_recomputed(result.case, memory, replicate, place),
        *_smaller(result, memory, place),
    )
    return told[:MOST]


def short_of_memory(result: Result, memory: Memory) -> bool:
    """Return True if the peak nearly fills the device, the allocator had to try again, or the batch
    is the largest that fits."""
    return (
        result.case.axes.get("batch") == "auto"
        or any(one.allocator_retries for one in result.replicates)
        or any(one.peak_memory_b >= FULL * memory.device_b for one in result.replicates)
    )


def _gradients(case: Case, memory: Memory) -> Iterator[Suggestion]:
    held_b = memory.categories.get("gradients", 0)
    if case.axes.get("zero_grad") == "zeros" and held_b:
        yield Suggestion(
            axis="zero_grad",
            value="set_to_none",
            sentence=f"zero_grad=set_to_none: {_size(held_b)} of gradients need not lie there "
            "during the forward pass; it costs nothing.",
        )


def _fragments(case: Case, memory: Memory, place: Place) -> Iterator[Suggestion]:
    if memory.fragmentation >= FRAGMENTED and possible(case, "allocator", "expandable", place):
        yield Suggestion(
            axis="allocator",
            value="expandable",
            sentence=f"allocator=expandable: the allocator holds {_size(memory.unused_b)} "
            f"({memory.fragmentation:.0%}) at the peak that nothing uses; it costs a few slower "
            "steps at the start.",
        )


def _recomputed(
    case: Case, memory: Memory, replicate: Replicate, place: Place
) -> Iterator[Suggestion]:
    held_b = memory.categories.get("activations", 0)
    if held_b < WORTH_FREEING * memory.peak_b or case.axes.get("checkpointing") == "blocks":
        return
    reason = (
        f"{_size(held_b)} of {_size(memory.peak_b)} at the peak are activations, and most of them "
        f"need not be kept; it costs one more forward pass{_forward(replicate)}."
    )
    if possible(case, "checkpointing", "blocks", place):
        sentence = f"checkpointing=blocks: {reason}"
        yield Suggestion(axis="checkpointing", value="blocks", sentence=sentence)
    else:
        yield Suggestion(sentence=f"torch.utils.checkpoint around the model's blocks: {reason}")


def _forward(replicate: Replicate) -> str:
    forward_s = replicate.phases.seconds.get("forward") if replicate.phases else None
    if forward_s is None:
        return ""
    step_s = replicate.synth.wall_s / replicate.synth.steps
    return f", {forward_s * 1e3:,.1f} ms or {forward_s / step_s:.0%} of the step"


def _smaller(result: Result, memory: Memory, place: Place) -> Iterator[Suggestion]:
    """The parts of the batch one after the other; else a smaller one, which trains differently."""
    held_b = sum(memory.categories.get(name, 0) for name in ("activations", "temporaries"))
    if held_b < WORTH_FREEING * memory.peak_b:
        return
    case, batch = result.case, int(result.environment.facts.get("flag.batch", "0"))
    parts = 2 * int(case.axes.get("accumulation", "1"))
    reason = f"up to {_size(held_b // 2)} less at the peak"
    searched = case.axes.get("batch") in ("auto", "fastest")
    whole = batch > 0 and batch % parts == 0
    if whole and not searched and possible(case, "accumulation", str(parts), place):
        yield Suggestion(
            axis="accumulation",
            value=str(parts),
            sentence=f"accumulation={parts}: {reason}, with the same update; it costs twice as "
            "many launches.",
        )
    elif batch > 1:
        yield Suggestion(
            sentence=f"Half the batch: {reason}; it costs throughput, and trains differently."
        )


def _size(size_b: int) -> str:
    return f"{size_b / 2**30:,.1f} GiB" if size_b >= 2**30 else f"{size_b / 2**20:,.0f} MiB"
