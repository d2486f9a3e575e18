"""Suggests changes of the measured code that no axis can make, from the evidence. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.contracts import Bottleneck, Replicate, Suggestion, Synchronization
from benchmarks.diagnosis import waste
from benchmarks.diagnosis.bottleneck import ALLOCATES, BUSY, Evidence, Seen, most_frequent

MOST = 2
"""Changes that a verdict suggests: the third place is left for a value of an axis."""
DISK = 0.10
"""Share of a sample's time from which the disk is named."""


def worth_a_try(
    limit: Bottleneck,
    replicates: Sequence[Replicate],
    seen: Seen | None,
    evidence: Evidence,
    bounds: Evidence,
) -> tuple[Suggestion, ...]:
    """Return the changes that may lift the limit, the most promising first.

    None is suggested whose bound is within the noise of the measurement.
    """
    sentences: list[str] = []
    idle = seen is not None and _gaps_are_certain(evidence, bounds)
    if seen is not None and idle:
        sentences += _about_waits(seen.waits, bounds)
        sentences += _about_memory(seen.allocations)
    sentences += waste.sentences(replicates, evidence)
    if idle:
        sentences += waste.breaks(replicates)
    if limit is Bottleneck.LATENCY:
        sentences.append(
            "A larger batch, or fewer and larger kernels: "
            f"{evidence['small_kernels']:.0%} of the kernels' time cannot fill the device."
        )
    if limit is Bottleneck.INPUT and (disk := evidence.get("sample_disk", 0.0)) >= DISK:
        sentences.append(
            f"A faster disk, or data in memory: the disk takes {disk:.0%} of a sample."
        )
    return tuple(Suggestion(sentence=sentence[:500]) for sentence in sentences[:MOST])


def _gaps_are_certain(evidence: Evidence, bounds: Evidence) -> bool:
    gain = bounds.get("without_launch_gaps", 1.0) - 1.0
    return evidence.get("busy", 1.0) <= BUSY and gain > evidence.get("noise", 0.0)


def _about_waits(waits: Sequence[Synchronization], bounds: Evidence) -> list[str]:
    if not waits:
        return []
    (worst, times), bound = most_frequent(waits), bounds["without_launch_gaps"]
    return [
        f"{worst.source} makes the host wait for the device {times} a step ({worst.what}), and the "
        f"device is idle for {1 - 1 / bound:.0%} of it: without waits up to x{bound:.2f}."
    ]


def _about_memory(allocations: float) -> list[str]:
    if allocations < ALLOCATES:
        return []
    return [
        "No torch.cuda.empty_cache() in the step, a smaller batch, or fewer sizes of tensors: the "
        f"driver gives memory or takes it back {allocations:,.0f} times a step."
    ]
