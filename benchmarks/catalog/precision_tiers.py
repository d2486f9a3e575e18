"""Tiers of precision: the number of processes of a measurement, and the time in each.

Without pydantic until a tier is used: the help of a command that names the tiers waits for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.contracts import Protocol


class Tier(StrEnum):
    """The precision wanted of an answer."""

    QUICK = "quick"
    """One process and short windows: a first look that makes no point in a series."""
    STANDARD = "standard"
    """Three processes: enough to compare two revisions without a history."""
    GATE = "gate"
    """Five processes and longer windows: for a decision."""


TIMING: Mapping[Tier, Mapping[str, Any]] = {
    Tier.QUICK: {
        "warmup_max_s": 20.0,
        "settle_max_s": 0.0,
        "window_min_steps": 20,
        "window_max_s": 8.0,
        "block_min_steps": 2,
        "precision": 0.01,
    },
    Tier.STANDARD: {
        "replicates": 3,
        "settle_max_s": 8.0,
        "window_min_steps": 12,
        "window_min_blocks": 6,
        "window_max_s": 8.0,
        "block_min_steps": 2,
    },
    Tier.GATE: {"replicates": 5, "window_min_s": 10.0, "precision": 0.0025},
}
"""What differs from the default protocol."""


def timed(tier: Tier, beside: Protocol | None = None) -> Protocol:
    """The protocol of ``tier``, with the further passes of ``beside``."""
    from benchmarks.contracts import Protocol  # noqa: PLC0415 - see above
    from benchmarks.contracts.case import BESIDE  # noqa: PLC0415

    kept = {name: getattr(beside, name) for name in BESIDE} if beside else {}
    return Protocol(**TIMING[tier], **kept)
